package helm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// check verifies what must hold whatever the values are, and returns the
// worker's container.
func check(t *testing.T, o objects) corev1.Container {
	t.Helper()
	if o.config == nil || o.worker == nil {
		t.Fatal("no ConfigMap or no Deployment")
	}
	cfg := load(t, o.config)
	spec := o.worker.Spec.Template.Spec
	if len(spec.Containers) != 1 {
		t.Fatalf("%d containers, want 1", len(spec.Containers))
	}
	c := spec.Containers[0]

	grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
	if grace < cfg.GracePeriod || grace >= cfg.GracePeriod+time.Second {
		t.Errorf("terminationGracePeriodSeconds is %s, want grace_period (%s) in whole seconds", grace, cfg.GracePeriod)
	}
	if grace <= cfg.Drain.Timeout {
		t.Errorf("terminationGracePeriodSeconds is %s, not above drain.timeout (%s)", grace, cfg.Drain.Timeout)
	}
	if c.Lifecycle != nil {
		t.Error("a lifecycle hook takes its time from the drain")
	}
	checkProbes(t, c, cfg.Model.StartTimeout)
	checkPod(t, "worker", spec)
	selector := o.worker.Spec.Selector.MatchLabels
	for key, value := range selector {
		if got := o.worker.Spec.Template.Labels[key]; got != value {
			t.Errorf("the pods' label %s is %q, but the selector wants %q", key, got, value)
		}
	}
	if len(selector) != 3 {
		t.Errorf("selector %v, want name, instance and component", selector)
	}
	return c
}

func checkProbes(t *testing.T, c corev1.Container, startTimeout time.Duration) {
	t.Helper()
	for name, want := range map[string]struct {
		probe *corev1.Probe
		path  string
	}{
		"startup":   {c.StartupProbe, "/readyz"},
		"liveness":  {c.LivenessProbe, "/livez"},
		"readiness": {c.ReadinessProbe, "/readyz"},
	} {
		if want.probe == nil || want.probe.HTTPGet == nil {
			t.Errorf("no %s probe", name)
			continue
		}
		if got := want.probe.HTTPGet; got.Path != want.path || got.Port.String() != "health" {
			t.Errorf("%s probe asks %s on %s, want %s on health", name, got.Path, &got.Port, want.path)
		}
	}
	if c.StartupProbe != nil {
		budget := time.Duration(c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold) * time.Second
		if budget < startTimeout+20*time.Second || budget > startTimeout+time.Minute {
			t.Errorf("startup probe allows %s, want a little more than model.start_timeout (%s)", budget, startTimeout)
		}
	}
}

// checkPod verifies what holds for workers and publishers.
func checkPod(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		t.Errorf("%s: enableServiceLinks is not false", name)
	}
	if spec.SecurityContext == nil || spec.SecurityContext.RunAsNonRoot == nil || !*spec.SecurityContext.RunAsNonRoot || *spec.SecurityContext.RunAsUser == 0 {
		t.Errorf("%s: may run as root", name)
	}
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
		if v.VolumeSource == (corev1.VolumeSource{}) {
			t.Errorf("%s: volume %s has no source", name, v.Name)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		sc := c.SecurityContext
		if sc == nil || !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation || !cmp.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: container %s is not locked down: %+v", name, c.Name, sc)
		}
		if len(c.Command) > 0 {
			t.Errorf("%s: container %s replaces the image's entrypoint", name, c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: container %s mounts %s, which is no volume", name, c.Name, m.Name)
			}
		}
		for _, e := range c.Env {
			if strings.HasPrefix(e.Name, "SPOTBATCH_") {
				t.Errorf("%s: the chart sets %s beside the ConfigMap", name, e.Name)
			}
		}
	}
}

