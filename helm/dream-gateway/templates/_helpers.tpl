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
{{- .Values.identity.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "dream.tls" -}}
{{- if hasPrefix "mqtts://" .Values.broker.url }}yes{{ end -}}
{{- end -}}

{{/* Whether the gateway can verify the database. */}}
{{- define "dream.databaseTls" -}}
{{- if or .Values.postgres.ca.existingSecret .Values.postgres.ca.existingConfigMap }}yes{{ end -}}
{{- end -}}

{{/* Whether anybody can log in. */}}
{{- define "dream.logins" -}}
{{- if or .Values.http.access.existingSecret .Values.http.proxy.addresses }}yes{{ end -}}
{{- end -}}

{{- define "dream.brokerPort" -}}
{{- $port := regexFind ":[0-9]+/?$" .Values.broker.url | trimPrefix ":" | trimSuffix "/" -}}
{{- default (ternary "8883" "1883" (eq (include "dream.tls" .) "yes")) $port -}}
{{- end -}}
