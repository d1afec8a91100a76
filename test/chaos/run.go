package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/broker"
	"github.com/spotbatch/spotbatch/test/chaos/audit"
	"github.com/spotbatch/spotbatch/test/cluster"
)

const (
	topicPath        = "projects/demo/topics/items"
	subscriptionPath = "projects/demo/subscriptions/items-workers"

	lease = 10 * time.Second // the shortest that Pub/Sub has
	drain = 6 * time.Second
	// inferTimeout is longer than all slow items take together.
	inferTimeout = 5 * time.Second
	// commitTimeout is how long workers wait for Spanner before they give
	// items back: less than an outage may last.
	commitTimeout = 3 * time.Second
	// modelVersion is what test/chaos/runner says.
	modelVersion = "chaos-1"

	// settleTime is how long a run may take once it is calm: what hangs in a
	// fault gives up, leases run out, messages come back, bad items are tried
	// again.
	settleTime = 60 * time.Second
	// maxBackoff keeps the retry policy from stretching the runs; the product's
	// own set-up says ten minutes.
	maxBackoff = 2 * time.Second
)

// settings are the same for all runs.
type settings struct {
	bin    string // the folder with the programs
	worker string // the program that is run as the worker
	out    string // where a folder for each run is made
	env    []string
}

// outcome is what came of a run.
type outcome struct {
	plan       plan
	events     []audit.Event
	violations []audit.Violation
	took       time.Duration
	dir        string
}

// execute carries out one plan and audits it. Its error says that the run could
// not be carried out.
func execute(ctx context.Context, set settings, p plan) (o outcome, err error) {
	o = outcome{plan: p, dir: filepath.Join(set.out, fmt.Sprint(p.seed))}
	if err := errors.Join(os.RemoveAll(o.dir), os.MkdirAll(o.dir, 0o755)); err != nil {
		return o, err
	}
	begin := time.Now()
	log := newEventLog()
	cloud, err := localcloud.Start(ctx, localcloud.Config{
		PubSubAddr: "127.0.0.1:0", SpannerAddr: "127.0.0.1:0", Messages: log, Commits: log.committed,
	})
	if err != nil {
		return o, err
	}
	defer cloud.Close()
	r := &run{
		plan: p, program: set.worker, log: log, cloud: cloud, dir: o.dir,
		exits: make(chan exit), closed: make(chan struct{}), broken: map[int]func() error{},
	}
	env, err := r.env(set)
	if err != nil {
		return o, err
	}
	r.cluster = cluster.Join(cluster.Options{Bin: set.bin, Dir: o.dir, Env: env}, cloud.Env())
	defer r.close()
	facts, err := r.carryOut(ctx)
	switch {
	case ctx.Err() != nil:
		return o, context.Cause(ctx)
	case err != nil:
		// A command that must succeed did not: a failure of the run like others.
		facts.Finished, facts.Unfinished = false, err.Error()
	}
	if o.events, err = log.all(r.modelLog()); err != nil {
		return o, err
	}
	o.violations = audit.Check(o.events, facts)
	o.took = time.Since(begin)
	return o, nil
}

// run is one run under way. One goroutine owns it; the watchers of processes
// touch nothing but log and exits.
type run struct {
	plan    plan
	program string // that is run as the worker
	log     *eventLog
	cloud   *localcloud.Server
	cluster *cluster.Cluster
	dir     string
	exits   chan exit
	closed  chan struct{} // nobody listens to exits any more

	slots     []*slot
	todo      agenda
	publisher *cluster.Process     // nil while none runs
	published bool                 // a publish has exited with 0
	tries     int                  // publish commands so far
	faults    int                  // so far
	broken    map[int]func() error // ends a fault, by its number
	isCalm    bool
}

func (r *run) modelLog() string { return filepath.Join(r.dir, "model.log") }
func (r *run) dataset() string  { return filepath.Join(r.dir, "items.jsonl") }

