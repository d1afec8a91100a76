package worker_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/spotbatch/spotbatch/internal/item"
	"github.com/spotbatch/spotbatch/internal/worker"
)

// BenchmarkPipeline is what an item costs on its way through the worker alone:
// source, store and model are there at once, metrics are real.
func BenchmarkPipeline(b *testing.B) {
	const held = 256
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	source := &benchSource{left: b.N, held: held, done: cancel}
	w, err := worker.New(worker.Config{
		Name: "w1", MaxHeld: held, BatchSize: 16, BatchWait: time.Millisecond, BatchBytes: 1 << 20,
		InferConcurrency: 1, InferTimeout: time.Minute, MaxItemFailures: 3, MaxItemCrashes: 5, SuspectAfter: 3,
		CommitConcurrency: 4, StoreTimeout: 20 * time.Second, LoadTimeout: time.Minute, HardStop: 8 * time.Second,
	}, worker.Deps{
		Source: source, Store: benchStore{}, Runner: benchRunner{},
		Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	if source.lost != 0 {
		b.Fatalf("%d of %d items were not acked", source.lost, b.N)
	}
}

// cpuTime is what this process has used: unlike the time that passes it hardly
// depends on what else the machine does.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchSource hands out left items, held at a time, and calls done after the
// last.
type benchSource struct {
	held int
	done func()

	mu   sync.Mutex
	left int
	lost int
}

func (s *benchSource) next() (n int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	return s.left, s.left >= 0
}

func (s *benchSource) Receive(ctx context.Context, handle func(context.Context, *worker.Delivery) worker.Settlement) error {
	handling := context.WithoutCancel(ctx)
	var working sync.WaitGroup
	for range s.held {
		working.Go(func() {
			for n, more := s.next(); more; n, more = s.next() {
				what := handle(handling, &worker.Delivery{
					Data:       []byte(`{"x":1}`),
					Attributes: item.Item{Key: item.Key{RunID: "r", ItemID: fmt.Sprint(n)}, ContentType: item.ContentTypeJSON}.Attributes(),
				})
				if what != worker.Ack {
					s.mu.Lock()
					s.lost++
					s.mu.Unlock()
				}
			}
		})
	}
	working.Wait()
	s.done()
	<-ctx.Done()
	return nil
}

type benchStore struct{}

func (benchStore) Lookup(context.Context, []item.Key) (map[item.Key]worker.Stored, error) {
	return nil, nil
}

func (benchStore) Commit(_ context.Context, results []worker.Result) []error {
	return make([]error, len(results))
}

type benchRunner struct{}

func (benchRunner) Load(context.Context) (worker.Info, error) {
	return worker.Info{ModelVersion: "bench"}, nil
}

func (benchRunner) Prepare(_ context.Context, it item.Item) (worker.Input, error) {
	return worker.Input{Item: it, Bytes: int64(len(it.Data))}, nil
}

func (benchRunner) Run(_ context.Context, batch []worker.Input) ([]worker.Output, error) {
	outputs := make([]worker.Output, len(batch))
	for i, in := range batch {
		outputs[i] = worker.Output{ItemID: in.Item.ItemID, Value: []byte(`1`)}
	}
	return outputs, nil
}

func (benchRunner) Close() error { return nil }
