// Package progress shows how far a long job is: as a line that is drawn anew on
// a terminal, as a log line every ten seconds anywhere else.
package progress

import (
	"log/slog"
	"time"

	"github.com/spotbatch/spotbatch/internal/dataset"
	"github.com/spotbatch/spotbatch/internal/publish"
)

var (
	_ publish.Progress = (*Bar)(nil)
	_ publish.Progress = (*Log)(nil)
)

// logInterval is the time between two log lines.
const logInterval = 10 * time.Second

// pass is one pass over a dataset, as both kinds see it.
type pass struct {
	what  string
	total int64
	start time.Time
	rate  Rate
}

func begin(what string, total int64, done dataset.Counts, now time.Time) pass {
	p := pass{what: what, total: total, start: now}
	p.rate.Add(now, reached(done, total))
	return p
}

// reached is the number that total is compared with: while a dataset is
// checked, and nobody knows how many items it has, all that was read.
func reached(done dataset.Counts, total int64) int64 {
	if total < 0 {
		return done.Read
	}
	return done.Items
}

// eta is the time that the rest takes at the rate of late; false when that is
// not known.
func (p *pass) eta(done dataset.Counts) (time.Duration, bool) {
	perSecond := p.rate.PerSecond()
	if p.total < 0 || perSecond <= 0 {
		return 0, false
	}
	return time.Duration(float64(p.total-done.Items) / perSecond * float64(time.Second)), true
}

// Log writes log lines. Its methods are not safe for concurrent use.
type Log struct {
	log  *slog.Logger
	now  func() time.Time
	pass pass
	last time.Time
}

// NewLog returns a progress that writes to log.
func NewLog(log *slog.Logger) *Log { return &Log{log: log, now: time.Now} }

// Begin implements publish.Progress.
func (l *Log) Begin(what string, total int64, done dataset.Counts) {
	l.last = l.now()
	l.pass = begin(what, total, done, l.last)
}

// Show implements publish.Progress.
func (l *Log) Show(done dataset.Counts) {
	now := l.now()
	l.pass.rate.Add(now, reached(done, l.pass.total))
	if now.Sub(l.last) < logInterval {
		return
	}
	l.last = now
	attrs := []any{
		"phase", l.pass.what, "items", done.Items, "bytes", done.Bytes, "bad_rows", done.Rejected,
		"items_per_second", int64(l.pass.rate.PerSecond()),
	}
	if l.pass.total >= 0 {
		attrs = append(attrs, "total", l.pass.total)
	}
	if eta, known := l.pass.eta(done); known {
		attrs = append(attrs, "eta_seconds", int64(eta.Seconds()))
	}
	l.log.Info("progress", attrs...)
}

// End implements publish.Progress.
func (l *Log) End() {}
