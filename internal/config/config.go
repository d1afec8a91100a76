// Package config is what operators write: one YAML file, environment
// variables and flags, loaded strictly over defaults. The structs here hold
// plain values and nothing else; each adapter takes its own section.
package config

import "time"

// Config is the whole configuration. Workers and publishers share one shape,
// so that one file can serve both; each validates the parts that it uses.
type Config struct {
	// Project is the Google Cloud project of topic and subscription. No default.
	Project string `mapstructure:"project"`
	// GracePeriod is the time between SIGTERM and SIGKILL that the platform
	// gives. Default 15s, which is what GKE gives on Spot nodes.
	GracePeriod time.Duration `mapstructure:"grace_period"`

	PubSub    PubSub    `mapstructure:"pubsub"`
	Spanner   Spanner   `mapstructure:"spanner"`
	Publish   Publish   `mapstructure:"publish"`
	Pull      Pull      `mapstructure:"pull"`
	Batch     Batch     `mapstructure:"batch"`
	Infer     Infer     `mapstructure:"infer"`
	Model     Model     `mapstructure:"model"`
	Commit    Commit    `mapstructure:"commit"`
	Drain     Drain     `mapstructure:"drain"`
	Health    Health    `mapstructure:"health"`
	Telemetry Telemetry `mapstructure:"telemetry"`
	Log       Log       `mapstructure:"log"`
}

// PubSub names topics and subscription by their short names, not paths. There
// are no defaults.
type PubSub struct {
	// Topic carries the items.
	Topic string `mapstructure:"topic"`
	// Subscription is what workers pull from.
	Subscription string `mapstructure:"subscription"`
	// DeadLetterTopic takes what cannot be read as an item. It is not Topic.
	DeadLetterTopic string `mapstructure:"dead_letter_topic"`
}

// Spanner says where results are stored.
type Spanner struct {
	// Database reads projects/P/instances/I/databases/D. No default.
	Database string `mapstructure:"database"`
}

// Publish bounds what a publisher has sent and not yet seen confirmed.
type Publish struct {
	// MaxOutstanding is a number of messages. Default 10000.
	MaxOutstanding int `mapstructure:"max_outstanding"`
	// MaxOutstandingBytes is the sum of their sizes. Default 64MiB.
	MaxOutstandingBytes Bytes `mapstructure:"max_outstanding_bytes"`
}

// Pull bounds what a worker holds.
type Pull struct {
	// MaxOutstanding is the number of deliveries held at once, at least twice
	// batch.max_size. 0, the default, means four times batch.max_size.
	MaxOutstanding int `mapstructure:"max_outstanding"`
	// MaxOutstandingBytes is the sum of their payloads. Default 256MiB.
	MaxOutstandingBytes Bytes `mapstructure:"max_outstanding_bytes"`
	// Lease is by how much a lease is extended each time, 10s to 600s.
	// Default 30s. A worker that is killed keeps its messages from the others
	// for at most this long.
	Lease time.Duration `mapstructure:"lease"`
	// MaxLease is how long one delivery is held at most. Default 60m.
	MaxLease time.Duration `mapstructure:"max_lease"`
	// ExitWhenIdle is how long a worker that is ready waits without work before
	// it drains and exits 0, for Kubernetes Jobs. 0, the default, means that it
	// waits for ever.
	ExitWhenIdle time.Duration `mapstructure:"exit_when_idle"`
}

// Batch says when a batch goes to the model.
type Batch struct {
	// MaxSize is the number of items. Default 16; the model's own limit wins
	// when it is lower.
	MaxSize int `mapstructure:"max_size"`
	// MaxWait is how long the first item of a batch waits for others while
	// the model is free. Default 50ms; 0 means not at all.
	MaxWait time.Duration `mapstructure:"max_wait"`
	// MaxBytes is the sum of the decoded inputs. Default 32MiB. A single item
	// above it goes alone.
	MaxBytes Bytes `mapstructure:"max_bytes"`
}

