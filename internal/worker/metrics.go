package worker

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope names the instruments and spans of this package.
const scope = "github.com/spotbatch/spotbatch/internal/worker"

// nackReason says why a delivery was not acked.
type nackReason string

const (
	nackDrain     nackReason = "drain"
	nackStore     nackReason = "store"
	nackTransient nackReason = "transient"
	nackDevice    nackReason = "device"
	nackLeaseLost nackReason = "lease_lost"
)

// outcome says how an item's stay ended.
type outcome string

const (
	outcomeOK      outcome = "ok"
	outcomeFailed  outcome = "failed"
	outcomeSkipped outcome = "skipped"
	outcomeShared  outcome = "shared"
	outcomeNacked  outcome = "nacked"
)

// deviceUse says what came of a stretch of model time.
type deviceUse string

const (
	useUseful deviceUse = "useful"
	useLost   deviceUse = "lost"
	useFailed deviceUse = "failed"
	// useDuplicate is time spent on an item that turned out to be stored.
	useDuplicate deviceUse = "duplicate"
)

// idleCause says why the model had nothing to do.
type idleCause string

const (
	idleNoWork     idleCause = "no_work"
	idleStarved    idleCause = "starved"
	idleCommitting idleCause = "committing"
)

// stage names a step of the pipeline in metrics.
type stage string

const (
	stageLookup stage = "lookup"
	stageLoad   stage = "load"
	stageWait   stage = "wait"
	stageInfer  stage = "infer"
	stageCommit stage = "commit"
)

// metrics are the instruments of the worker. Attribute sets are made once,
// since they are needed for every item.
type metrics struct {
	items    counter[outcome]
	nacks    counter[nackReason]
	failures counter[Class]
	device   seconds[deviceUse]
	idle     seconds[idleCause]
	stages   map[stage]metric.MeasurementOption

	duration  metric.Float64Histogram
	batchSize metric.Int64Histogram
	drain     metric.Float64Histogram
	ackLate   metric.Int64Counter
	ceiling   metric.Int64Gauge
}

// counter counts by one attribute, whose values are known from the start.
type counter[K comparable] struct {
	instrument metric.Int64Counter
	options    map[K]metric.MeasurementOption
}

func (c counter[K]) add(key K, n int64) {
	c.instrument.Add(context.Background(), n, c.options[key])
}

// seconds adds up time by one attribute, whose values are known from the
// start.
type seconds[K comparable] struct {
	instrument metric.Float64Counter
	options    map[K]metric.MeasurementOption
}

func (s seconds[K]) add(key K, d time.Duration) {
	if d > 0 {
		s.instrument.Add(context.Background(), d.Seconds(), s.options[key])
	}
}

// attributes makes the attribute sets of the values of one key.
func attributes[K ~string](key string, values ...K) map[K]metric.MeasurementOption {
	options := make(map[K]metric.MeasurementOption, len(values))
	for _, v := range values {
		options[v] = metric.WithAttributeSet(attribute.NewSet(attribute.String(key, string(v))))
	}
	return options
}

// restarter is a runner that restarts what it runs.
type restarter interface {
	// Restarts counts the restarts so far. It is safe for concurrent use.
	Restarts() int64
}

// StageDuration makes the histogram of the time that stages take. Stages
// outside of this package record into the same one, with an attribute "stage".
func StageDuration(provider metric.MeterProvider) (metric.Float64Histogram, error) {
	return provider.Meter(scope).Float64Histogram("spotbatch.stage.duration",
		metric.WithUnit("s"), metric.WithDescription("Time in a stage"),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300))
}

