package main

import (
	"context"
	"errors"

	"github.com/spotbatch/spotbatch/internal/fetch"
	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/pull"
	"github.com/spotbatch/spotbatch/internal/sink"
	"github.com/spotbatch/spotbatch/internal/telemetry"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// serveWorker is a worker as cmd/worker makes it, metrics included, but for
// the model.
func serveWorker(ctx context.Context, j *job) (err error) {
	log := telemetry.NewLogger(j.stderr, j.cfg.Log, false)
	tel, err := telemetry.Setup(ctx, j.cfg.Telemetry, "bench", "", log)
	if err != nil {
		return err
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.cfg.Telemetry.FlushTimeout)
		defer cancel()
		err = errors.Join(err, tel.Shutdown(flush))
	}()
	db, err := sink.Open(ctx, j.cfg.Spanner.Database, log)
	if err != nil {
		return err
	}
	defer db.Close()
	sub, err := pull.Open(ctx, j.cfg.Project, j.cfg.PubSub, j.cfg.Pull,
		pull.Deps{Log: log, Meter: tel.MeterProvider(), Tracer: tel.TracerProvider()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	fetcher := fetch.New(int64(j.cfg.Pull.MaxOutstandingBytes))
	defer func() { err = errors.Join(err, fetcher.Close()) }()
	deps := worker.Deps{
		Source: sub, DeadLetters: sub, Store: db.Store(), Attempts: db.Attempts(), Fetcher: fetcher, Runner: stub{j},
		Checks:     []worker.Check{{Name: "Pub/Sub", Try: sub.Check}, {Name: "Spanner", Try: db.Ping}},
		Connection: sub, Cancellations: db.Cancellations(),
		Log: log, Meter: tel.MeterProvider(), Tracer: tel.TracerProvider(),
	}
	if j.noStore {
		deps.Store, deps.Cancellations = nowhere{}, nil
	}
	w, err := worker.New(j.cfg.Worker("bench"), deps)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// stub is a model that takes a fixed time for a batch of any size.
type stub struct{ *job }

var _ worker.Runner = stub{}

func (s stub) Load(context.Context) (worker.Info, error) {
	s.isReady()
	return worker.Info{ModelVersion: "bench"}, nil
}

func (stub) Prepare(_ context.Context, it item.Item) (worker.Input, error) {
	return worker.Input{Item: it, Value: it.Data, Bytes: int64(len(it.Data))}, nil
}

func (s stub) Run(ctx context.Context, batch []worker.Input) ([]worker.Output, error) {
	s.begin(len(batch))
	err := wait(ctx, s.model)
	s.end(len(batch))
	if err != nil {
		return nil, err
	}
	outputs := make([]worker.Output, len(batch))
	for i, in := range batch {
		outputs[i] = worker.Output{ItemID: in.Item.ItemID, Value: answer}
	}
	return outputs, nil
}

func (stub) Close() error { return nil }

// answer is what the model says of every item.
var answer = []byte(`{"label":"seven","score":0.98}`)

// nowhere is a store that is there at once and keeps nothing.
type nowhere struct{}

var _ worker.Store = nowhere{}

func (nowhere) Lookup(context.Context, []item.Key) (map[item.Key]worker.Stored, error) {
	return nil, nil
}

func (nowhere) Commit(_ context.Context, results []worker.Result) []error {
	return make([]error, len(results))
}
