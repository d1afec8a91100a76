package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

var databasePath = regexp.MustCompile(`^projects/[^/]+/instances/[^/]+/databases/[^/]+$`)

// maxVersion is the width of the column ModelVersion, in characters.
const maxVersion = 128

// check collects what is wrong, so that one try shows all of it.
type check struct {
	problems []error
	// addrs says which key listens on an address.
	addrs map[string]string
}

func newCheck() *check { return &check{addrs: map[string]string{}} }

func (c *check) that(ok bool, key string, value any, rule string, args ...any) {
	if !ok {
		c.problems = append(c.problems, fmt.Errorf("%s: %v: %s", key, value, fmt.Sprintf(rule, args...)))
	}
}

func (c *check) required(key, value string) {
	if value == "" {
		c.problems = append(c.problems, fmt.Errorf("%s: missing; set it in the file or as %s", key, EnvName(key)))
	}
}

func (c *check) oneOf(key, value string, allowed ...string) {
	c.that(slices.Contains(allowed, value), key, fmt.Sprintf("%q", value), "must be one of %s", strings.Join(allowed, ", "))
}

func (c *check) atLeast(key string, value, least int) {
	c.that(value >= least, key, value, "must be at least %d", least)
}

// addr checks an address to listen on: host:port, where no host means all and
// port 0 means any that is free.
func (c *check) addr(key, value string) {
	_, port, err := net.SplitHostPort(value)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	c.that(err == nil && notNumber == nil, key, fmt.Sprintf("%q", value), "must read host:port or :port, such as :8081")
	if err == nil && n != 0 {
		c.that(c.addrs[value] == "", key, fmt.Sprintf("%q", value), "is taken by %s", c.addrs[value])
		c.addrs[value] = key
	}
}

func (c *check) positive(key string, value time.Duration) {
	c.that(value > 0, key, value, "must be more than 0s")
}

// ValidatePublisher checks the parts that the publisher uses and returns all
// problems, one a line.
func (c Config) ValidatePublisher() error {
	k := newCheck()
	k.shared(c)
	k.atLeast("publish.max_outstanding", c.Publish.MaxOutstanding, 1)
	k.that(c.Publish.MaxOutstandingBytes >= 10<<20, "publish.max_outstanding_bytes", c.Publish.MaxOutstandingBytes,
		"must be at least 10MiB, so that the largest message fits")
	return errors.Join(k.problems...)
}

// ValidateWorker checks the parts that a worker uses and returns all problems,
// one a line.
func (c Config) ValidateWorker() error {
	k := newCheck()
	k.shared(c)
	k.pipeline(c)
	k.stopping(c)
	if c.Health.Addr != "" {
		k.addr("health.addr", c.Health.Addr)
	}
	k.model(c.Model)
	return errors.Join(k.problems...)
}

func (c *check) shared(cfg Config) {
	c.required("project", cfg.Project)
	c.required("pubsub.topic", cfg.PubSub.Topic)
	c.required("pubsub.subscription", cfg.PubSub.Subscription)
	c.required("pubsub.dead_letter_topic", cfg.PubSub.DeadLetterTopic)
	for _, name := range []struct{ key, value string }{
		{"pubsub.topic", cfg.PubSub.Topic},
		{"pubsub.subscription", cfg.PubSub.Subscription},
		{"pubsub.dead_letter_topic", cfg.PubSub.DeadLetterTopic},
	} {
		c.that(!strings.Contains(name.value, "/"), name.key, fmt.Sprintf("%q", name.value), "write the short name, not the path")
	}
	c.that(cfg.PubSub.Topic == "" || cfg.PubSub.Topic != cfg.PubSub.DeadLetterTopic, "pubsub.dead_letter_topic",
		cfg.PubSub.DeadLetterTopic, "must differ from pubsub.topic")
	c.required("spanner.database", cfg.Spanner.Database)
	c.that(cfg.Spanner.Database == "" || databasePath.MatchString(cfg.Spanner.Database), "spanner.database",
		fmt.Sprintf("%q", cfg.Spanner.Database), "must read projects/P/instances/I/databases/D")
	c.oneOf("telemetry.metrics", cfg.Telemetry.Metrics, "prometheus", "otlp", "none")
	if cfg.Telemetry.Metrics == "prometheus" {
		c.addr("telemetry.metrics_addr", cfg.Telemetry.MetricsAddr)
	}
	c.oneOf("telemetry.traces", cfg.Telemetry.Traces, "otlp", "none")
	c.oneOf("log.level", cfg.Log.Level, "debug", "info", "warn", "error")
	c.oneOf("log.format", cfg.Log.Format, "auto", "json", "text")
}