// newMetrics makes the instruments, with every counter at 0. held is asked for
// the number of items in each phase when metrics are read: to count along with
// each item cost more than to settle it.
func newMetrics(provider metric.MeterProvider, runner Runner, held func() phaseCounts) (*metrics, error) {
	b := builder{meter: provider.Meter(scope)}
	m := &metrics{
		items: intCounter(&b, "spotbatch.items", "Items whose stay ended, by outcome", "outcome",
			outcomeOK, outcomeFailed, outcomeSkipped, outcomeShared, outcomeNacked),
		nacks: intCounter(&b, "spotbatch.nacks", "Deliveries not acked, by reason", "reason",
			nackDrain, nackStore, nackTransient, nackDevice, nackLeaseLost),
		failures: intCounter(&b, "spotbatch.failures", "Failures seen, by class", "class",
			ClassInvalidInput, ClassItemError, ClassBatchError, ClassOutOfMemory, ClassProtocolError,
			ClassInvalidOutput, ClassRunnerCrash, ClassTransient, ClassDevice, ClassStore),
		device: floatCounter(&b, "spotbatch.device.seconds", "Time in the model, by what came of it", "use",
			useUseful, useDuplicate, useLost, useFailed),
		idle: floatCounter(&b, "spotbatch.device.idle.seconds", "Time in which the model had nothing to do, by cause", "cause",
			idleNoWork, idleStarved, idleCommitting),
		stages: attributes("stage", stageLookup, stageLoad, stageWait, stageInfer, stageCommit),
	}

	var err error
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	m.duration, e = StageDuration(provider)
	keep(e)
	m.batchSize, e = b.meter.Int64Histogram("spotbatch.batch.size", metric.WithDescription("Items in a batch"),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
	keep(e)
	stages := attributes("stage", "waiting", "model", "commit")
	_, e = b.meter.Int64ObservableUpDownCounter("spotbatch.held", metric.WithDescription("Items held, by stage"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			now := held()
			o.Observe(now[waiting], stages["waiting"])
			o.Observe(now[inModel], stages["model"])
			o.Observe(now[committing], stages["commit"])
			return nil
		}))
	keep(e)
	m.drain, e = b.meter.Float64Histogram("spotbatch.drain.duration", metric.WithUnit("s"), metric.WithDescription("Time from the stop of the intake to the last settlement"),
		metric.WithExplicitBucketBoundaries(.01, .025, .05, .1, .25, .5, 1, 2, 4, 6, 8, 10))
	keep(e)
	m.ackLate, e = b.meter.Int64Counter("spotbatch.ack.late", metric.WithDescription("Deliveries whose lease ended before they were settled"))
	keep(e)
	m.ceiling, e = b.meter.Int64Gauge("spotbatch.batch.ceiling", metric.WithDescription("Largest batch that is tried, after running out of memory"))
	keep(e)
	_, e = b.meter.Int64ObservableCounter("spotbatch.runner.restarts", metric.WithDescription("Restarts of the runner's process"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if r, ok := runner.(restarter); ok {
				o.Observe(r.Restarts())
			} else {
				o.Observe(0)
			}
			return nil
		}))
	keep(e)
	keep(b.err)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	m.ackLate.Add(context.Background(), 0)
	return m, nil
}

// builder makes instruments and keeps the first error.
type builder struct {
	meter metric.Meter
	err   error
}

func intCounter[K ~string](b *builder, name, description, key string, values ...K) counter[K] {
	instrument, err := b.meter.Int64Counter(name, metric.WithDescription(description))
	if err != nil && b.err == nil {
		b.err = err
	}
	c := counter[K]{instrument: instrument, options: attributes(key, values...)}
	for _, v := range values {
		c.add(v, 0)
	}
	return c
}

func floatCounter[K ~string](b *builder, name, description, key string, values ...K) seconds[K] {
	instrument, err := b.meter.Float64Counter(name, metric.WithDescription(description))
	if err != nil && b.err == nil {
		b.err = err
	}
	s := seconds[K]{instrument: instrument, options: attributes(key, values...)}
	for _, v := range values {
		s.instrument.Add(context.Background(), 0, s.options[v])
	}
	return s
}

func (m *metrics) item(o outcome)  { m.items.add(o, 1) }
func (m *metrics) failure(c Class) { m.failures.add(c, 1) }

// notAcked counts a delivery that was given back or abandoned.
func (m *metrics) notAcked(reason nackReason) {
	m.items.add(outcomeNacked, 1)
	m.nacks.add(reason, 1)
	if reason == nackLeaseLost {
		m.ackLate.Add(context.Background(), 1)
	}
}

// took records that a stage took the time since start.
func (m *metrics) took(s stage, start time.Time) {
	m.duration.Record(context.Background(), time.Since(start).Seconds(), m.stages[s])
}

// drained records a drain: whether everything was settled before the hard
// stop, and after how long.
func (m *metrics) drained(took time.Duration, finished bool) {
	result := "nacked"
	if finished {
		result = "finished"
	}
	m.drain.Record(context.Background(), took.Seconds(), metric.WithAttributes(attribute.String("result", result)))
}
