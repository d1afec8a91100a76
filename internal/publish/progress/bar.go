package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"github.com/spotbatch/spotbatch/internal/dataset"
)

// drawInterval is the least time between two drawings.
const drawInterval = 100 * time.Millisecond

// Codes of a terminal: to the line's start, and to clear it to its end.
const (
	lineStart = "\r"
	clearLine = "\x1b[K"
)

// Bar draws one line on a terminal. Its methods are not safe for concurrent
// use.
type Bar struct {
	out io.Writer
	// width is the number of columns.
	width func() int
	now   func() time.Time
	pass  pass
	done  dataset.Counts
	last  time.Time
}

// NewBar returns a bar that draws on out, a terminal of width columns.
func NewBar(out io.Writer, width func() int) *Bar {
	return &Bar{out: out, width: width, now: time.Now}
}

// Begin implements publish.Progress.
func (b *Bar) Begin(what string, total int64, done dataset.Counts) {
	b.pass = begin(what, total, done, b.now())
	b.done = done
	b.draw()
}

// Show implements publish.Progress.
func (b *Bar) Show(done dataset.Counts) {
	now := b.now()
	b.done = done
	b.pass.rate.Add(now, reached(done, b.pass.total))
	if now.Sub(b.last) >= drawInterval {
		b.draw()
	}
}

// End implements publish.Progress. What is drawn last is how far the pass came.
func (b *Bar) End() {
	b.draw()
	_, _ = fmt.Fprintln(b.out)
}

// draw draws the line. A terminal that cannot be written to is no reason to
// stop.
func (b *Bar) draw() {
	b.last = b.now()
	_, _ = io.WriteString(b.out, lineStart+b.line(b.width())+clearLine)
}

// line is the bar in at most width columns: numbers first, and the bar in what
// they leave.
func (b *Bar) line(width int) string {
	parts := []string{Bytes(b.done.Bytes), fmt.Sprintf("%s items/s", Number(int64(b.pass.rate.PerSecond())))}
	if b.pass.total < 0 {
		parts = append([]string{Number(b.done.Read) + " rows"}, parts...)
	} else {
		parts = append([]string{Number(b.done.Items) + " of " + Number(b.pass.total)}, parts...)
		eta := "ETA unknown"
		if left, known := b.pass.eta(b.done); known {
			eta = "ETA " + Duration(left)
		}
		parts = append(parts, eta)
	}
	if b.done.Rejected > 0 {
		parts = append(parts, Number(b.done.Rejected)+" bad rows")
	}
	text := strings.Join(parts, ", ")
	head := b.pass.what
	if b.pass.total >= 0 {
		head += " " + Gauge(b.done.Items, b.pass.total, min(40, width-1-len(b.pass.what)-len(text)-9))
	}
	return cut(head+" "+text, width-1)
}

// Gauge is a percentage and a bar of size columns; without room, only the
// first. It never says 100% of something that is not all.
func Gauge(done, total int64, size int) string {
	if total <= 0 {
		done, total = 1, 1
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(io.Discard),
		progressbar.OptionSetWidth(max(size, 1)),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "#", SaucerPadding: "-", BarStart: "[", BarEnd: "]"}),
	)
	// Neither fails on a writer that takes everything.
	_ = bar.RenderBlank()
	_ = bar.Set64(min(done, total))
	gauge := strings.TrimSpace(bar.String())
	percent, _, _ := strings.Cut(gauge, " ")
	// One width for all percentages, so that the bar does not jump.
	pad := strings.Repeat(" ", max(0, len("100%")-len(percent)))
	if size < 5 {
		return pad + percent
	}
	return pad + gauge
}

// cut shortens text to so many characters.
func cut(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width])
}

// Number writes n with commas.
func Number(n int64) string {
	digits := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Bytes writes a size with three digits or so.
func Bytes(n int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB", "EB"}
	value, unit := float64(n), 0
	for value >= 1000 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if unit == 0 || value >= 100 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// Duration rounds d to what people want to know.
func Duration(d time.Duration) string {
	if d > 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}
