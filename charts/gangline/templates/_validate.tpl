{{/*
What the schema of the values cannot say in words of its own. Each message names the
value and what to do.
*/}}
{{- define "gangline.validate" -}}
{{- $root := . -}}
{{- if and .Values.nodes (not .Values.node.enabled) -}}
{{- fail (printf "nodes has %s, and node.enabled is false: nothing of them would be made. Set node.enabled to true, or take nodes away" (keys .Values.nodes | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if hasKey (.Values.controller.config.certManagement | default dict) "enable" -}}
{{- fail "controller.config.certManagement.enable is what the value certificates.by says: self or cert-manager. Set that, and take this away" -}}
{{- end -}}
{{- $host := (urlParse .Values.controller.outsideURL).hostname -}}
{{- if or (regexMatch "^[0-9.]+$" $host) (contains ":" $host) -}}
{{- fail (printf "controller.outsideURL is %s, whose host is an address: the controller's certificate is made for names, and the API server would not take it. Write a name that the API server can look up, as in https://controller.example.org:9443" .Values.controller.outsideURL) -}}
{{- end -}}
{{- if and .Values.controller.outsideURL (not $host) -}}
{{- fail (printf "controller.outsideURL is %s, which names no host. Write one as in https://controller.example.org:9443" .Values.controller.outsideURL) -}}
{{- end -}}
{{- if and .Values.controller.token (not .Values.controller.outsideURL) -}}
{{- fail "controller.token is for a controller outside of the cluster, and controller.outsideURL is empty: its pods have a token of their own. Take it away, or set controller.outsideURL" -}}
{{- end -}}
{{- $known := list -}}
{{- range $pattern := list "files/runtimes/*.yaml" "files/runtimes/hpc/*.yaml" -}}
{{- range $path, $_ := $root.Files.Glob $pattern -}}
{{- $known = append $known (base $path | trimSuffix ".yaml") -}}
{{- end -}}
{{- end -}}
{{- range .Values.runtimes.except -}}
{{- if not (has . $known) -}}
{{- fail (printf "runtimes.except names %s, which is no runtime of this chart. It has %s" . (join ", " $known)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $node := .Values.nodes -}}
{{- if hasKey $node.config "namespace" -}}
{{- fail (printf "nodes.%s.config.namespace cannot be set: the rights are for the release's namespace, %s, and the chart says it. Install the chart into another namespace instead (--namespace)" $name $root.Release.Namespace) -}}
{{- end -}}
{{- if eq $node.location "outside" -}}
{{- range $key, $_ := $node -}}
{{- if not (has $key (list "location" "config" "token")) -}}
{{- fail (printf "nodes.%s.%s is for pods, and with location outside there is none: take it away, or set location to inside" $name $key) -}}
{{- end -}}
{{- end -}}
{{- else if $node.token -}}
{{- fail (printf "nodes.%s.token is for a program outside of the cluster, and location is inside: its pods have a token of their own. Take it away" $name) -}}
{{- end -}}
{{- end -}}
{{- end }}