func TestMinimalValues(t *testing.T) {
	o := render(t, "minimal.yaml")
	c := check(t, o)
	spec := o.worker.Spec.Template.Spec
	if c.Image != "example.test/spotbatch-worker:0.1.0" {
		t.Errorf("image %s", c.Image)
	}
	if diff := cmp.Diff([]string{"run", "--config", "/etc/spotbatch/config.yaml"}, c.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if *spec.TerminationGracePeriodSeconds != 15 {
		t.Errorf("terminationGracePeriodSeconds is %d, want 15", *spec.TerminationGracePeriodSeconds)
	}
	if diff := cmp.Diff(map[string]string{"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-accelerator": "nvidia-l4"}, spec.NodeSelector); diff != "" {
		t.Errorf("node selector (-want +got):\n%s", diff)
	}
	wantTolerations := []corev1.Toleration{
		{Key: "cloud.google.com/gke-spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
	if diff := cmp.Diff(wantTolerations, spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	if gpus := c.Resources.Limits["nvidia.com/gpu"]; gpus.Value() != 1 {
		t.Errorf("limit of nvidia.com/gpu is %s, want 1", gpus.String())
	}
	if memory := c.Resources.Limits["memory"]; memory.IsZero() {
		t.Error("the GPU replaced the memory limit")
	}
	if o.account == nil || o.account.Name != spec.ServiceAccountName {
		t.Errorf("pods use the service account %q, the chart makes %v", spec.ServiceAccountName, o.account)
	}
	if o.workerJob != nil || o.publisher != nil || o.disruption != nil || o.monitoring != nil {
		t.Error("something was rendered that is off by default")
	}
	if ports := portsOf(c); ports["health"] != 8081 || ports["metrics"] != 9464 {
		t.Errorf("ports %v", ports)
	}
}

func portsOf(c corev1.Container) map[string]int32 {
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	return ports
}

func TestWorkerOnCPUs(t *testing.T) {
	o := render(t, "cpu.yaml")
	c := check(t, o)
	spec := o.worker.Spec.Template.Spec
	if *o.worker.Spec.Replicas != 0 || c.Image != "example.test/my-worker:v3" {
		t.Errorf("replicas %d, image %s", *o.worker.Spec.Replicas, c.Image)
	}
	if *spec.TerminationGracePeriodSeconds != 91 {
		t.Errorf("terminationGracePeriodSeconds is %d, want 91 for 1m30.5s", *spec.TerminationGracePeriodSeconds)
	}
	if len(spec.NodeSelector) != 0 || len(spec.Tolerations) != 0 {
		t.Errorf("node selector %v, tolerations %v; want none", spec.NodeSelector, spec.Tolerations)
	}
	if _, has := c.Resources.Limits["nvidia.com/gpu"]; has {
		t.Error("asks for a GPU")
	}
	if diff := cmp.Diff(map[string]int32{"health": 18081}, portsOf(c)); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestAllValues(t *testing.T) {
	o := render(t, "full.yaml")
	c := check(t, o)
	spec := o.worker.Spec.Template.Spec
	if o.worker.Name != "digits-worker" || *o.worker.Spec.Replicas != 30 {
		t.Errorf("deployment %s with %d replicas", o.worker.Name, *o.worker.Spec.Replicas)
	}
	if got := o.worker.Spec.Template.Labels; got["team"] != "vision" || got["app.kubernetes.io/name"] != "spotbatch" {
		t.Errorf("pod labels %v", got)
	}
	if gpus := c.Resources.Limits["nvidia.com/gpu"]; gpus.Value() != 2 {
		t.Errorf("limit of nvidia.com/gpu is %s, want 2", gpus.String())
	}
	if len(spec.NodeSelector) != 3 || len(spec.Tolerations) != 3 || spec.Affinity == nil || len(spec.TopologySpreadConstraints) != 1 {
		t.Errorf("node selector %v, tolerations %v, affinity %v", spec.NodeSelector, spec.Tolerations, spec.Affinity)
	}
	if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/models" && m.ReadOnly }) {
		t.Errorf("no model is mounted: %v", c.VolumeMounts)
	}
	if o.account.Annotations["iam.gke.io/gcp-service-account"] == "" {
		t.Error("no Workload Identity")
	}
	if diff := cmp.Diff(o.worker.Spec.Selector, o.disruption.Spec.Selector); diff != "" || o.disruption.Spec.MaxUnavailable.String() != "50%" {
		t.Errorf("disruption budget of %s for (-deployment +budget):\n%s", o.disruption.Spec.MaxUnavailable, diff)
	}
	if diff := cmp.Diff(*o.worker.Spec.Selector, o.monitoring.Spec.Selector); diff != "" || o.monitoring.Spec.Endpoints[0].Port != "metrics" {
		t.Errorf("monitoring of %v for (-deployment +monitoring):\n%s", o.monitoring.Spec.Endpoints, diff)
	}
	cfg := load(t, o.config)
	if cfg.Model.Version != "007" || cfg.Publish.MaxOutstanding != 1_000_000 || cfg.Publish.MaxOutstandingBytes != 256<<20 {
		t.Errorf("version %q, publish %+v", cfg.Model.Version, cfg.Publish)
	}
	if diff := cmp.Diff([]string{"no", "1e3", "0x10", "~", ": -"}, cfg.Model.Output.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestPublisherJob(t *testing.T) {
	job := render(t, "full.yaml").publisher
	if job == nil {
		t.Fatal("no Job")
	}
	spec := job.Spec.Template.Spec
	checkPod(t, "publisher", spec)
	if spec.RestartPolicy != corev1.RestartPolicyNever || *job.Spec.BackoffLimit != 6 {
		t.Errorf("restartPolicy %s, backoffLimit %d", spec.RestartPolicy, *job.Spec.BackoffLimit)
	}
	want := []string{"publish", "--config", "/etc/spotbatch/config.yaml", "--run", "2026", "--id-field", "id", "--", "gs://bucket/images", "data/more.csv"}
	if diff := cmp.Diff(want, spec.Containers[0].Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if len(spec.InitContainers) != 1 || spec.InitContainers[0].Args[0] != "setup" {
		t.Errorf("init containers %v, want setup", spec.InitContainers)
	}

	if same := render(t, "full.yaml", "--set", "config.batch.max_size=8,replicas=2").publisher; same.Name != job.Name {
		t.Errorf("a change of workers makes the Job %s of %s", same.Name, job.Name)
	}
	if other := render(t, "full.yaml", "--set", "publisher.run=r2").publisher; other.Name == job.Name {
		t.Errorf("another run keeps the Job %s, whose template cannot change", other.Name)
	}
	if len(job.Name) > 63 {
		t.Errorf("name %s is too long for the Job's pods", job.Name)
	}
}

// Workers that end by themselves are a Job, with the very pods of the Deployment.
func TestWorkersThatEndAreAJob(t *testing.T) {
	const ends = "config.pull.exit_when_idle=5m"
	o := render(t, "full.yaml", "--set", ends+",podDisruptionBudget.enabled=false")
	if o.worker != nil || o.workerJob == nil {
		t.Fatalf("Deployment %v, Job %v; want a Job alone", o.worker, o.workerJob)
	}
	job := o.workerJob
	if cfg := load(t, o.config); cfg.Pull.ExitWhenIdle != 5*time.Minute {
		t.Errorf("pull.exit_when_idle is %s", cfg.Pull.ExitWhenIdle)
	}
	if *job.Spec.Parallelism != 30 || *job.Spec.Completions != 30 || *job.Spec.BackoffLimit != 180 {
		t.Errorf("parallelism %d, completions %d, backoffLimit %d; want 30, 30, 180", *job.Spec.Parallelism, *job.Spec.Completions, *job.Spec.BackoffLimit)
	}
	rules := job.Spec.PodFailurePolicy.Rules
	if len(rules) != 2 || rules[0].Action != batchv1.PodFailurePolicyActionFailJob || rules[0].OnExitCodes.Values[0] != 2 ||
		rules[1].Action != batchv1.PodFailurePolicyActionIgnore || rules[1].OnPodConditions[0].Type != corev1.DisruptionTarget {
		t.Errorf("pod failure policy %+v, want to fail for exit code 2 and to ignore preemptions", rules)
	}
	want := render(t, "full.yaml").worker.Spec.Template
	got := job.Spec.Template
	if got.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("restartPolicy %s, want Never", got.Spec.RestartPolicy)
	}
	got.Spec.RestartPolicy = want.Spec.RestartPolicy
	got.Annotations["checksum/config"] = want.Annotations["checksum/config"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-deployment +job):\n%s", diff)
	}

	if len(job.Name) > 63 {
		t.Errorf("name %s is too long for a label of the Job's pods", job.Name)
	}
	for _, change := range []string{"config.pull.exit_when_idle=6m", ends + ",replicas=7"} {
		if other := render(t, "full.yaml", "--set", change+",podDisruptionBudget.enabled=false").workerJob; other.Name == job.Name {
			t.Errorf("%s keeps the Job %s, which cannot change", change, other.Name)
		}
	}
	if off := render(t, "minimal.yaml", "--set", "config.pull.exit_when_idle=0s"); off.worker == nil || off.workerJob != nil {
		t.Error("a Job although workers do not end")
	}
}

func TestWorkersRestartWhenTheirConfigurationChanges(t *testing.T) {
	annotation := func(args ...string) string {
		return render(t, "minimal.yaml", args...).worker.Spec.Template.Annotations["checksum/config"]
	}
	first := annotation()
	if first == "" || annotation() != first || annotation("--set", "replicas=9") != first {
		t.Error("checksum is missing or changes without reason")
	}
	if annotation("--set", "config.batch.max_size=8") == first {
		t.Error("checksum does not change with the configuration")
	}
}

// Keys that are removed leave the loader's defaults, which the chart must know.
func TestChartKnowsTheDefaults(t *testing.T) {
	o := render(t, "minimal.yaml", "--set", "config.grace_period=null,config.drain=null,config.health=null,config.telemetry=null,config.model.start_timeout=null")
	c := check(t, o)
	if diff := cmp.Diff(map[string]int32{"health": 8081, "metrics": 9464}, portsOf(c)); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestNoProbesWithoutHealthServer(t *testing.T) {
	c := render(t, "minimal.yaml", "--set", "config.health.addr=,config.telemetry.metrics=none").worker.Spec.Template.Spec.Containers[0]
	if c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || len(c.Ports) != 0 {
		t.Errorf("probes or ports without a server: %v", c.Ports)
	}
}

func TestLint(t *testing.T) {
	for _, values := range []string{"minimal.yaml", "cpu.yaml", "full.yaml"} {
		if out, stderr, err := helm(t, "lint", "--strict", chart, "-f", "testdata/"+values); err != nil {
			t.Errorf("helm lint with %s: %v\n%s%s", values, err, out, stderr)
		}
	}
}
