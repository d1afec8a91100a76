package config

import (
	"strings"
	"testing"
	"time"
)

// valid returns a configuration that both worker and publisher accept.
func valid() Config {
	cfg := Default()
	cfg.Project = "p"
	cfg.PubSub = PubSub{Topic: "items", Subscription: "items-workers", DeadLetterTopic: "items-dead"}
	cfg.Spanner.Database = "projects/p/instances/i/databases/d"
	cfg.Pull.MaxOutstanding = 64
	cfg.Model.Kind = "onnx"
	cfg.Model.Path = "model.onnx"
	return cfg
}

func TestValidConfigurations(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"plain":             func(*Config) {},
		"command":           func(c *Config) { c.Model = Model{Kind: "command", Command: []string{"x"}, StartTimeout: time.Second} },
		"cuda":              func(c *Config) { c.Model.Device = "cuda" },
		"field":             func(c *Config) { c.Model.Input = Input{Codec: "field", Field: "x"} },
		"tensor":            func(c *Config) { c.Model.Input = Input{Codec: "tensor"} },
		"mean for all":      func(c *Config) { c.Model.Input.Image.Mean = []float64{0.5} },
		"mean for each":     func(c *Config) { c.Model.Input.Image.Mean = []float64{1, 2, 3} },
		"mean for gray":     func(c *Config) { c.Model.Input.Image.Color, c.Model.Input.Image.Mean = "gray", []float64{1} },
		"no wait":           func(c *Config) { c.Batch.MaxWait = 0 },
		"no health":         func(c *Config) { c.Health.Addr = "" },
		"any free port":     func(c *Config) { c.Health.Addr, c.Telemetry.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0" },
		"no metrics":        func(c *Config) { c.Telemetry.Metrics, c.Telemetry.MetricsAddr = "none", "" },
		"IPv6":              func(c *Config) { c.Health.Addr = "[::1]:8081" },
		"least outstanding": func(c *Config) { c.Pull.MaxOutstanding = 2 * c.Batch.MaxSize },
		"least lease":       func(c *Config) { c.Pull.Lease = 10 * time.Second },
		"longest lease":     func(c *Config) { c.Pull.Lease = 600 * time.Second },
		"tight drain":       func(c *Config) { c.Drain.Timeout = c.GracePeriod - time.Millisecond },
		"least drain":       func(c *Config) { c.Drain.Timeout = 3 * time.Second },
		"version of 128":    func(c *Config) { c.Model.Version = strings.Repeat("é", 128) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := valid()
			change(&cfg)
			if err := cfg.ValidateWorker(); err != nil {
				t.Errorf("worker: %v", err)
			}
			if err := cfg.ValidatePublisher(); err != nil {
				t.Errorf("publisher: %v", err)
			}
		})
	}
}