// Infer says how the model is run and when an item is given up.
type Infer struct {
	// Concurrency is the number of batches in the model at once. Default 1.
	Concurrency int `mapstructure:"concurrency"`
	// Timeout is how long one batch may take. Default 5m.
	Timeout time.Duration `mapstructure:"timeout"`
	// MaxItemFailures is how often an item may fail alone. Default 3.
	MaxItemFailures int `mapstructure:"max_item_failures"`
	// MaxItemCrashes is how often an item may kill the runner, or the whole
	// worker, while alone in the model, counted across workers. Default 5.
	MaxItemCrashes int `mapstructure:"max_item_crashes"`
	// SuspectAfter is the delivery attempt from which an item's starts are
	// recorded in the table Attempts, one commit a batch. Default 3.
	SuspectAfter int `mapstructure:"suspect_after"`
}

// Commit says how results are written.
type Commit struct {
	// Concurrency is the number of commits in flight. Default 4.
	Concurrency int `mapstructure:"concurrency"`
	// Timeout is how long one commit is tried before its items are given
	// back. Default 20s.
	Timeout time.Duration `mapstructure:"timeout"`
}

// Drain says how long a worker may take to stop.
type Drain struct {
	// Timeout is the time from SIGTERM to exit, below grace_period and at
	// least 3s: the last 2s are kept for sending nacks and flushing telemetry.
	// Default 10s.
	Timeout time.Duration `mapstructure:"timeout"`
}

// Health is where /livez and /readyz are served.
type Health struct {
	// Addr is host:port; empty turns the server off. Default ":8081".
	Addr string `mapstructure:"addr"`
}

// Telemetry says where metrics and traces go. The standard OTEL_* variables
// work beside it.
type Telemetry struct {
	// Metrics is prometheus, otlp or none. Default prometheus.
	Metrics string `mapstructure:"metrics"`
	// MetricsAddr is where prometheus is served. Default ":9464".
	MetricsAddr string `mapstructure:"metrics_addr"`
	// Traces is otlp or none. Default none.
	Traces string `mapstructure:"traces"`
	// FlushTimeout is the time that the last export may take, below the 2s
	// that the drain keeps for it. Default 1s.
	FlushTimeout time.Duration `mapstructure:"flush_timeout"`
}

// Log says what is logged and how.
type Log struct {
	// Level is debug, info, warn or error. Default info.
	Level string `mapstructure:"level"`
	// Format is json, text or auto: text on a terminal, else json.
	Format string `mapstructure:"format"`
}

// drainReserve is the end of drain.timeout that is kept for sending the last
// nacks and for telemetry.
const drainReserve = 2 * time.Second

// HardStop is the time after SIGTERM at which everything still held is given
// back, whatever the model does.
func (c Config) HardStop() time.Duration { return c.Drain.Timeout - drainReserve }

// Default returns the configuration before anything was written. It is not
// valid by itself: the names of what is used have no default.
func Default() Config {
	return Config{
		GracePeriod: 15 * time.Second,
		Publish:     Publish{MaxOutstanding: 10_000, MaxOutstandingBytes: 64 << 20},
		Pull:        Pull{MaxOutstandingBytes: 256 << 20, Lease: 30 * time.Second, MaxLease: time.Hour},
		Batch:       Batch{MaxSize: 16, MaxWait: 50 * time.Millisecond, MaxBytes: 32 << 20},
		Infer: Infer{
			Concurrency: 1, Timeout: 5 * time.Minute,
			MaxItemFailures: 3, MaxItemCrashes: 5, SuspectAfter: 3,
		},
		Model:     defaultModel(),
		Commit:    Commit{Concurrency: 4, Timeout: 20 * time.Second},
		Drain:     Drain{Timeout: 10 * time.Second},
		Health:    Health{Addr: ":8081"},
		Telemetry: Telemetry{Metrics: "prometheus", MetricsAddr: ":9464", Traces: "none", FlushTimeout: time.Second},
		Log:       Log{Level: "info", Format: "auto"},
	}
}
