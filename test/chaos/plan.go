package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
)

// maxDeaths bounds the processes, workers and their runners, that a run kills
// without warning. It is below infer.max_item_crashes (5), so that no item can
// have been alone in the model at so many deaths that it may be given up.
const maxDeaths = 4

// plan is everything that a run does by intention. It depends on the seed alone.
type plan struct {
	seed    uint64
	items   []planted
	foreign int // messages that are no item
	garbled int // messages that name an item of the run "garbled" and cannot be read

	rate int // items that the publisher publishes a second; 0: as fast as it goes

	workers   int
	batchSize int
	held      int           // pull.max_outstanding
	models    int           // infer.concurrency
	exactly   bool          // an exactly-once subscription
	sleep     time.Duration // that a batch takes in the model
	memory    int           // of the model; 0: any size of batch fits
	actions   []action      // by time
	calm      time.Duration // when the disturbances end
	settle    time.Duration // how long after that the run may take
}

// act says what an action does.
type act string

const (
	kill       act = "kill"        // SIGKILL to a worker, which starts again after pause
	term       act = "term"        // SIGTERM to a worker, which starts again pause after its end
	freeze     act = "freeze"      // SIGSTOP to a worker, SIGCONT after pause
	killRunner act = "kill runner" // SIGKILL to the child of a worker
	breakCall  act = "break"       // a fault, taken away after pause
	repeat     act = "repeat"      // some messages are published once more
	killPub    act = "kill publisher"
)

// action is one disturbance.
type action struct {
	at     time.Duration
	act    act
	worker int // index, from 0
	pause  time.Duration
	rule   fault.Rule
	items  []int // to repeat, indexes
}

// newPlan makes the plan of a seed.
func newPlan(seed uint64) plan {
	d := dice{rand.New(rand.NewPCG(seed, 0x5b07ba7c4))}
	p := plan{
		seed:      seed,
		settle:    settleTime,
		workers:   d.between(2, 4),
		batchSize: d.between(1, 16),
		models:    1,
		exactly:   d.chance(0.25),
		calm:      d.duration(2500*time.Millisecond, 5*time.Second),
	}
	p.held = p.batchSize * d.between(2, 6)
	if d.chance(0.25) {
		p.models = 2
	}
	n := d.between(20, 200)
	if d.chance(0.3) {
		p.memory = max(4, d.between(p.batchSize, 3*p.batchSize))
	}
	p.items = d.plant(n, p.memory)
	if d.chance(0.3) {
		p.foreign = d.between(1, 3)
	}
	if d.chance(0.3) {
		p.garbled = d.between(1, 3)
	}
	if d.chance(0.5) {
		p.rate = max(10, n/d.between(1, 2))
	}
	// The model alone is busy for about as long as the disturbances last.
	batches := max(1, n/p.batchSize/p.workers/p.models)
	p.sleep = max(p.calm/time.Duration(batches), 2*time.Millisecond).Truncate(time.Millisecond)
	p.sleep = min(p.sleep, 400*time.Millisecond)
	p.actions = d.disturb(&p)
	slices.SortStableFunc(p.actions, func(a, b action) int { return int(a.at - b.at) })
	return p
}

// dice are the random numbers of one plan.
type dice struct{ *rand.Rand }

func (d dice) chance(p float64) bool { return d.Float64() < p }

// between returns a number from low to high, both included.
func (d dice) between(low, high int) int { return low + d.IntN(high-low+1) }

func (d dice) duration(low, high time.Duration) time.Duration {
	return (low + time.Duration(d.Int64N(int64(high-low)))).Truncate(time.Millisecond)
}

// disturb makes the actions. Each kind is left out of many runs, so that the
// others are seen without what it excuses.
func (d dice) disturb(p *plan) []action {
	var actions []action
	storm := d.chance(0.1) // everything at once
	add := func(share float64, most int, next func() action) {
		if !d.chance(share) && !storm {
			return
		}
		for range d.between(1, most) {
			a := next()
			a.at = d.duration(300*time.Millisecond, p.calm-200*time.Millisecond)
			a.worker = d.IntN(p.workers)
			actions = append(actions, a)
		}
	}
	kills := d.between(0, maxDeaths)
	if kills > 0 {
		add(0.7, kills, func() action {
			return action{act: kill, pause: d.duration(100*time.Millisecond, 1500*time.Millisecond)}
		})
	}
	if kills < maxDeaths {
		add(0.5, maxDeaths-kills, func() action { return action{act: killRunner} })
	}
	d.follow(actions, p.calm)
	often := 4
	if storm {
		often = 10
	}
	add(0.7, often, func() action {
		return action{act: term, pause: d.duration(100*time.Millisecond, 1500*time.Millisecond)}
	})
	add(0.4, 3, func() action { return action{act: freeze, pause: d.stop()} })
	add(0.5, often, func() action { return d.fault(pubsubFaults) })
	add(0.5, often, func() action { return d.fault(spannerFaults) })
	add(0.6, 2, func() action { return action{act: repeat, items: d.some(len(p.items))} })
	if d.chance(0.4) {
		for range d.between(1, 3) {
			actions = append(actions, action{at: d.duration(100*time.Millisecond, 2*time.Second), act: killPub})
		}
	}
	var twice []int
	for i, it := range p.items {
		if it.Do == moody {
			twice = append(twice, i)
		}
	}
	if len(twice) > 0 {
		actions = append(actions, action{at: 400 * time.Millisecond, act: repeat, items: twice})
	}
	return actions
}

// follow lets half of the deaths of runners follow closely on the one before: the
// items of the first then run alone.
func (d dice) follow(actions []action, calm time.Duration) {
	var last *action
	for i := range actions {
		a := &actions[i]
		if a.act != killRunner {
			continue
		}
		if last != nil && d.chance(0.5) {
			a.worker, a.at = last.worker, min(calm, last.at+d.duration(150*time.Millisecond, 800*time.Millisecond))
		}
		last = a
	}
}

// stop is how long a worker stands still: seldom longer than its leases.
func (d dice) stop() time.Duration {
	if d.chance(0.15) {
		return d.duration(10*time.Second, 13*time.Second)
	}
	return d.duration(100*time.Millisecond, 3*time.Second)
}

// some picks a few of n.
func (d dice) some(n int) []int {
	picked := make([]int, d.between(1, 1+n/4))
	for i := range picked {
		picked[i] = d.IntN(n)
	}
	return picked
}

// String is one line for people.
func (a action) String() string {
	text := fmt.Sprintf("%.3fs %s", a.at.Seconds(), a.act)
	switch a.act {
	case kill, term, freeze, killRunner:
		text += fmt.Sprintf(" of worker %d", a.worker+1)
	case breakCall:
		text += " " + describeRule(a.rule)
	case repeat:
		text += fmt.Sprintf(" %d messages", len(a.items))
	case killPub:
	}
	if a.pause > 0 {
		text += fmt.Sprintf(", %.3fs", a.pause.Seconds())
	}
	return text
}
