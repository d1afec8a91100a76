// Package progress shows how far publishing is: as a bar on a terminal, as a
// log line every ten seconds anywhere else.
package progress

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/spotbatch/spotbatch/internal/publish"
)

var (
	_ publish.Progress = (*Bar)(nil)
	_ publish.Progress = (*Log)(nil)
)

// logInterval is the time between two log lines.
const logInterval = 10 * time.Second

// Bar draws on a terminal. Its methods are not safe for concurrent use.
type Bar struct {
	out   io.Writer
	bar   *progressbar.ProgressBar
	total int64
}

// NewBar returns a bar that draws on out, which must be a terminal.
func NewBar(out io.Writer) *Bar { return &Bar{out: out} }

// Begin implements publish.Progress.
func (b *Bar) Begin(what string, total int64) {
	b.total = total
	b.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(b.out),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetItsString("items"),
		progressbar.OptionShowIts(),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		// Without it a goroutine turns the spinner, and never stops.
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionFullWidth(),
	)
}

// Show implements publish.Progress. A terminal that cannot be written to is no
// reason to stop publishing.
func (b *Bar) Show(items, _ int64) { _ = b.bar.Set64(items) }

// End implements publish.Progress.
func (b *Bar) End() {
	if b.total < 0 {
		_ = b.bar.Finish()
	} else {
		// Finish would say that all is done, also after an error.
		_ = b.bar.Exit()
	}
	_, _ = fmt.Fprintln(b.out)
}

// Log writes log lines. Its methods are not safe for concurrent use.
type Log struct {
	log   *slog.Logger
	now   func() time.Time
	what  string
	total int64
	start time.Time
	last  time.Time
}

// NewLog returns a progress that writes to log.
func NewLog(log *slog.Logger) *Log { return &Log{log: log, now: time.Now} }

// Begin implements publish.Progress.
func (l *Log) Begin(what string, total int64) {
	l.what, l.total = what, total
	l.start = l.now()
	l.last = l.start
}

// Show implements publish.Progress.
func (l *Log) Show(items, bytes int64) {
	now := l.now()
	if now.Sub(l.last) < logInterval {
		return
	}
	l.last = now
	rate := float64(items) / now.Sub(l.start).Seconds()
	attrs := []any{"phase", l.what, "items", items, "bytes", bytes, "items_per_second", int64(rate)}
	if l.total >= 0 {
		attrs = append(attrs, "total", l.total)
		if rate > 0 {
			attrs = append(attrs, "eta_seconds", int64(float64(l.total-items)/rate))
		}
	}
	l.log.Info("progress", attrs...)
}

// End implements publish.Progress.
func (l *Log) End() {}