// A rule has the key that it is about first, then the value, then what it must be.
func TestRulesOfWorkers(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"size", func(c *Config) { c.Batch.MaxSize = 0 }, "batch.max_size: 0: must be at least 1"},
		{"wait", func(c *Config) { c.Batch.MaxWait = -1 }, "batch.max_wait: -1ns: must not be negative"},
		{"bytes", func(c *Config) { c.Batch.MaxBytes = 0 }, "batch.max_bytes: 0: must be more than 0"},
		{"outstanding", func(c *Config) { c.Pull.MaxOutstanding = 31 }, "pull.max_outstanding: 31: must be at least 2 x batch.max_size (16)"},
		{"outstanding below zero", func(c *Config) { c.Pull.MaxOutstanding = -1 }, "pull.max_outstanding: -1"},
		{"outstanding bytes", func(c *Config) { c.Pull.MaxOutstandingBytes = 0 }, "pull.max_outstanding_bytes: 0: must be more than 0"},
		{"short lease", func(c *Config) { c.Pull.Lease = 9999 * time.Millisecond }, "pull.lease: 9.999s: must be between 10s and 10m"},
		{"long lease", func(c *Config) { c.Pull.Lease = 601 * time.Second }, "pull.lease: 10m1s: must be between 10s and 10m"},
		{"exit when idle", func(c *Config) { c.Pull.ExitWhenIdle = 30 * time.Second }, "pull.exit_when_idle: 30s: must be 0s or more than pull.lease (30s)"},
		{"negative idle time", func(c *Config) { c.Pull.ExitWhenIdle = -time.Second }, "pull.exit_when_idle: -1s: must be 0s or more than"},
		{"max lease", func(c *Config) { c.Pull.MaxLease = 5*time.Minute + 20*time.Second }, "pull.max_lease: 5m20s: must be more than infer.timeout (5m0s) and commit.timeout (20s) together"},
		{"max lease below lease", func(c *Config) {
			c.Infer.Timeout, c.Pull.Lease, c.Pull.MaxLease = time.Minute, 10*time.Minute, 5*time.Minute
		}, "pull.max_lease: 5m0s: must be at least pull.lease (10m0s)"},
		{"infer concurrency", func(c *Config) { c.Infer.Concurrency = 0 }, "infer.concurrency: 0: must be at least 1"},
		{"infer timeout", func(c *Config) { c.Infer.Timeout = 0 }, "infer.timeout: 0s: must be more than 0s"},
		{"item failures", func(c *Config) { c.Infer.MaxItemFailures = 0 }, "infer.max_item_failures: 0: must be at least 1"},
		{"item crashes", func(c *Config) { c.Infer.MaxItemCrashes = 1 }, "infer.max_item_crashes: 1: must be at least 2"},
		{"suspect", func(c *Config) { c.Infer.SuspectAfter = 1 }, "infer.suspect_after: 1: must be at least 2"},
		{"commit concurrency", func(c *Config) { c.Commit.Concurrency = 0 }, "commit.concurrency: 0: must be at least 1"},
		{"commit timeout", func(c *Config) { c.Commit.Timeout = -time.Second }, "commit.timeout: -1s: must be more than 0s"},
		{"drain too short", func(c *Config) { c.Drain.Timeout = 2999 * time.Millisecond }, "drain.timeout: 2.999s: must be at least 3s"},
		{"drain is grace", func(c *Config) { c.Drain.Timeout = c.GracePeriod }, "drain.timeout: 15s: must be less than grace_period (15s)"},
		{"flush of nothing", func(c *Config) { c.Telemetry.FlushTimeout = 0 }, "telemetry.flush_timeout: 0s: must be more than 0s and less than 2s"},
		{"flush too long", func(c *Config) { c.Telemetry.FlushTimeout = 2 * time.Second }, "telemetry.flush_timeout: 2s: must be more than 0s and less than 2s"},
		{"health", func(c *Config) { c.Health.Addr = "8081" }, `health.addr: "8081": must read host:port or :port`},
		{"health port", func(c *Config) { c.Health.Addr = ":99999" }, `health.addr: ":99999": must read host:port or :port`},
		{"same port", func(c *Config) { c.Health.Addr = c.Telemetry.MetricsAddr }, `health.addr: ":9464": is taken by telemetry.metrics_addr`},
		{"start", func(c *Config) { c.Model.StartTimeout = 0 }, "model.start_timeout: 0s: must be more than 0s"},
		{"version", func(c *Config) { c.Model.Version = strings.Repeat("v", 129) }, "must have at most 128 characters"},
		{"max batch", func(c *Config) { c.Model.MaxBatch = -1 }, "model.max_batch: -1: must not be negative"},
		{"no kind", func(c *Config) { c.Model.Kind = "" }, "model.kind: missing; set it in the file or as SPOTBATCH_MODEL_KIND"},
		{"kind", func(c *Config) { c.Model.Kind = "torch" }, `model.kind: "torch": must be one of onnx, command`},
		{"no command", func(c *Config) { c.Model.Kind = "command" }, "model.command: []: must name the program to run"},
		{"no path", func(c *Config) { c.Model.Path = "" }, "model.path: missing"},
		{"device", func(c *Config) { c.Model.Device = "gpu" }, `model.device: "gpu": must be one of cpu, cuda`},
		{"device id", func(c *Config) { c.Model.DeviceID = -1 }, "model.device_id: -1: must not be negative"},
		{"threads", func(c *Config) { c.Model.Threads = -1 }, "model.threads: -1: must not be negative"},
		{"input codec", func(c *Config) { c.Model.Input.Codec = "png" }, `model.input.codec: "png": must be one of image, field, tensor`},
		{"no field", func(c *Config) { c.Model.Input.Codec = "field" }, "model.input.field: \"\": must name the JSON field"},
		{"output codec", func(c *Config) { c.Model.Output.Codec = "argmax" }, `model.output.codec: "argmax": must be one of topk, raw`},
		{"k", func(c *Config) { c.Model.Output.K = 0 }, "model.output.k: 0: must be at least 1"},
		{"width", func(c *Config) { c.Model.Input.Image.Width = -1 }, "model.input.image.width: -1: must not be negative"},
		{"height", func(c *Config) { c.Model.Input.Image.Height = -1 }, "model.input.image.height: -1: must not be negative"},
		{"color", func(c *Config) { c.Model.Input.Image.Color = "grey" }, `model.input.image.color: "grey": must be one of gray, rgb`},
		{"layout", func(c *Config) { c.Model.Input.Image.Layout = "chw" }, `model.input.image.layout: "chw": must be one of nchw, nhwc`},
		{"pixels", func(c *Config) { c.Model.Input.Image.MaxPixels = 0 }, "model.input.image.max_pixels: 0: must be at least 1"},
		{"mean", func(c *Config) { c.Model.Input.Image.Mean = []float64{1, 2} }, "model.input.image.mean: [1 2]: must have one number, or one for each of 3 channels"},
		{"std", func(c *Config) { c.Model.Input.Image.Color, c.Model.Input.Image.Std = "gray", []float64{1, 2, 3} }, "model.input.image.std: [1 2 3]: must have one number, or one for each of 1 channels"},
		{"std of zero", func(c *Config) { c.Model.Input.Image.Std = []float64{1, 0, 1} }, "model.input.image.std: [1 0 1]: must not contain 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := valid()
			test.change(&cfg)
			wantError(t, cfg.ValidateWorker(), test.want)
			if err := cfg.ValidatePublisher(); err != nil {
				t.Errorf("a publisher minds what it does not use: %v", err)
			}
		})
	}
}

