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

{{/* How many gateways share the clusters, as a label of the gateways. */}}
{{- define "dream.shared" -}}
dream-gateway/replicas: {{ int64 .Values.replicas | quote }}
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

{{/* The secret with the certificate and key of HTTP; nothing without TLS. */}}
{{- define "dream.httpSecret" -}}
{{- if .Values.http.tls.certManager.enabled -}}
{{- default (printf "%s-http" (include "dream.fullname" .)) .Values.http.tls.existingSecret -}}
{{- else -}}
{{- .Values.http.tls.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* The names that cert-manager certifies for HTTP, as a list. */}}
{{- define "dream.httpNames" -}}
{{- $name := include "dream.fullname" . -}}
{{- $space := .Release.Namespace -}}
{{- $inside := list (printf "%s.%s.svc" $name $space) (printf "%s.%s" $name $space) $name (printf "*.%s-headless.%s.svc" $name $space) -}}
{{- toYaml (default $inside .Values.http.tls.certManager.dnsNames) -}}
{{- end -}}

{{/* The secret with the certificate and key for the broker; nothing if it asks for none. */}}
{{- define "dream.brokerSecret" -}}
{{- if .Values.broker.clientCertificate.certManager.enabled -}}
{{- default (printf "%s-broker" (include "dream.fullname" .)) .Values.broker.clientCertificate.existingSecret -}}
{{- else -}}
{{- .Values.broker.clientCertificate.existingSecret -}}
{{- end -}}
{{- end -}}

{{/* Whether others make files of the gateway from what this release installs: not before it is there. */}}
{{- define "dream.filesComeLater" -}}
{{- $made := or .Values.identity.certManager.enabled .Values.http.tls.certManager.enabled .Values.broker.clientCertificate.certManager.enabled -}}
{{- if or $made .Values.externalSecrets.secrets }}yes{{ end -}}
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
