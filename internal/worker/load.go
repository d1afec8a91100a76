package worker

import (
	"context"
	"fmt"
	"time"
)

// loaders is how many payloads are fetched and decoded at once: enough to hide
// the latency of an object store behind a model that takes some ms an item.
const loaders = 16

// load makes model inputs of items and passes them on. Items that cannot be
// loaded are recorded as FAILED.
func (w *Worker) load(ctx context.Context, in <-chan *task, out chan<- *task) error {
	for {
		select {
		case t := <-in:
			if !w.alive(t) {
				continue
			}
			if w.prepare(ctx, t) && !send(ctx, out, t) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// prepare fills in t.input. It returns false when t goes no further.
func (w *Worker) prepare(ctx context.Context, t *task) bool {
	start := time.Now()
	defer w.metrics.took(stageLoad, start)
	it := t.item
	if it.URI != "" {
		data, err := w.fetch(ctx, it.URI)
		if err != nil {
			w.loadFailed(ctx, t, err)
			return false
		}
		it.Data = data
	}
	input, err := w.guardedPrepare(ctx, it)
	w.progress.made()
	if err != nil {
		w.loadFailed(ctx, t, err)
		return false
	}
	t.input = input
	t.loaded = time.Now()
	// The input holds what the model needs; the payload need not be kept too.
	t.item.Data = nil
	return true
}

func (w *Worker) loadFailed(ctx context.Context, t *task, err error) {
	if ctx.Err() != nil {
		return
	}
	class := ClassOf(err, ClassInvalidInput)
	if class == ClassTransient {
		w.metrics.failure(class)
		w.giveBack(nackTransient, t)
		return
	}
	w.fail(t, class, Reason(err))
}

// fetch tries for as long as the store is tried; then the item is given back.
func (w *Worker) fetch(ctx context.Context, uri string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.StoreTimeout)
	defer cancel()
	var pause backoff
	for {
		data, err := w.deps.Fetcher.Fetch(ctx, uri)
		if err == nil || ClassOf(err, ClassTransient) != ClassTransient {
			return data, err
		}
		if !pause.wait(ctx) {
			return nil, Fail(ClassTransient, fmt.Errorf("fetch payload: %w", err))
		}
	}
}
