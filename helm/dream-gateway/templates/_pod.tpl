{{/* What the pods of the chart have in common. */}}

{{/* Labels of pods. None of them changes with the version of the chart, or every new version would restart all gateways. */}}
{{- define "dream.podLabels" -}}
{{ include "dream.release" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Settings of every pod. */}}
{{- define "dream.podSettings" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The gateway's environment. */}}
{{- define "dream.env" -}}
# Here and not in the file: a change that Kubernetes refuses must not reach a pod that restarts for another reason.
- name: DREAM_REPLICAS
  value: {{ max 1 (int64 .Values.replicas) | quote }}
{{- with .Values.broker.credentials }}
{{- if .existingSecret }}
- name: DREAM_BROKER_USERNAME
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .usernameKey }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where the gateway finds its files. */}}
{{- define "dream.mounts" -}}
- name: config
  mountPath: /etc/dream/config
  readOnly: true
- name: identity
  mountPath: /etc/dream/identity
  readOnly: true
- name: meter-authorities
  mountPath: /etc/dream/meter-authorities
  readOnly: true
- name: gateway-authorities
  mountPath: /etc/dream/gateway-authorities
  readOnly: true
{{- if include "dream.tls" . }}
- name: broker-ca
  mountPath: /etc/dream/broker-ca
  readOnly: true
{{- end }}
{{- if include "dream.brokerSecret" . }}
- name: broker-client
  mountPath: /etc/dream/broker-client
  readOnly: true
{{- end }}
{{- if .Values.broker.credentials.existingSecret }}
- name: broker-credentials
  mountPath: /etc/dream/broker-credentials
  readOnly: true
{{- end }}
{{- if include "dream.httpSecret" . }}
- name: http-tls
  mountPath: /etc/dream/http-tls
  readOnly: true
{{- end }}
{{- if .Values.http.access.existingSecret }}
- name: http-access
  mountPath: /etc/dream/http-access
  readOnly: true
{{- end }}
{{- if .Values.meterLists.existingConfigMap }}
- name: lists
  mountPath: /etc/dream/lists
  readOnly: true
{{- end }}
{{- if .Values.postgres.url }}
{{- if include "dream.databaseTls" . }}
- name: postgres-ca
  mountPath: /etc/dream/postgres-ca
  readOnly: true
{{- end }}
{{- if .Values.postgres.credentials.existingSecret }}
- name: postgres-credentials
  mountPath: /etc/dream/postgres-credentials
  readOnly: true
{{- end }}
- name: store-keys
  mountPath: /etc/dream/store-keys
  readOnly: true
{{- else }}
- name: store
  mountPath: /var/lib/dream
{{- end }}
{{- end -}}

{{/* The files that others make. Not here: the configuration, the store and extraVolumes. */}}
{{- define "dream.volumes" -}}
- name: identity
  secret:
    secretName: {{ include "dream.identitySecret" . }}
    defaultMode: 0440
    items:
      - key: {{ .Values.identity.certificateKey }}
        path: {{ .Values.identity.certificateKey }}
      - key: {{ .Values.identity.privateKeyKey }}
        path: {{ .Values.identity.privateKeyKey }}
{{- range $role, $authorities := dict "meter" .Values.identity.meterAuthorities "gateway" .Values.identity.gatewayAuthorities }}
- name: {{ $role }}-authorities
  {{- if $authorities.existingConfigMap }}
  configMap:
    name: {{ $authorities.existingConfigMap }}
  {{- else }}
  secret:
    secretName: {{ default (include "dream.identitySecret" $) $authorities.existingSecret }}
    defaultMode: 0440
  {{- end }}
    items:
      {{- range $authorities.keys }}
      - key: {{ . }}
        path: {{ . }}
      {{- end }}
{{- end }}
{{- if include "dream.tls" . }}
- name: broker-ca
  {{- include "dream.source" .Values.broker.ca | nindent 2 }}
{{- end }}
{{- if include "dream.brokerSecret" . }}
- name: broker-client
  {{- include "dream.source" (dict "existingSecret" (include "dream.brokerSecret" .)) | nindent 2 }}
{{- end }}
{{- if .Values.broker.credentials.existingSecret }}
- name: broker-credentials
  {{- include "dream.source" .Values.broker.credentials | nindent 2 }}
{{- end }}
{{- if include "dream.httpSecret" . }}
- name: http-tls
  {{- include "dream.source" (dict "existingSecret" (include "dream.httpSecret" .)) | nindent 2 }}
{{- end }}
{{- if .Values.http.access.existingSecret }}
- name: http-access
  {{- include "dream.source" .Values.http.access | nindent 2 }}
{{- end }}
{{- if .Values.meterLists.existingConfigMap }}
- name: lists
  {{- include "dream.source" .Values.meterLists | nindent 2 }}
{{- end }}
{{- if .Values.postgres.url }}
{{- if include "dream.databaseTls" . }}
- name: postgres-ca
  {{- include "dream.source" .Values.postgres.ca | nindent 2 }}
{{- end }}
{{- if .Values.postgres.credentials.existingSecret }}
- name: postgres-credentials
  {{- include "dream.source" .Values.postgres.credentials | nindent 2 }}
{{- end }}
- name: store-keys
  {{- include "dream.source" .Values.postgres.keys | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Volumes or variables, as a list, that may be missing: then the gateway says which, and a pod does not wait for them. */}}
{{- define "dream.optional" -}}
{{- range . }}
{{- $from := default . .valueFrom }}
{{- range list "secret" "configMap" "secretRef" "configMapRef" "secretKeyRef" "configMapKeyRef" }}
{{- with get $from . }}
{{- $_ := set . "optional" true }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml . }}
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
