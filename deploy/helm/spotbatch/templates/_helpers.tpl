{{- define "spotbatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "spotbatch.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "spotbatch.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "spotbatch.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Labels that never change: a Deployment's selector is immutable. */ -}}
{{- define "spotbatch.selector" -}}
app.kubernetes.io/name: {{ include "spotbatch.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spotbatch.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "spotbatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "spotbatch.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "spotbatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The image of a dict with image (repository, tag), name and root. */ -}}
{{- define "spotbatch.image" -}}
{{- $repository := required (printf "%s.repository: set it to the image to run" .name) .image.repository -}}
{{- printf "%s:%s" $repository (default .root.Chart.AppVersion .image.tag) | quote -}}
{{- end -}}

{{- /*
Milliseconds of a duration such as 1m30s. values.schema.json has checked how it
is written; there is no function for it in Helm.
*/ -}}
{{- define "spotbatch.milliseconds" -}}
{{- $sizes := dict "h" 3600000.0 "m" 60000.0 "s" 1000.0 "ms" 1.0 "us" 0.001 "µs" 0.001 "ns" 0.000001 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(h|ms|m|s|us|µs|ns)" . -1 -}}
{{- $number := regexFind "[0-9.]+" . -}}
{{- $sum = addf $sum (mulf (float64 $number) (get $sizes (trimPrefix $number .))) -}}
{{- end -}}
{{- $sum | ceil | int64 -}}
{{- end -}}

{{- /* Seconds of a duration, rounded up: what Kubernetes counts in. */ -}}
{{- define "spotbatch.seconds" -}}
{{- divf (include "spotbatch.milliseconds" .) 1000 | ceil | int64 -}}
{{- end -}}

{{- /* The port of an address such as :8081. */ -}}
{{- define "spotbatch.port" -}}
{{- regexFind "[0-9]+$" . -}}
{{- end -}}

{{- /* Keys of the configuration that the pod depends on, with their defaults. */ -}}
{{- define "spotbatch.gracePeriod" -}}{{ dig "grace_period" "15s" .Values.config }}{{- end -}}
{{- define "spotbatch.drainTimeout" -}}{{ dig "drain" "timeout" "10s" .Values.config }}{{- end -}}
{{- define "spotbatch.startTimeout" -}}{{ dig "model" "start_timeout" "10m" .Values.config }}{{- end -}}
{{- define "spotbatch.healthAddr" -}}{{ dig "health" "addr" ":8081" .Values.config }}{{- end -}}
{{- define "spotbatch.metricsAddr" -}}
{{- if eq (dig "telemetry" "metrics" "prometheus" .Values.config) "prometheus" -}}
{{- dig "telemetry" "metrics_addr" ":9464" .Values.config -}}
{{- end -}}
{{- end -}}

{{- /* Not empty when workers end by themselves, so that they are a Job. */ -}}
{{- define "spotbatch.ends" -}}
{{- if ne (include "spotbatch.milliseconds" (dig "pull" "exit_when_idle" "0s" .Values.config)) "0" -}}true{{- end -}}
{{- end -}}

{{- /* What neither the schema can say nor the worker can know. */ -}}
{{- define "spotbatch.validate" -}}
{{- $drain := include "spotbatch.drainTimeout" . -}}
{{- $drainMs := include "spotbatch.milliseconds" $drain | int64 -}}
{{- $grace := include "spotbatch.gracePeriod" . -}}
{{- if ge $drainMs (include "spotbatch.milliseconds" $grace | int64) -}}
{{- fail (printf "config.drain.timeout: %s: must be less than config.grace_period (%s), or workers are killed before they have drained" $drain $grace) -}}
{{- end -}}
{{- if and .Values.spot.enabled (ge $drainMs (include "spotbatch.milliseconds" .Values.spot.gracePeriod | int64)) -}}
{{- fail (printf "config.drain.timeout: %s: must be less than spot.gracePeriod (%s), the time that a Spot node gives" $drain .Values.spot.gracePeriod) -}}
{{- end -}}
{{- $device := dig "model" "device" "cpu" .Values.config -}}
{{- $onnx := eq (dig "model" "kind" "" .Values.config) "onnx" -}}
{{- if and $onnx (eq $device "cuda") (eq (int .Values.gpu.count) 0) -}}
{{- fail "config.model.device: cuda: needs a GPU; set gpu.count, or device to cpu" -}}
{{- end -}}
{{- if and $onnx (eq $device "cpu") (gt (int .Values.gpu.count) 0) -}}
{{- fail (printf "gpu.count: %v: config.model.device is cpu and would leave the GPU idle; set gpu.count to 0, or device to cuda" .Values.gpu.count) -}}
{{- end -}}
{{- $health := include "spotbatch.healthAddr" . -}}
{{- if regexMatch "^(127\\.|localhost:|\\[::1\\])" $health -}}
{{- fail (printf "config.health.addr: %s: the kubelet cannot reach it; write :8081" $health) -}}
{{- end -}}
{{- if and .Values.podDisruptionBudget.enabled (include "spotbatch.ends" .) -}}
{{- fail "podDisruptionBudget.enabled: true: there is none for a Job, which config.pull.exit_when_idle makes of the workers" -}}
{{- end -}}
{{- if and .Values.podMonitoring.enabled (not (include "spotbatch.metricsAddr" .)) -}}
{{- fail "podMonitoring.enabled: true: needs config.telemetry.metrics: prometheus" -}}
{{- end -}}
{{- range list "project" "spanner.database" "pubsub.topic" "pubsub.subscription" "pubsub.dead_letter_topic" "model.kind" -}}
{{- $value := $.Values.config -}}
{{- range splitList "." . -}}{{- $value = get (default dict $value) . -}}{{- end -}}
{{- $_ := required (printf "config.%s: set it" .) $value -}}
{{- end -}}
{{- end -}}

{{- /* Variables of a dict with root and component. */ -}}
{{- define "spotbatch.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.pod.name=$(POD_NAME),k8s.namespace.name=$(POD_NAMESPACE),k8s.node.name=$(NODE_NAME),k8s.container.name={{ .component }}
{{- with .root.Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
