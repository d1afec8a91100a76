package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/internal/localcloud/fault"
	"github.com/spotbatch/spotbatch/test/chaos/audit"
)

const (
	// look is how often the end of the run is looked for.
	look = 50 * time.Millisecond
	// publishTries bounds the publish commands of a run.
	publishTries = 20
)

// disturb starts the workers and the publisher, carries out the plan, and
// returns when the run has finished, or has had its time.
func (r *run) disturb(ctx context.Context, items int) error {
	begin := time.Now()
	for n := range r.plan.workers {
		r.slots = append(r.slots, &slot{number: n + 1})
		if err := r.startWorker(r.slots[n]); err != nil {
			return err
		}
	}
	if err := r.publish(); err != nil {
		return err
	}
	r.todo.add(begin.Add(r.plan.calm/4), r.plantMessages)
	for _, a := range r.plan.actions {
		r.todo.add(begin.Add(a.at), func() error { return r.act(a) })
	}
	r.todo.add(begin.Add(r.plan.calm), r.calmDown)
	limit := begin.Add(r.plan.calm + r.plan.settle)
	for {
		if err := r.todo.run(); err != nil {
			return err
		}
		if r.isCalm && r.finished(items) || time.Now().After(limit) {
			return nil
		}
		select {
		case <-time.After(r.todo.next(look)):
		case e := <-r.exits:
			if err := r.ended(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ended goes on after the end of a process.
func (r *run) ended(e exit) error {
	again := func(after time.Duration, do func() error) { r.todo.add(time.Now().Add(after), do) }
	if e.slot != nil {
		e.slot.process = nil
		again(e.slot.pause, func() error { return r.startWorker(e.slot) })
		return nil
	}
	r.publisher = nil
	switch {
	case e.code == 0:
		r.published = true
	case r.tries >= publishTries:
		return fmt.Errorf("publish does not succeed: exit code %d after %d tries; see %s", e.code, r.tries, r.dir)
	default:
		again(200*time.Millisecond, r.publish)
	}
	return nil
}

// publish starts a publish of the run, which goes on where the last one ended.
func (r *run) publish() error {
	p, err := r.cluster.StartPublisher("publish", "--run", mainRun, "--rate", fmt.Sprint(r.plan.rate), r.dataset())
	if err != nil {
		return err
	}
	r.tries++
	r.publisher = p
	r.watch(p, nil)
	return nil
}

// act carries out one action; one that finds nothing to act on is passed over.
func (r *run) act(a action) error {
	switch a.act {
	case breakCall:
		r.breakCall(a)
	case repeat:
		return r.repeat(a.items)
	case killPub:
		return r.killPublisher()
	case kill, term, freeze, killRunner:
		return r.hit(a)
	}
	return nil
}

// hit carries out an action on a worker. One that drains is left to drain, but
// may be killed. One that stands still, or has said nothing since its start, gets
// no SIGTERM: it could not mind it.
func (r *run) hit(a action) error {
	s := r.running(a.worker)
	switch {
	case s == nil:
	case a.act == kill:
		s.pause = a.pause
		return r.signal(s, syscall.SIGKILL, "KILL")
	case s.termed, s.frozen:
	case a.act == term && s.process.Log() == "":
	case a.act == term:
		s.pause, s.termed = a.pause, true
		return r.signal(s, syscall.SIGTERM, "TERM")
	case a.act == killRunner:
		r.killChild(s)
	case a.act == freeze:
		s.frozen = true
		life := s.lives
		r.todo.add(time.Now().Add(a.pause), func() error {
			if s.lives != life || s.process == nil {
				return nil
			}
			s.frozen = false
			return r.signal(s, syscall.SIGCONT, "CONT")
		})
		return r.signal(s, syscall.SIGSTOP, "STOP")
	}
	return nil
}

// breakCall adds a fault and takes it away later.
func (r *run) breakCall(a action) {
	r.faults++
	number, service := r.faults, struckService(a.rule)
	r.log.add(audit.Event{Kind: audit.FaultBegan, Fault: number, Service: service, Note: describeRule(a.rule)})
	id := r.cloud.Faults().Add(a.rule)
	end := func() error {
		if r.broken[number] == nil {
			return nil // ended by the calm
		}
		delete(r.broken, number)
		r.cloud.Faults().Remove(id)
		r.log.add(audit.Event{Kind: audit.FaultEnded, Fault: number, Service: service})
		return nil
	}
	r.broken[number] = end
	r.todo.add(time.Now().Add(a.pause), end)
}

// repeat publishes messages of items once more.
func (r *run) repeat(items []int) error {
	messages := make([]*broker.Message, len(items))
	for i, n := range items {
		messages[i] = message(item.Item{
			Key:         item.Key{RunID: mainRun, ItemID: r.plan.items[n].ID},
			ContentType: item.ContentTypeJSON, Data: lines(r.plan.items[n : n+1]),
		})
	}
	_, err := r.cloud.Broker().Publish(topicPath, messages)
	return err
}

func message(it item.Item) *broker.Message {
	return &broker.Message{Data: it.Data, Attributes: it.Attributes()}
}

// plantMessages publishes what is no item, or cannot be read.
func (r *run) plantMessages() error {
	var messages []*broker.Message
	for _, name := range r.plan.foreignNames() {
		messages = append(messages, &broker.Message{Data: []byte("hello"), Attributes: map[string]string{attrForeign: name}})
	}
	for i := range r.plan.garbled {
		// A payload and a reference to one: nobody knows which counts.
		messages = append(messages, message(item.Item{
			Key:         item.Key{RunID: garbledRun, ItemID: garbledID(i)},
			ContentType: item.ContentTypeJSON, Data: []byte("{}"), URI: "file:///nowhere",
		}))
	}
	_, err := r.cloud.Broker().Publish(topicPath, messages)
	return err
}

// calmDown ends the disturbances: faults are taken away by then or now, what
// hangs in a stream is cut, and whoever publishes begins anew.
func (r *run) calmDown() error {
	r.isCalm = true
	endFaults := func() error {
		for _, number := range slices.Sorted(maps.Keys(r.broken)) {
			if err := r.broken[number](); err != nil {
				return err
			}
		}
		return nil
	}
	if err := endFaults(); err != nil {
		return err
	}
	for _, a := range r.plan.actions {
		// Calls that hang in a fault go on to hang: a stream would do so for ever.
		if a.rule.BlackHole && isStream(a.rule) {
			r.breakCall(action{rule: fault.Rule{Service: a.rule.Service, Method: a.rule.Method, Close: true, Code: codes.Unavailable}})
		}
	}
	if err := endFaults(); err != nil {
		return err
	}
	r.log.add(audit.Event{Kind: audit.Calm})
	return r.killPublisher()
}

// killPublisher kills the publish command, if one runs; the next one goes on
// where it was.
func (r *run) killPublisher() error {
	if r.publisher == nil || !r.publisher.Running() {
		return nil
	}
	r.log.add(audit.Event{Kind: audit.PublisherKilled})
	return r.publisher.Signal(syscall.SIGKILL)
}
