package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/publish/progress"
)

// view shows a run again and again.
type view interface {
	// show shows how it stands now; with last it will not be called again.
	show(s publish.Status, now time.Time, last bool) error
}

// jsonLines is a document a look.
type jsonLines struct{ out *json.Encoder }

func (v jsonLines) show(s publish.Status, _ time.Time, _ bool) error { return v.out.Encode(s) }

// lines is a line a look, and a table at the end.
type lines struct {
	out  io.Writer
	pace pace
}

func (v *lines) show(s publish.Status, now time.Time, last bool) error {
	if last {
		return writeStatus(v.out, s)
	}
	perSecond, eta := v.pace.look(s, now)
	_, err := fmt.Fprintf(v.out, "%s: ok %d, failed %d, outstanding %d of %d, %.1f items/s, ETA %s\n",
		s.RunID, s.OK, s.Failed, s.Outstanding, s.Published, perSecond, eta)
	return err
}

// pace is how fast results came in of late.
type pace struct{ rate progress.Rate }

// look returns the items a second, and how long the rest takes at that.
func (p *pace) look(s publish.Status, now time.Time) (perSecond float64, eta string) {
	p.rate.Add(now, s.OK+s.Failed)
	perSecond = p.rate.PerSecond()
	switch {
	case s.Complete:
		return perSecond, "done"
	case perSecond <= 0:
		return 0, "unknown"
	}
	return perSecond, progress.Duration(time.Duration(float64(s.Outstanding) / perSecond * float64(time.Second)))
}

// live is drawn anew in its place on a terminal.
type live struct {
	out   io.Writer
	width func() int
	pace  pace
	drawn int // lines of the last drawing
}

// Codes of a terminal.
const (
	lineUp    = "\x1b[%dA"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
	green     = "\x1b[32m"
	red       = "\x1b[31m"
	plain     = "\x1b[0m"
)

func (v *live) show(s publish.Status, now time.Time, last bool) error {
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, lineUp, v.drawn)
	}
	drawing := v.draw(s, now)
	for _, line := range drawing {
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearRest)
	v.drawn = len(drawing)
	if last && s.Failed > 0 {
		fmt.Fprintf(&b, "see them with: publisher export --run %s --status FAILED\n", s.RunID)
	}
	_, err := io.WriteString(v.out, b.String())
	return err
}

// draw returns the lines of the view. None is wider than the terminal, since
// one that wraps would be counted as one and stay behind.
func (v *live) draw(s publish.Status, now time.Time) []string {
	width := v.width() - 1
	perSecond, eta := v.pace.look(s, now)
	drawing := []string{
		fit(fmt.Sprintf("run %s  %s", s.RunID, s.State), width),
		v.bar(s, width),
		fit(fmt.Sprintf("ok %s  failed %s  outstanding %s of %s", progress.Number(s.OK), progress.Number(s.Failed),
			progress.Number(s.Outstanding), progress.Number(s.Published)), width),
		fit(fmt.Sprintf("%.1f items/s  ETA %s", perSecond, eta), width),
	}
	for _, f := range s.Failures {
		drawing = append(drawing, fit(fmt.Sprintf("  failed %s: %s, such as %s", f.Class, progress.Number(f.Items), f.Example), width))
	}
	return drawing
}

// bar shows ok as #, failed as x and outstanding as -. Whatever there is any
// of takes at least one place.
func (v *live) bar(s publish.Status, width int) string {
	done := s.OK + s.Failed
	size := max(10, min(60, width-8))
	places := func(items int64) int {
		if items == 0 || s.Published == 0 {
			return 0
		}
		return max(1, int(float64(items)/float64(max(s.Published, done))*float64(size)))
	}
	rest, failed := places(s.Outstanding), places(s.Failed)
	ok := max(0, size-rest-failed)
	if done == 0 {
		ok, failed, rest = 0, 0, size
	}
	return progress.Gauge(done, s.Published, 0) + " [" + green + strings.Repeat("#", ok) + red + strings.Repeat("x", failed) + plain + strings.Repeat("-", rest) + "]"
}

// fit cuts a line to so many characters.
func fit(line string, width int) string {
	if runes := []rune(line); width > 0 && len(runes) > width {
		return string(runes[:width])
	}
	return line
}
