// Package fault breaks calls on demand: an error code, a delay, a reply that is lost after the effect took
// place, a closed stream, or silence. Rules act through gRPC server interceptors and an HTTP handler.
package fault

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// When says on which side of the effect a fault strikes.
type When int

const (
	// Before keeps the call from having any effect. On a stream it strikes when the stream opens.
	Before When = iota
	// After lets the call do its work and then takes the answer away. On a stream it strikes at the first
	// message that the server sends.
	After
)

// Rule is one fault. The zero value of each field is its mildest meaning; a Rule must have at least one of
// Code, Delay, BlackHole and Close.
type Rule struct {
	// Service is the full name of the gRPC service, like "google.spanner.v1.Spanner", or the name under which
	// an HTTP handler was wrapped; empty: any.
	Service string
	// Method is the method's name, like "Commit"; empty: any.
	Method string
	// When is the side of the effect.
	When When
	// Code is what the caller gets instead of an answer; OK: the answer itself (after Delay).
	Code codes.Code
	// Message goes with Code; empty: one that names the method.
	Message string
	// Delay is waited before anything else happens; the caller's deadline ends it.
	Delay time.Duration
	// BlackHole never answers: the call hangs until the caller gives up or the server stops.
	BlackHole bool
	// Close ends streams with Code (OK: Unavailable): at once those that are open when the rule is added, and
	// then those that open, as far as Count goes. It strikes no unary call.
	Close bool
	// Count is how many calls the rule strikes before it is spent; 0: no end.
	Count int
	// Probability is the share of matching calls that are struck, 0 to 1; 0 means 1, every call.
	Probability float64
	// Seed makes the choice of calls by Probability repeatable.
	Seed uint64
}

// Validate says what is wrong with a rule, nil if nothing is. Add trusts its rules.
func (r Rule) Validate() error {
	switch {
	case r.Code == codes.OK && r.Delay == 0 && !r.BlackHole && !r.Close:
		return errors.New("the fault does nothing: it needs a code, a delay, black_hole or close")
	case r.Code > codes.Unauthenticated:
		return errors.New("there is no such code")
	case r.BlackHole && (r.Code != codes.OK || r.Close):
		return errors.New("black_hole never answers: it goes with neither code nor close")
	case r.Close && (r.Delay != 0 || r.When != Before):
		return errors.New("close strikes at once: it goes with neither delay nor when")
	case r.Delay < 0:
		return errors.New("delay must not be negative")
	case r.Count < 0:
		return errors.New("count must not be negative")
	case !(r.Probability >= 0 && r.Probability <= 1): // NaN is neither
		return errors.New("probability must be between 0 and 1")
	}
	return nil
}

func (r Rule) matches(call call) bool {
	return (r.Service == "" || r.Service == call.service) && (r.Method == "" || r.Method == call.method) && (!r.Close || call.stream)
}

// call is what a rule is matched with.
type call struct {
	service, method string
	stream          bool
}

// rpc splits a gRPC method's full name.
func rpc(fullMethod string, stream bool) call {
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	return call{service: service, method: method, stream: stream}
}

// armed is a rule with what is left of it.
type armed struct {
	Rule
	id     int
	left   int // negative: no end
	struck int
	rng    *rand.Rand
}

// Faults is a set of rules. Make one with New. It is safe for concurrent use.
type Faults struct {
	mu    sync.Mutex
	next  int
	rules []*armed

	open   map[*openStream]struct{}
	opened int // streams so far
}

// openStream is a stream that is being served.
type openStream struct {
	call
	number int                     // in the order of opening
	end    context.CancelCauseFunc // ends the stream; the cause is a closed
}

// New returns a set without rules: nothing breaks.
func New() *Faults { return &Faults{open: map[*openStream]struct{}{}} }

// Add adds a rule behind those that are there and returns its ID for Remove. The first rule that strikes a
// call is the only one to do so.
func (f *Faults) Add(r Rule) (id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	left := r.Count
	if left == 0 {
		left = -1
	}
	rule := &armed{Rule: r, id: f.next, left: left, rng: rand.New(rand.NewPCG(r.Seed, r.Seed))}
	f.rules = append(f.rules, rule)
	if r.Close {
		f.closeOpen(rule)
	}
	return rule.id
}

// closeOpen lets a new rule strike the streams that are open, the oldest first. f.mu is held.
func (f *Faults) closeOpen(rule *armed) {
	streams := make([]*openStream, 0, len(f.open))
	for s := range f.open {
		streams = append(streams, s)
	}
	slices.SortFunc(streams, func(a, b *openStream) int { return cmp.Compare(a.number, b.number) })
	for _, s := range streams {
		if rule.left != 0 && f.hits(rule, s.call) {
			s.end(closed{rule.failure(s.method)})
		}
	}
}

// Remove takes a rule away and reports whether it was there. Calls that hang in it go on to hang.
func (f *Faults) Remove(id int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.rules)
	f.rules = slices.DeleteFunc(f.rules, func(rule *armed) bool { return rule.id == id })
	return len(f.rules) < before
}

// Clear takes all rules away and returns how many there were.
func (f *Faults) Clear() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.rules)
	f.rules = nil
	return n
}

// Active is a rule that can still strike.
type Active struct {
	ID     int
	Rule   Rule // Count is what is left of it; 0: no end
	Struck int  // calls so far
}

// Active returns the rules that can still strike, in the order in which they were added. A rule whose Count
// is used up is not among them.
func (f *Faults) Active() []Active {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Active, 0, len(f.rules))
	for _, rule := range f.rules {
		current := Active{ID: rule.id, Rule: rule.Rule, Struck: rule.struck}
		current.Rule.Count = max(rule.left, 0)
		list = append(list, current)
	}
	return list
}

// Rules is Active without IDs.
func (f *Faults) Rules() []Rule {
	active := f.Active()
	rules := make([]Rule, 0, len(active))
	for i := range active {
		rules = append(rules, active[i].Rule)
	}
	return rules
}

// strike picks the rule for a call, if any, and uses it up.
func (f *Faults) strike(c call) (Rule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pick(c)
}

// enter is strike for a stream, which from then on is open until leave.
func (f *Faults) enter(c call, end context.CancelCauseFunc) (s *openStream, rule Rule, struck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	s = &openStream{call: c, number: f.opened, end: end}
	f.open[s] = struct{}{}
	rule, struck = f.pick(c)
	return s, rule, struck
}

func (f *Faults) leave(s *openStream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, s)
}

func (f *Faults) pick(c call) (Rule, bool) {
	for _, rule := range f.rules {
		if f.hits(rule, c) {
			return rule.Rule, true
		}
	}
	return Rule{}, false
}

// hits decides whether a rule strikes a call, and takes it away once it is spent. f.mu is held.
func (f *Faults) hits(rule *armed, c call) bool {
	if !rule.matches(c) || rule.Probability > 0 && rule.rng.Float64() >= rule.Probability {
		return false
	}
	rule.struck++
	if rule.left > 0 {
		if rule.left--; rule.left == 0 {
			f.rules = slices.DeleteFunc(slices.Clone(f.rules), func(other *armed) bool { return other == rule })
		}
	}
	return true
}
