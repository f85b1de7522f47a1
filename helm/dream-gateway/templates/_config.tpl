{{/*
gateway.toml, from values. Numbers are written out one by one: helm reads all of them as floating point, and the gateway
wants integers. Decimals are written as text, which the gateway keeps exactly; "dream.checks" refuses those that helm would write
with an exponent. The number of replicas is in the environment: see "dream.env".
*/}}
{{- define "dream.toml" -}}
{{- $config := .Values.config -}}
# Made by helm from the values of the release {{ .Release.Name }}. The ordinal comes from the pod's name.
id = {{ $config.id | quote }}
clock_skew_seconds = {{ int64 $config.clock_skew_seconds }}
shutdown_grace_seconds = {{ int64 $config.shutdown_grace_seconds }}
time_zone = {{ $config.time_zone | quote }}

[identity]
certificate = {{ printf "/etc/dream/identity/%s" .Values.identity.certificateKey | quote }}
key = {{ printf "/etc/dream/identity/%s" .Values.identity.privateKeyKey | quote }}
meter_authorities = [
{{- range .Values.identity.meterAuthorities.keys }}
  {{ printf "/etc/dream/meter-authorities/%s" . | quote }},
{{- end }}
]
gateway_authorities = [
{{- range .Values.identity.gatewayAuthorities.keys }}
  {{ printf "/etc/dream/gateway-authorities/%s" . | quote }},
{{- end }}
]

[broker]
{{- if .Values.broker.urls }}
urls = {{ prepend .Values.broker.urls .Values.broker.url | toJson }}
{{- else }}
url = {{ .Values.broker.url | quote }}
{{- end }}
{{- if include "dream.tls" . }}
ca = {{ printf "/etc/dream/broker-ca/%s" .Values.broker.ca.key | quote }}
{{- end }}
{{- if include "dream.brokerSecret" . }}
{{- with .Values.broker.clientCertificate }}
client_certificate = {{ printf "/etc/dream/broker-client/%s" .certificateKey | quote }}
client_key = {{ printf "/etc/dream/broker-client/%s" .privateKeyKey | quote }}
{{- end }}
{{- end }}
{{- with .Values.broker.credentials }}
{{- if .existingSecret }}
# The user name is in DREAM_BROKER_USERNAME.
password_file = {{ printf "/etc/dream/broker-credentials/%s" .passwordKey | quote }}
{{- end }}
{{- end }}
keep_alive_seconds = {{ int64 .Values.broker.keep_alive_seconds }}
max_packet_bytes = {{ int64 .Values.broker.max_packet_bytes }}

[store]
{{- if .Values.postgres.url }}
url = {{ .Values.postgres.url | quote }}
{{- if include "dream.databaseTls" . }}
ca = {{ printf "/etc/dream/postgres-ca/%s" .Values.postgres.ca.key | quote }}
{{- end }}
{{- if .Values.postgres.credentials.existingSecret }}
password_file = {{ printf "/etc/dream/postgres-credentials/%s" .Values.postgres.credentials.passwordKey | quote }}
{{- end }}
keys = [
{{- range .Values.postgres.keys.keys }}
  {{ printf "/etc/dream/store-keys/%s" . | quote }},
{{- end }}
]
lease_seconds = {{ int64 .Values.postgres.lease_seconds }}
{{- else }}
path = "/var/lib/dream/gateway.redb"
{{- end }}
retention_days = {{ int64 $config.store.retention_days }}
hours_retention_days = {{ int64 $config.store.hours_retention_days }}
{{- if not .Values.postgres.url }}
cache_mebibytes = {{ int64 $config.store.cache_mebibytes }}
{{- end }}

[http]
listen = {{ printf "0.0.0.0:%d" (int64 .Values.http.port) | quote }}
{{- if include "dream.httpSecret" . }}
{{- with .Values.http.tls }}
tls_certificate = {{ printf "/etc/dream/http-tls/%s" .certificateKey | quote }}
tls_key = {{ printf "/etc/dream/http-tls/%s" .privateKeyKey | quote }}
{{- end }}
{{- end }}
{{- if .Values.http.access.existingSecret }}
access_file = {{ printf "/etc/dream/http-access/%s" .Values.http.access.key | quote }}
{{- end }}
{{- if include "dream.logins" . }}
open = {{ prepend .Values.http.open "health" | toJson }}
{{- end }}
{{- with .Values.http.proxy }}
{{- if .addresses }}

[http.proxy]
addresses = {{ .addresses | toJson }}
user_header = {{ .userHeader | quote }}
groups_header = {{ .groupsHeader | quote }}
operator_groups = {{ .operatorGroups | toJson }}
viewer_groups = {{ .viewerGroups | toJson }}
{{- end }}
{{- end }}

[log]
level = {{ $config.log.level | quote }}
format = {{ $config.log.format | quote }}

[home_assistant]
enabled = {{ $config.home_assistant.enabled }}
discovery_prefix = {{ $config.home_assistant.discovery_prefix | quote }}
{{- with $config.remote_write }}

[remote_write]
{{- range $key, $value := . }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- end }}
{{- with $config.defaults }}

[defaults]
{{- include "dream.cluster" . }}
{{- end }}
{{- range $name, $cluster := $config.clusters }}

[clusters.{{ $name }}]
{{- include "dream.cluster" (default dict $cluster) }}
{{- end }}
{{- range $name, $group := $config.groups }}

[groups.{{ $name }}]
of = {{ $group.of | toJson }}
{{- end }}
{{ end -}}

{{- define "dream.cluster" -}}
{{- range $key, $value := . }}
{{- if has $key (list "epsilon" "day_epsilon" "max_missing" "max_malicious") }}
{{ $key }} = {{ $value | toString | quote }}
{{- else if eq $key "range_watts" }}
{{ $key }} = [{{ int64 (first $value) }}, {{ int64 (last $value) }}]
{{- else if has $key (list "allow_file" "cut_off_file" "deny_file") }}
{{ $key }} = {{ printf "/etc/dream/lists/%s" $value | quote }}
{{- else if has $key (list "meter_policy" "kind" "scheme") }}
{{ $key }} = {{ $value | quote }}
{{- else }}
{{ $key }} = {{ int64 $value }}
{{- end }}
{{- end }}
{{- end -}}
