package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// plan is where a process dies: at a pass of a point, counted from 1. The zero
// value never does. It is safe for concurrent use.
type plan struct {
	point  Point
	pass   int64
	passed atomic.Int64
}

// parse reads POINT or POINT:PASS; empty is a plan in which nobody dies.
func parse(value string) (*plan, error) {
	if value == "" {
		return &plan{}, nil
	}
	name, count, counted := strings.Cut(value, ":")
	p := &plan{point: Point(name), pass: 1}
	if !slices.Contains(Points(), p.point) {
		return nil, fmt.Errorf("there is no crash point %q; there are %q", name, Points())
	}
	if counted {
		pass, err := strconv.ParseInt(count, 10, 64)
		if err != nil || pass < 1 {
			return nil, fmt.Errorf("%q is not a number of passes from 1 on", count)
		}
		p.pass = pass
	}
	return p, nil
}

// reached counts a pass of a point. It reports whether the process is to die at it,
// and whether this is the pass that kills it: those after it are held up.
func (p *plan) reached(at Point) (here, kill bool) {
	if at != p.point {
		return false, false
	}
	n := p.passed.Add(1)
	return n >= p.pass, n == p.pass
}
