package progress

import "time"

// rateSpan is the time over which a rate is taken: long enough to be steady,
// short enough to be that of now.
const rateSpan = 10 * time.Second

// rateStep is the least time between two samples that are kept.
const rateStep = 250 * time.Millisecond

// Rate is how fast a count has grown of late. The zero value has no samples.
type Rate struct{ samples []sample }

type sample struct {
	at    time.Time
	count int64
}

// Add says what the count is at a time, which is not before the last one.
func (r *Rate) Add(at time.Time, count int64) {
	// The newest sample is replaced until it is a step away from the one
	// before it.
	if n := len(r.samples); n >= 2 && at.Sub(r.samples[n-2].at) < rateStep {
		r.samples[n-1] = sample{at, count}
	} else {
		r.samples = append(r.samples, sample{at, count})
	}
	// One sample from before the span stays, so that there is always a span.
	drop := 0
	for drop+2 < len(r.samples) && at.Sub(r.samples[drop+1].at) >= rateSpan {
		drop++
	}
	r.samples = append(r.samples[:0], r.samples[drop:]...)
}

// PerSecond is the growth a second; 0 while it is not known.
func (r *Rate) PerSecond() float64 {
	if len(r.samples) < 2 {
		return 0
	}
	first, last := r.samples[0], r.samples[len(r.samples)-1]
	if took := last.at.Sub(first.at).Seconds(); took > 0 {
		return float64(last.count-first.count) / took
	}
	return 0
}