// env configures publisher and workers by variables alone.
func (r *run) env(set settings) ([]string, error) {
	command, err := json.Marshal([]string{
		filepath.Join(set.bin, "runner"), "-log", r.modelLog(), "-sleep", r.plan.sleep.String(), "-memory", fmt.Sprint(r.plan.memory),
	})
	if err != nil {
		return nil, err
	}
	return append([]string{
		"SPOTBATCH_PROJECT=demo",
		"SPOTBATCH_PUBSUB_TOPIC=items",
		"SPOTBATCH_PUBSUB_SUBSCRIPTION=items-workers",
		"SPOTBATCH_PUBSUB_DEAD_LETTER_TOPIC=items-dead",
		"SPOTBATCH_SPANNER_DATABASE=projects/demo/instances/spotbatch/databases/spotbatch",
		"SPOTBATCH_MODEL_KIND=command",
		"SPOTBATCH_MODEL_COMMAND=" + string(command),
		"SPOTBATCH_PULL_LEASE=" + lease.String(),
		"SPOTBATCH_DRAIN_TIMEOUT=" + drain.String(),
		"SPOTBATCH_INFER_TIMEOUT=" + inferTimeout.String(),
		"SPOTBATCH_COMMIT_TIMEOUT=" + commitTimeout.String(),
		fmt.Sprintf("SPOTBATCH_BATCH_MAX_SIZE=%d", r.plan.batchSize),
		fmt.Sprintf("SPOTBATCH_PULL_MAX_OUTSTANDING=%d", r.plan.held),
		fmt.Sprintf("SPOTBATCH_INFER_CONCURRENCY=%d", r.plan.models),
		"SPOTBATCH_TELEMETRY_METRICS=none",
		"SPOTBATCH_LOG_LEVEL=debug",
		// Nothing of Google's real cloud is to be found by accident.
		"GOOGLE_APPLICATION_CREDENTIALS=/nonexistent",
		"HOME=/nonexistent",
	}, set.env...), nil
}

// carryOut sets up, disturbs, waits for the end, and asks the publisher.
func (r *run) carryOut(ctx context.Context) (audit.Facts, error) {
	facts := audit.Facts{
		Lease: lease, Drain: drain, Items: r.plan.wants(), Foreign: r.plan.foreignNames(), ModelVersion: modelVersion,
		End: audit.End{Run: mainRun},
	}
	if err := r.setUp(ctx); err != nil {
		return facts, err
	}
	if err := r.disturb(ctx, len(facts.Items)); err != nil {
		return facts, err
	}
	counts, err := r.cloud.Broker().Counts(subscriptionPath)
	if err != nil {
		return facts, err
	}
	if facts.Finished = r.finished(len(facts.Items)); !facts.Finished {
		facts.Unfinished = fmt.Sprintf("%d of %d items have a row, published %v, messages %+v", r.log.withRow(), len(facts.Items), r.published, counts)
		return facts, nil
	}
	if err := r.endWorkers(ctx); err != nil {
		return facts, err
	}
	facts.End, err = r.askPublisher(ctx)
	facts.End.Published, facts.End.Acked, facts.End.DeadLettered = counts.Published, counts.Acked, counts.DeadLettered
	facts.End.Left = counts.Ready + counts.Delayed + counts.Leased
	return facts, err
}

func (r *run) setUp(ctx context.Context) error {
	if err := os.WriteFile(r.dataset(), lines(r.plan.items), 0o644); err != nil {
		return err
	}
	if _, err := r.cluster.MustPublisher(ctx, "setup"); err != nil {
		return err
	}
	_, err := r.cloud.Broker().UpdateSubscription(subscriptionPath, func(c *broker.SubscriptionConfig) error {
		c.Retry.Max = maxBackoff
		c.ExactlyOnce = r.plan.exactly
		return nil
	})
	return err
}

// finished reports whether every item has a row and every message is settled.
func (r *run) finished(items int) bool {
	counts, err := r.cloud.Broker().Counts(subscriptionPath)
	return err == nil && r.published && r.log.withRow() >= items && counts.Ready+counts.Delayed+counts.Leased == 0
}

// close ends whatever still runs.
func (r *run) close() {
	close(r.closed)
	r.cluster.Close()
}
