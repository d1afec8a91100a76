package helm_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotbatch/spotbatch/internal/config"
)

// load loads the rendered configuration as worker and publisher do.
func load(t *testing.T, m *corev1.ConfigMap) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(m.Data["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := config.Load(file, nil)
	if err != nil {
		t.Fatalf("rendered configuration: %v\n%s", err, m.Data["config.yaml"])
	}
	if err := cfg.ValidateWorker(); err != nil {
		t.Errorf("rendered configuration for workers: %v", err)
	}
	if err := cfg.ValidatePublisher(); err != nil {
		t.Errorf("rendered configuration for publishers: %v", err)
	}
	return cfg
}

func TestValuesThatAreRefused(t *testing.T) {
	for _, test := range []struct{ name, set, want string }{
		{"unknown value", "replica=3", "additional properties 'replica' not allowed"},
		{"unknown key", "config.batch.max_sise=3", "at '/config/batch': additional properties 'max_sise' not allowed"},
		{"unknown key at depth", "config.model.input.image.colour=rgb", "additional properties 'colour' not allowed"},
		{"duration as number", "config.pull.lease=30", "at '/config/pull/lease': got number, want string"},
		{"duration without unit", "config.infer.timeout=5x", "at '/config/infer/timeout'"},
		{"size", "config.batch.max_bytes=32MiX", "at '/config/batch/max_bytes'"},
		{"fraction", "config.batch.max_size=1.5", "at '/config/batch/max_size'"},
		{"negative replicas", "replicas=-1", "at '/replicas'"},
		{"replicas as text", "replicas=many", "at '/replicas': got string, want integer"},
		{"text for list", "config.model.command=python3", "at '/config/model/command': got string, want array"},
		{"pull policy", "image.pullPolicy=Sometimes", "at '/image/pullPolicy'"},
		{"run", "publisher.run=a b", "at '/publisher/run'"},
		{"mount path", "modelMountPath=models", "at '/modelMountPath'"},
		{"number in labels", "podLabels.a=1", "at '/podLabels/a': got number, want string"},

		{"no image", "image.repository=", "image.repository: set it to the image to run"},
		{"no project", "config.project=", "config.project: set it"},
		{"no database", "config.spanner=null", "config.spanner.database: set it"},
		{"no topic", "config.pubsub.topic=", "config.pubsub.topic: set it"},
		{"no kind", "config.model.kind=", "config.model.kind: set it"},
		{"drain is grace", "config.drain.timeout=15s", "config.drain.timeout: 15s: must be less than config.grace_period (15s)"},
		{"drain above default grace", "config.drain.timeout=20s,config.grace_period=null", "must be less than config.grace_period (15s)"},
		{"drain in another unit", "config.drain.timeout=0.25m", "config.drain.timeout: 0.25m: must be less than config.grace_period (15s)"},
		{"drain above Spot", "config.drain.timeout=20s,config.grace_period=60s", "must be less than spot.gracePeriod (15s)"},
		{"cuda without GPU", "gpu.count=0", "config.model.device: cuda: needs a GPU"},
		{"idle GPU", "config.model.device=cpu", "gpu.count: 1: config.model.device is cpu"},
		{"health on loopback", "config.health.addr=127.0.0.1:8081", "config.health.addr: 127.0.0.1:8081: the kubelet cannot reach it"},
		{"monitoring of nothing", "podMonitoring.enabled=true,config.telemetry.metrics=otlp", "needs config.telemetry.metrics: prometheus"},
		{"budget for a Job", "config.pull.exit_when_idle=5m,podDisruptionBudget.enabled=true", "podDisruptionBudget.enabled: true: there is none for a Job"},
		{"publisher without run", "publisher.enabled=true,publisher.image.repository=r", "publisher.run: name the run"},
		{"publisher without source", "publisher.enabled=true,publisher.image.repository=r,publisher.run=r", "publisher.sources: name at least one"},
		{"publisher without image", "publisher.enabled=true,publisher.run=r,publisher.sources={a}", "publisher.image.repository: set it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := refused(t, "-f", "testdata/minimal.yaml", "--set", test.set); !strings.Contains(got, test.want) {
				t.Errorf("said %q, want %q", got, test.want)
			}
		})
	}
}

func TestDefaultsAloneAreRefused(t *testing.T) {
	if got := refused(t); !strings.Contains(got, "set it") {
		t.Errorf("said %q", got)
	}
}

// schema is what is read of a JSON schema.
type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 string            `json:"type"`
	Items                *schema           `json:"items"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Properties           map[string]schema `json:"properties"`
}

// says returns the type that the schema gives a value.
func (s schema) says() string {
	switch {
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, "#/definitions/")
	case s.Items != nil:
		return s.Type + " of " + s.Items.says()
	}
	return s.Type
}

// typeOf returns the type that the schema should give a field of config.Config.
func typeOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[config.Bytes]():
		return "bytes"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "array of " + typeOf(t.Elem())
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	}
	return t.Kind().String()
}

func TestSchemaKnowsEachConfigurationKey(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	compare(t, "config", root.Properties["config"], reflect.TypeFor[config.Config]())
}

func compare(t *testing.T, path string, s schema, typ reflect.Type) {
	t.Helper()
	if s.Type != "object" || string(s.AdditionalProperties) != "false" {
		t.Errorf("values.schema.json lets unknown keys pass in %s", path)
	}
	for field := range typ.Fields() {
		name := field.Tag.Get("mapstructure")
		child, found := s.Properties[name]
		delete(s.Properties, name)
		key := path + "." + name
		switch {
		case !found:
			t.Errorf("values.schema.json lacks %s", key)
		case field.Type.Kind() == reflect.Struct:
			compare(t, key, child, field.Type)
		case child.says() != typeOf(field.Type):
			t.Errorf("values.schema.json says %q of %s, want %q", child.says(), key, typeOf(field.Type))
		}
	}
	for name := range s.Properties {
		t.Errorf("values.schema.json has %s.%s, which does not exist", path, name)
	}
}
