package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/spotbatch/spotbatch/internal/config"
)

// speedRounds is how often each side is measured, in turn: a machine is not
// equally fast at all times.
const speedRounds = 3

// speed compares the publisher with a bare loop on the official client, with
// the same settings, for rows of 1 KB.
func (b *bench) speed(ctx context.Context) error {
	return b.with(ctx, func(s *site) error {
		// Nobody subscribes: what is published is gone.
		if err := s.unsubscribe(ctx); err != nil {
			return err
		}
		file := filepath.Join(s.dir, "rows.jsonl")
		if err := writeRows(file, s.speedRows, 1000); err != nil {
			return err
		}
		var bare, ours float64
		for round := range speedRounds {
			theirs, err := s.bareLoop(ctx, file)
			if err != nil {
				return err
			}
			rate, memory, err := s.timedPublish(ctx, fmt.Sprintf("speed-%d", round), file)
			if err != nil {
				return err
			}
			bare, ours = max(bare, theirs), max(ours, rate)
			fmt.Fprintf(s.out, "round %d: bare loop %.0f rows/s, publisher %.0f rows/s, peak memory %d MB\n", round+1, theirs, rate, memory)
		}
		fmt.Fprintf(s.out, "%d rows of 1 KB: best of %d rounds: bare loop %.0f rows/s, publisher %.0f rows/s: %.0f%%\n",
			s.speedRows, speedRounds, bare, ours, 100*ours/bare)
		return nil
	})
}

func (s *site) unsubscribe(ctx context.Context) error {
	client, err := pubsub.NewClient(ctx, project)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // nothing is under way
	return client.SubscriptionAdminClient.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{
		Subscription: "projects/" + project + "/subscriptions/items-workers",
	})
}

// writeRows writes JSON objects of so many bytes, with their newlines.
func writeRows(file string, rows, size int64) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	filler := strings.Repeat("x", int(size))
	for i := range rows {
		head := fmt.Sprintf(`{"id":%d,"text":"`, i)
		// The writer keeps its first error and returns it from Flush.
		_, _ = out.WriteString(head + filler[:int(size)-len(head)-3] + "\"}\n")
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// bareLoop publishes the lines of a file as fast as the official client does,
// with the settings of the publisher, and returns the rows a second.
func (s *site) bareLoop(ctx context.Context, file string) (float64, error) {
	client, err := pubsub.NewClient(ctx, project)
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }() // everything is confirmed
	settings := config.Default().Publish
	publisher := client.Publisher("items")
	publisher.PublishSettings.FlowControlSettings = pubsub.FlowControlSettings{
		MaxOutstandingMessages: settings.MaxOutstanding,
		MaxOutstandingBytes:    int(settings.MaxOutstandingBytes),
		LimitExceededBehavior:  pubsub.FlowControlBlock,
	}
	publisher.PublishSettings.CountThreshold = min(pubsub.MaxPublishRequestCount, settings.MaxOutstanding/2)
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(bufio.NewReaderSize(f, 1<<20))
	start := time.Now()
	results := make(chan *pubsub.PublishResult, settings.MaxOutstanding)
	confirmed := make(chan error, 1)
	go func() {
		var first error
		for result := range results {
			if _, err := result.Get(ctx); err != nil && first == nil {
				first = err
			}
		}
		confirmed <- first
	}()
	for i := 0; lines.Scan(); i++ {
		results <- publisher.Publish(ctx, &pubsub.Message{Data: bytes.Clone(lines.Bytes()), Attributes: map[string]string{
			"run_id": "bare", "item_id": fmt.Sprint(i), "content_type": "application/json",
		}})
	}
	close(results)
	if err := <-confirmed; err != nil {
		return 0, fmt.Errorf("bare loop: %w", err)
	}
	took := time.Since(start)
	publisher.Stop()
	return float64(s.speedRows) / took.Seconds(), lines.Err()
}

var itemsPerSecond = regexp.MustCompile(`(?m)^[0-9,]+ items in .*, ([0-9,]+) items/s$`)

// timedPublish publishes the file as a run of that name, and returns the rows
// a second of the publishing itself, as the publisher says it.
func (s *site) timedPublish(ctx context.Context, run, file string) (rate float64, memory int64, err error) {
	cmd := s.publisher(ctx, "publish", "--run", run, file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("publish: %w: %s", err, stderr.String())
	}
	said := itemsPerSecond.FindSubmatch(out)
	if said == nil {
		return 0, 0, fmt.Errorf("publish said %q, and not how fast it was", out)
	}
	if _, err := fmt.Sscan(strings.ReplaceAll(string(said[1]), ",", ""), &rate); err != nil {
		return 0, 0, err
	}
	return rate, peak(cmd), nil
}
