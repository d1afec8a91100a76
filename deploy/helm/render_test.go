// Package helm_test renders the chart with Helm and reads the result as the
// API server and the worker would.
package helm_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const chart = "spotbatch"

// podMonitoring is what the chart uses of Google's custom resource.
type podMonitoring struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// objects is a rendered chart. What was not rendered is nil.
type objects struct {
	config     *corev1.ConfigMap
	account    *corev1.ServiceAccount
	worker     *appsv1.Deployment
	workerJob  *batchv1.Job
	publisher  *batchv1.Job
	disruption *policyv1.PodDisruptionBudget
	monitoring *podMonitoring
}

// helm runs the pinned Helm and returns what it wrote.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	tool, err := filepath.Abs("../../bin/tools/helm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tool); err != nil {
		if os.Getenv("SPOTBATCH_TEST_REQUIRE_HELM") == "1" {
			t.Fatalf("no Helm: %v", err)
		}
		t.Skip("no Helm in bin/tools; `make test-helm` builds it")
	}
	home := t.TempDir()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "HELM_NO_PLUGINS=1"}
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// render renders the chart with a file of testdata and further arguments.
func render(t *testing.T, values string, args ...string) objects {
	t.Helper()
	out, stderr, err := helm(t, append([]string{"template", "rel", chart, "-f", "testdata/" + values}, args...)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	var all objects
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(out)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all.add(t, doc)
	}
}

// add decodes one document. Unknown and repeated fields are errors.
func (o *objects) add(t *testing.T, doc []byte) {
	t.Helper()
	var kind metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	var target any
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 ConfigMap":
		target = once(t, &o.config)
	case "v1 ServiceAccount":
		target = once(t, &o.account)
	case "apps/v1 Deployment":
		target = once(t, &o.worker)
	case "batch/v1 Job":
		if kind.Labels["app.kubernetes.io/component"] == "worker" {
			target = once(t, &o.workerJob)
			break
		}
		target = once(t, &o.publisher)
	case "policy/v1 PodDisruptionBudget":
		target = once(t, &o.disruption)
	case "monitoring.googleapis.com/v1 PodMonitoring":
		target = once(t, &o.monitoring)
	case " ":
		return // a template that rendered to nothing but a comment
	default:
		t.Fatalf("no test for %s %s", kind.APIVersion, kind.Kind)
	}
	// As the API server does: names are compared with their capitals.
	text, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		t.Fatalf("%s: %v in:\n%s", kind.Kind, err, doc)
	}
	problems, err := json.UnmarshalStrict(text, target)
	if err = errors.Join(append(problems, err)...); err != nil {
		t.Errorf("%s: %v in:\n%s", kind.Kind, err, doc)
	}
}

func once[T any](t *testing.T, slot **T) *T {
	t.Helper()
	if *slot != nil {
		t.Errorf("two objects of type %T", **slot)
	}
	*slot = new(T)
	return *slot
}

// refused renders the chart and returns what Helm said against it.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, err := helm(t, append([]string{"template", "rel", chart}, args...)...)
	if err == nil {
		t.Fatalf("rendered, want an error:\n%s", out)
	}
	return strings.Join(strings.Fields(stderr), " ")
}