func TestRulesOfPublishers(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"outstanding", func(c *Config) { c.Publish.MaxOutstanding = 0 }, "publish.max_outstanding: 0: must be at least 1"},
		{"bytes", func(c *Config) { c.Publish.MaxOutstandingBytes = 10<<20 - 1 }, "publish.max_outstanding_bytes: 10485759: must be at least 10MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := valid()
			test.change(&cfg)
			wantError(t, cfg.ValidatePublisher(), test.want)
			if err := cfg.ValidateWorker(); err != nil {
				t.Errorf("a worker minds what it does not use: %v", err)
			}
		})
	}
}

func TestRulesOfBoth(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"project", func(c *Config) { c.Project = "" }, "project: missing; set it in the file or as SPOTBATCH_PROJECT"},
		{"topic", func(c *Config) { c.PubSub.Topic = "" }, "pubsub.topic: missing"},
		{"subscription", func(c *Config) { c.PubSub.Subscription = "" }, "pubsub.subscription: missing"},
		{"dead letters", func(c *Config) { c.PubSub.DeadLetterTopic = "" }, "pubsub.dead_letter_topic: missing"},
		{"topic path", func(c *Config) { c.PubSub.Topic = "projects/p/topics/t" }, `pubsub.topic: "projects/p/topics/t": write the short name, not the path`},
		{"subscription path", func(c *Config) { c.PubSub.Subscription = "projects/p/subscriptions/s" }, "pubsub.subscription:"},
		{"dead letter path", func(c *Config) { c.PubSub.DeadLetterTopic = "projects/p/topics/d" }, "pubsub.dead_letter_topic:"},
		{"dead letters go round", func(c *Config) { c.PubSub.DeadLetterTopic = "items" }, "pubsub.dead_letter_topic: items: must differ from pubsub.topic"},
		{"no database", func(c *Config) { c.Spanner.Database = "" }, "spanner.database: missing"},
		{"database", func(c *Config) { c.Spanner.Database = "spotbatch" }, `spanner.database: "spotbatch": must read projects/P/instances/I/databases/D`},
		{"metrics", func(c *Config) { c.Telemetry.Metrics = "statsd" }, `telemetry.metrics: "statsd": must be one of prometheus, otlp, none`},
		{"metrics address", func(c *Config) { c.Telemetry.MetricsAddr = "" }, `telemetry.metrics_addr: "": must read host:port`},
		{"traces", func(c *Config) { c.Telemetry.Traces = "on" }, `telemetry.traces: "on": must be one of otlp, none`},
		{"level", func(c *Config) { c.Log.Level = "trace" }, `log.level: "trace": must be one of debug, info, warn, error`},
		{"format", func(c *Config) { c.Log.Format = "logfmt" }, `log.format: "logfmt": must be one of auto, json, text`},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := valid()
			test.change(&cfg)
			wantError(t, cfg.ValidateWorker(), test.want)
			wantError(t, cfg.ValidatePublisher(), test.want)
		})
	}
}

func TestDefaultsNeedOnlyNames(t *testing.T) {
	cfg, _, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"project", "pubsub.topic", "pubsub.subscription", "pubsub.dead_letter_topic", "spanner.database"}
	wantError(t, cfg.ValidatePublisher(), names...)
	wantError(t, cfg.ValidateWorker(), append(names, "model.kind")...)
}

func TestHardStopLeavesTheReserve(t *testing.T) {
	if got := Default().HardStop(); got != 8*time.Second {
		t.Errorf("hard stop after %s, want 8s", got)
	}
}
