package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/storage"
	"golang.org/x/sync/errgroup"

	"github.com/spotbatch/spotbatch/internal/localcloud"
	"github.com/spotbatch/spotbatch/internal/localcloud/localcloudtest"
	"github.com/spotbatch/spotbatch/internal/publish"
	"github.com/spotbatch/spotbatch/internal/sink"
)

// What the killed publishers do.
const (
	killItems  = 3000
	killRate   = 500
	killWindow = 50
	// killWithin is the longest life of a publisher that is killed: it saves
	// its state a second after its first message, and once more.
	killWithin = 2500 * time.Millisecond
	// killLanes is the number of publishers at a time.
	killLanes = 8
)

// TestKilledAtAnyMomentLosesNothing kills publishers at 100 random moments, 8
// in short mode. Whatever the moment, the same command goes on, every item is
// published, and few are published twice.
func TestKilledAtAnyMomentLosesNothing(t *testing.T) {
	kills := 100
	if testing.Short() {
		kills = 8
	}
	k := newKiller(t)
	k.kills.Store(int64(kills))
	messages, stopReceiving := k.receive(t)
	runs := map[string]int{} // and how often each was killed
	var mu sync.Mutex
	var lanes errgroup.Group
	for lane := range killLanes {
		lanes.Go(func() error {
			for number := 0; ; number++ {
				run := fmt.Sprintf("lane-%d-%d", lane, number)
				killed, err := k.run(t.Context(), run, lane%2 == 0)
				if err != nil {
					return fmt.Errorf("run %s: %w", run, err)
				}
				mu.Lock()
				runs[run] = killed
				mu.Unlock()
				if k.kills.Load() <= 0 {
					return nil
				}
			}
		})
	}
	if err := lanes.Wait(); err != nil {
		t.Fatal(err)
	}
	for run, killed := range runs {
		seen := messages.await(t, run, killItems)
		k.check(t, run)
		// A second's worth that was confirmed and not saved, as much again for
		// a machine that is slow to save, and what was on its way.
		if most := killItems + killed*(2*killRate+killWindow); seen > most {
			t.Errorf("run %s: %d messages after %d kills, want at most %d", run, seen, killed, most)
		}
		t.Logf("run %s: %d kills, %d messages for %d items", run, killed, seen, killItems)
	}
	stopReceiving()
}

// killer starts publishers and kills them.
type killer struct {
	server *localcloud.Server
	db     *sink.Database
	file   string
	state  string
	env    []string
	// kills is the number of kills that are left.
	kills atomic.Int64
}

func newKiller(t *testing.T) *killer {
	t.Helper()
	server := localcloudtest.Start(t)
	db, err := sink.Open(t.Context(), localcloudtest.Database(t, server), slog.New(slog.DiscardHandler), localcloudtest.SpannerOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	client, err := storage.NewClient(t.Context(), localcloudtest.StorageOptions(server)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Bucket("states").Create(t.Context(), "demo", nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k := &killer{server: server, db: db, file: filepath.Join(dir, "rows.jsonl"), state: filepath.Join(dir, "states")}
	var rows bytes.Buffer
	for i := range killItems {
		fmt.Fprintf(&rows, "{\"id\":%d}\n", i)
	}
	if err := os.WriteFile(k.file, rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	k.env = append(append(os.Environ(), server.Env()...), settings...)
	if out, err := k.command(t.Context(), "setup").CombinedOutput(); err != nil {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	return k
}

// command is the publisher as a process of its own: this test binary, which
// goes by its name.
func (k *killer) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = append([]string{"publisher"}, args...)
	cmd.Env = k.env
	return cmd
}

// run publishes one run to its end and returns how often it was killed.
func (k *killer) run(ctx context.Context, run string, inBucket bool) (killed int, err error) {
	state := k.state
	if inBucket {
		state = "gs://states/some"
	}
	for {
		var out bytes.Buffer
		cmd := k.command(ctx, "publish", "--run", run, "--state", state, "--rate", fmt.Sprint(killRate), "--max-outstanding", fmt.Sprint(killWindow), k.file)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			return killed, err
		}
		var shot atomic.Bool
		cancelShot := func() bool { return false }
		if k.kills.Add(-1) >= 0 {
			cancelShot = time.AfterFunc(rand.N(killWithin), func() {
				shot.Store(true)
				_ = cmd.Process.Kill() // it may have ended
			}).Stop
		}
		err := cmd.Wait()
		cancelShot()
		switch {
		case err == nil:
			return killed, nil
		case !shot.Load():
			return killed, fmt.Errorf("%w: %s", err, out.String())
		}
		killed++
	}
}

// check says whether the run's row is that of an undisturbed publish.
func (k *killer) check(t *testing.T, run string) {
	t.Helper()
	row, err := k.db.Runs().Get(t.Context(), run)
	if err != nil || row.State != publish.StatePublished || row.Published != killItems {
		t.Errorf("run %s: %+v, error %v; want %d published", run, row, err, killItems)
	}
}

// received counts the messages of runs by item.
type received struct {
	mu   sync.Mutex
	runs map[string]map[string]int
}

// receive takes all messages, until stop is called.
func (k *killer) receive(t *testing.T) (messages *received, stop func()) {
	t.Helper()
	client, err := pubsub.NewClient(t.Context(), "demo", localcloudtest.PubSubOptions(k.server)...)
	if err != nil {
		t.Fatal(err)
	}
	messages = &received{runs: map[string]map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var receiving errgroup.Group
	receiving.Go(func() error {
		return client.Subscriber("items-workers").Receive(ctx, func(_ context.Context, m *pubsub.Message) {
			messages.add(m.Attributes["run_id"], m.Attributes["item_id"])
			m.Ack()
		})
	})
	return messages, func() {
		cancel()
		if err := errors.Join(receiving.Wait(), client.Close()); err != nil {
			t.Error(err)
		}
	}
}

func (r *received) add(run, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[run] == nil {
		r.runs[run] = map[string]int{}
	}
	r.runs[run][id]++
}

func (r *received) count(run string) (items, messages int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range r.runs[run] {
		messages += times
	}
	return len(r.runs[run]), messages
}

// await waits until every item of the run has come, and returns the number of
// its messages.
func (r *received) await(t *testing.T, run string, want int) int {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	late := time.After(30 * time.Second)
	for {
		items, messages := r.count(run)
		if items == want {
			return messages
		}
		select {
		case <-poll.C:
		case <-late:
			t.Errorf("run %s: %d of %d items came", run, items, want)
			return messages
		}
	}
}
