package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spotbatch/spotbatch/test/cluster"
)

// runID names the run; everything is in memory, so that it is always new.
const runID = "digits"

// limit is when the demo gives up. It takes well under 90 s on two cores.
const limit = 5 * time.Minute

// readyLine is what a worker logs when its model is loaded.
const readyLine = "model ready"

type demo struct {
	bin    string
	config string
	data   string
	dir    string
	out    io.Writer

	begin   time.Time
	cluster *cluster.Cluster
	workers []*cluster.Process
	summary summary
}

// say prints what happens, with the time since the start.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.1fs  %s\n", time.Since(d.begin).Seconds(), fmt.Sprintf(format, args...))
}

// run does the job. Everything that it started has ended when it returns.
func (d *demo) run(ctx context.Context) (summary, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the run was not complete after %s", limit))
	defer cancel()
	d.begin = time.Now()
	labels, err := readLabels(filepath.Join(d.data, "labels.csv"))
	if err != nil {
		return d.summary, err
	}
	d.summary.Items = len(labels)
	if err := os.RemoveAll(d.dir); err != nil {
		return d.summary, fmt.Errorf("clear %s: %w", d.dir, err)
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return d.summary, fmt.Errorf("create %s: %w", d.dir, err)
	}
	d.cluster, err = cluster.Start(ctx, cluster.Options{
		Bin: d.bin, Dir: d.dir, Config: d.config,
		Env: []string{
			// The log says which items went into the model, also of a worker
			// that is killed: debug lines count them.
			"SPOTBATCH_LOG_LEVEL=debug",
			// A killed worker's messages come back after this; 10s is the least
			// that Pub/Sub allows.
			"SPOTBATCH_PULL_LEASE=10s",
		},
	})
	if err != nil {
		return d.summary, err
	}
	defer d.cluster.Close()
	d.say("localcloud is ready")
	if err := d.publish(ctx); err != nil {
		return d.summary, err
	}
	if err := d.process(ctx); err != nil {
		return d.summary, err
	}
	if err := d.collect(ctx, labels); err != nil {
		return d.summary, err
	}
	if err := d.stopWorkers(ctx); err != nil {
		return d.summary, err
	}
	return d.summary, d.report()
}

func (d *demo) publish(ctx context.Context) error {
	if _, err := d.cluster.MustPublisher(ctx, "setup"); err != nil {
		return err
	}
	if _, err := d.cluster.MustPublisher(ctx, "publish", "--run", runID, filepath.Join(d.data, "images")); err != nil {
		return err
	}
	status, err := d.cluster.Status(ctx, runID)
	if err != nil {
		return err
	}
	d.summary.Published = status.Published
	d.say("published %d images as run %q", status.Published, runID)
	return nil
}

// process works the run off with three workers, of which one is drained and
// one is killed on the way.
func (d *demo) process(ctx context.Context) error {
	begin := time.Now()
	for range 3 {
		if err := d.startWorker(); err != nil {
			return err
		}
	}
	d.say("started three workers")
	if err := d.waitFor(ctx, 1.0/3); err != nil {
		return err
	}
	if err := d.drainOne(ctx); err != nil {
		return err
	}
	if err := d.waitFor(ctx, 2.0/3); err != nil {
		return err
	}
	if err := d.killOne(ctx); err != nil {
		return err
	}
	status, err := d.cluster.WaitStatus(ctx, runID, func(s cluster.Status) bool { return s.Complete })
	if err != nil {
		return err
	}
	wall := time.Since(begin)
	d.summary.OK, d.summary.Failed = status.OK, status.Failed
	d.summary.WallSeconds = wall.Seconds()
	d.summary.ItemsPerSecond = float64(status.OK+status.Failed) / wall.Seconds()
	d.say("complete: %d ok, %d failed", status.OK, status.Failed)
	return nil
}

func (d *demo) startWorker() error {
	w, err := d.cluster.StartWorker()
	if err != nil {
		return err
	}
	d.workers = append(d.workers, w)
	return nil
}

// waitFor waits until that share of the run has results.
func (d *demo) waitFor(ctx context.Context, share float64) error {
	_, err := d.cluster.WaitStatus(ctx, runID, func(s cluster.Status) bool {
		return float64(s.OK+s.Failed) >= share*float64(s.Published)
	})
	return err
}

func (d *demo) drainOne(ctx context.Context) error {
	victim := d.workers[0]
	if _, err := victim.WaitLine(ctx, readyLine); err != nil {
		return err
	}
	exit, err := victim.Stop(ctx, syscall.SIGTERM)
	if err != nil {
		return err
	}
	d.summary.Drained = 1
	d.summary.DrainSeconds = exit.Took.Seconds()
	d.summary.drainCode = exit.Code
	d.say("SIGTERM to %s: it drained and exited %d after %.2f s; a replacement starts", victim.Name, exit.Code, exit.Took.Seconds())
	return d.startWorker()
}

func (d *demo) killOne(ctx context.Context) error {
	victim := d.workers[1]
	if _, err := victim.WaitLine(ctx, readyLine); err != nil {
		return err
	}
	if _, err := victim.Stop(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	d.summary.Killed = 1
	d.say("SIGKILL to %s; a replacement starts", victim.Name)
	return d.startWorker()
}

// stopWorkers drains the workers that are left.
func (d *demo) stopWorkers(ctx context.Context) error {
	var errs []error
	for _, w := range d.workers {
		if !w.Running() {
			continue
		}
		exit, err := w.Stop(ctx, syscall.SIGTERM)
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("%s exited %d at the end; see %s", w.Name, exit.Code, w.LogPath)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