func (c *check) pipeline(cfg Config) {
	c.atLeast("batch.max_size", cfg.Batch.MaxSize, 1)
	c.that(cfg.Batch.MaxWait >= 0, "batch.max_wait", cfg.Batch.MaxWait, "must not be negative")
	c.that(cfg.Batch.MaxBytes > 0, "batch.max_bytes", cfg.Batch.MaxBytes, "must be more than 0")
	c.that(cfg.Pull.MaxOutstanding >= 2*cfg.Batch.MaxSize, "pull.max_outstanding", cfg.Pull.MaxOutstanding,
		"must be at least 2 x batch.max_size (%d), so that one batch is ready when another leaves the model", cfg.Batch.MaxSize)
	c.that(cfg.Pull.MaxOutstandingBytes > 0, "pull.max_outstanding_bytes", cfg.Pull.MaxOutstandingBytes, "must be more than 0")
	c.that(cfg.Pull.Lease >= 10*time.Second && cfg.Pull.Lease <= 600*time.Second, "pull.lease", cfg.Pull.Lease,
		"must be between 10s and 10m, the limits of Pub/Sub")
	c.atLeast("infer.concurrency", cfg.Infer.Concurrency, 1)
	c.positive("infer.timeout", cfg.Infer.Timeout)
	c.that(cfg.Pull.MaxLease > cfg.Infer.Timeout+cfg.Commit.Timeout, "pull.max_lease", cfg.Pull.MaxLease,
		"must be more than infer.timeout (%s) and commit.timeout (%s) together", cfg.Infer.Timeout, cfg.Commit.Timeout)
	c.that(cfg.Pull.MaxLease >= cfg.Pull.Lease, "pull.max_lease", cfg.Pull.MaxLease, "must be at least pull.lease (%s)", cfg.Pull.Lease)
	c.that(cfg.Pull.ExitWhenIdle == 0 || cfg.Pull.ExitWhenIdle > cfg.Pull.Lease, "pull.exit_when_idle", cfg.Pull.ExitWhenIdle,
		"must be 0s or more than pull.lease (%s), after which the messages of a killed worker come back", cfg.Pull.Lease)
	c.atLeast("infer.max_item_failures", cfg.Infer.MaxItemFailures, 1)
	c.atLeast("infer.max_item_crashes", cfg.Infer.MaxItemCrashes, 2)
	c.atLeast("infer.suspect_after", cfg.Infer.SuspectAfter, 2)
	c.atLeast("commit.concurrency", cfg.Commit.Concurrency, 1)
	c.positive("commit.timeout", cfg.Commit.Timeout)
}

func (c *check) stopping(cfg Config) {
	c.that(cfg.Drain.Timeout >= 3*time.Second, "drain.timeout", cfg.Drain.Timeout,
		"must be at least 3s: its last 2s are kept for sending nacks")
	c.that(cfg.Drain.Timeout < cfg.GracePeriod, "drain.timeout", cfg.Drain.Timeout,
		"must be less than grace_period (%s), or the worker is killed before it has drained", cfg.GracePeriod)
	c.that(cfg.Telemetry.FlushTimeout > 0 && cfg.Telemetry.FlushTimeout < drainReserve, "telemetry.flush_timeout",
		cfg.Telemetry.FlushTimeout, "must be more than 0s and less than 2s, the end of drain.timeout that is kept for it")
}

func (c *check) model(m Model) {
	c.that(m.StartTimeout > 0, "model.start_timeout", m.StartTimeout, "must be more than 0s")
	c.that(utf8.RuneCountInString(m.Version) <= maxVersion, "model.version", fmt.Sprintf("%q", m.Version),
		"must have at most %d characters, the width of the column ModelVersion", maxVersion)
	c.that(m.MaxBatch >= 0, "model.max_batch", m.MaxBatch, "must not be negative")
	switch m.Kind {
	case "":
		c.required("model.kind", m.Kind)
	case "onnx":
		c.onnx(m)
	case "command":
		c.that(len(m.Command) > 0, "model.command", m.Command, `must name the program to run, such as ["python3", "runner.py"]`)
	default:
		c.oneOf("model.kind", m.Kind, "onnx", "command")
	}
}

func (c *check) onnx(m Model) {
	c.required("model.path", m.Path)
	c.oneOf("model.device", m.Device, "cpu", "cuda")
	c.that(m.DeviceID >= 0, "model.device_id", m.DeviceID, "must not be negative")
	c.that(m.Threads >= 0, "model.threads", m.Threads, "must not be negative")
	c.oneOf("model.input.codec", m.Input.Codec, "image", "field", "tensor")
	c.that(m.Input.Codec != "field" || m.Input.Field != "", "model.input.field", `""`, "must name the JSON field when model.input.codec is field")
	c.oneOf("model.output.codec", m.Output.Codec, "topk", "raw")
	c.atLeast("model.output.k", m.Output.K, 1)
	if m.Input.Codec == "image" {
		c.image(m.Input.Image)
	}
}

func (c *check) image(im Image) {
	c.that(im.Width >= 0, "model.input.image.width", im.Width, "must not be negative")
	c.that(im.Height >= 0, "model.input.image.height", im.Height, "must not be negative")
	c.oneOf("model.input.image.color", im.Color, "gray", "rgb")
	c.oneOf("model.input.image.layout", im.Layout, "nchw", "nhwc")
	c.atLeast("model.input.image.max_pixels", im.MaxPixels, 1)
	channels := 3
	if im.Color == "gray" {
		channels = 1
	}
	for _, list := range []struct {
		key    string
		values []float64
	}{{"model.input.image.mean", im.Mean}, {"model.input.image.std", im.Std}} {
		n := len(list.values)
		c.that(n == 0 || n == 1 || n == channels, list.key, list.values, "must have one number, or one for each of %d channels", channels)
	}
	c.that(!slices.Contains(im.Std, 0), "model.input.image.std", im.Std, "must not contain 0: values are divided by it")
}
