{{/* The names are Kubeflow Trainer's: users, the SDK and other charts know them. */}}
{{- define "gangline.controller" -}}
kubeflow-trainer-controller-manager
{{- end }}

{{- define "gangline.controller.labels" -}}
app.kubernetes.io/name: trainer
app.kubernetes.io/component: manager
app.kubernetes.io/part-of: kubeflow
{{- end }}

{{/* Labels of one gangline-node. Takes its name. */}}
{{- define "gangline.node.labels" -}}
app.kubernetes.io/name: gangline-node
app.kubernetes.io/instance: {{ . }}
app.kubernetes.io/part-of: gangline
{{- end }}

{{/* An image's reference. Takes the root and the program. */}}
{{- define "gangline.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.image.registry }}/{{ index . 1 }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{- define "gangline.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gangline.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* The controller's configuration, with what other values say about it. */}}
{{- define "gangline.controller.config" -}}
{{- $says := dict "apiVersion" "config.trainer.kubeflow.org/v1alpha1" "kind" "Configuration" -}}
{{- if eq .Values.certificates.by "cert-manager" -}}
{{- $_ := set $says "certManagement" (dict "enable" false) -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.controller.config) $says) -}}
{{- end }}

{{- define "gangline.controller.webhookPort" -}}
{{ dig "webhook" "port" 9443 .Values.controller.config }}
{{- end }}

{{- define "gangline.controller.certificateSecret" -}}
{{ dig "certManagement" "webhookSecretName" "kubeflow-trainer-webhook-cert" .Values.controller.config }}
{{- end }}

{{/* The virtual node's name. Takes the entry's name and the entry. */}}
{{- define "gangline.node.nodeName" -}}
{{ dig "nodeName" (index . 0) (index . 1).config }}
{{- end }}

{{/*
gangline-node's configuration, with what the chart says about it. Takes the root,
the entry's name and the entry. The site's own words win, but for the namespace:
the rights are for the release's.
*/}}
{{- define "gangline.node.config" -}}
{{- $root := index . 0 }}{{ $name := index . 1 }}{{ $node := index . 2 -}}
{{- $says := dict "apiVersion" "config.gangline.dev/v1alpha1" "kind" "NodeConfiguration" "nodeName" $name
  "leaderElection" (dict "enabled" true) -}}
{{- if eq $node.location "inside" -}}
{{- $_ := set $says "metricsAddress" ":8080" -}}
{{- $_ := set $says "kubelet" (dict "certDir" "/var/lib/gangline/pki"
  "clientCAFile" "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt") -}}
{{- end -}}
{{- $config := mergeOverwrite $says (deepCopy $node.config) -}}
{{- if $config.kubelet }}{{ if $config.kubelet.certFile }}{{ $_ := unset $config.kubelet "certDir" }}{{ end }}{{ end -}}
{{- $_ := set $config "namespace" $root.Release.Namespace -}}
{{- toYaml $config -}}
{{- end }}

{{- define "gangline.node.subjects" }}
{{- range .Values.node.users }}
- kind: User
  name: {{ . }}
  apiGroup: rbac.authorization.k8s.io
{{- end }}
- kind: ServiceAccount
  name: gangline-node
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "gangline.node.port" -}}
{{ dig "kubelet" "port" 10250 .config }}
{{- end }}

{{/* The port of the metrics; empty if there are none. */}}
{{- define "gangline.node.metricsPort" -}}
{{- with dig "metricsAddress" ":8080" .config }}{{ last (splitList ":" .) }}{{ end -}}
{{- end }}
