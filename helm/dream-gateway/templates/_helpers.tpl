{{- define "dream.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for a replica's ordinal and the longest suffix below. */}}
{{- define "dream.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "dream.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "dream.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dream.release" -}}
app.kubernetes.io/name: {{ include "dream.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dream.selector" -}}
{{ include "dream.release" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{/* Labels of everything; the component is left to each object. */}}
{{- define "dream.labels" -}}
{{ include "dream.release" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dream.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "dream.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "dream.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* The secret with the gateway's certificate and key. */}}
{{- define "dream.identitySecret" -}}
{{- if .Values.identity.certManager.enabled -}}
{{- default (printf "%s-identity" (include "dream.fullname" .)) .Values.identity.existingSecret -}}
{{- else -}}
{{- required "identity.existingSecret: name the secret with the gateway's certificate and key, or set identity.certManager.enabled" .Values.identity.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "dream.tls" -}}
{{- if hasPrefix "mqtts://" .Values.broker.url }}yes{{ end -}}
{{- end -}}

{{- define "dream.brokerPort" -}}
{{- $port := regexFind ":[0-9]+/?$" .Values.broker.url | trimPrefix ":" | trimSuffix "/" -}}
{{- default (ternary "8883" "1883" (eq (include "dream.tls" .) "yes")) $port -}}
{{- end -}}

{{/* A volume source: a secret, or else a config map. */}}
{{- define "dream.source" -}}
{{- if .existingConfigMap -}}
configMap:
  name: {{ .existingConfigMap }}
{{- else -}}
secret:
  secretName: {{ .existingSecret }}
  defaultMode: 0440
{{- end -}}
{{- end -}}

{{/* Whether a cluster's settings, if there are any, name files of meter ids. */}}
{{- define "dream.namesLists" -}}
{{- if or (dig "allow_file" "" (default dict .)) (dig "deny_file" "" (default dict .)) }}yes{{ end -}}
{{- end -}}

{{- define "dream.checks" -}}
{{- if not .Values.broker.url -}}
{{- fail "broker.url: say where the broker is, such as mqtts://broker.example:8883" -}}
{{- end -}}
{{- if and (include "dream.tls" .) (not .Values.broker.ca.existingSecret) (not .Values.broker.ca.existingConfigMap) -}}
{{- fail "broker.ca: mqtts needs the authorities of the broker's certificate; set existingSecret or existingConfigMap" -}}
{{- end -}}
{{- if and (not (include "dream.tls" .)) .Values.broker.clientCertificate.existingSecret -}}
{{- fail "broker.clientCertificate: only mqtts has client certificates; change broker.url" -}}
{{- end -}}
{{- if not .Values.config.clusters -}}
{{- fail "config.clusters: there is none; add a key for each cluster of homes, such as riverside: {}" -}}
{{- end -}}
{{- if and .Values.identity.certManager.enabled (not .Values.identity.certManager.issuerRef.name) -}}
{{- fail "identity.certManager.issuerRef.name: say which issuer makes the gateway's certificate" -}}
{{- end -}}
{{- if and .Values.simulator.enabled (not .Values.simulator.existingSecret) (not .Values.simulator.existingClaim) -}}
{{- fail "simulator: set existingSecret or existingClaim to a directory made by meter-sim provision" -}}
{{- end -}}
{{- if not .Values.meterLists.existingConfigMap -}}
{{- if include "dream.namesLists" .Values.config.defaults -}}
{{- fail "meterLists.existingConfigMap: say which config map has the lists that config.defaults names" -}}
{{- end -}}
{{- range $name, $cluster := .Values.config.clusters -}}
{{- if include "dream.namesLists" $cluster -}}
{{- fail (printf "meterLists.existingConfigMap: say which config map has the lists that the cluster %s names" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
