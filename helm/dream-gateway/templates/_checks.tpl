{{/*
What the values must be beyond their shape, which values.schema.json describes. Every template below writes one line for each
mistake, with its key and what is allowed; "dream.checks" shows all of them at once. What only the gateway can know is left to
the hook in check-config.yaml.
*/}}
{{- define "dream.checks" -}}
{{- $mistakes := list -}}
{{- range list "numbers" "texts" "broker" "identity" "clusters" "groups" "lists" "resources" "postgres" "replicas" "http" "externalSecrets" "simulator" -}}
{{- range include (printf "dream.wrong.%s" .) $ | splitList "\n" -}}
{{- with trim . -}}
{{- $mistakes = append $mistakes . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $mistakes -}}
{{- fail (printf "\n\nInvalid values:\n  %s\n" (join "\n  " $mistakes)) -}}
{{- end -}}
{{- end -}}

{{/* The least and the greatest number of each key that has a default. */}}
{{- define "dream.numbers" -}}
replicas: [0, 1000]
revisionHistoryLimit: [0, 1000]
broker.keep_alive_seconds: [5, 3600]
broker.max_packet_bytes: [131072, 268435455]
config.clock_skew_seconds: [0, 3600]
config.shutdown_grace_seconds: [1, 3600]
config.store.retention_days: [1, 36500]
config.store.hours_retention_days: [1, 36500]
config.store.cache_mebibytes: [1, 65536]
postgres.lease_seconds: [1, 300]
http.port: [1024, 65535]
service.port: [1, 65535]
{{- end -}}

{{- define "dream.probeNumbers" -}}
initialDelaySeconds: [0, 3600]
periodSeconds: [1, 3600]
timeoutSeconds: [1, 3600]
failureThreshold: [1, 3600]
successThreshold: [1, 3600]
{{- end -}}

{{- define "dream.clusterNumbers" -}}
slot_seconds: [1, 86400]
reading_seconds: [1, 86400]
reveal_seconds: [1, 86400]
attempts: [1, 100]
partners: [0, 10000]
min_members: [2, 10000]
settle_seconds: [0, 86400]
list_slots: [4, 1000000]
drop_after_slots: [0, 4294967295]
min_interval_seconds: [0, 31536000]
{{- end -}}

{{/* The value at a path such as broker.url, as text; nothing if there is none. */}}
{{- define "dream.at" -}}
{{- $value := .values -}}
{{- range splitList "." .path -}}
{{- $value = get (default dict $value) . -}}
{{- end -}}
{{- if kindIs "string" $value }}{{ $value }}{{ else }}{{ int64 $value }}{{ end -}}
{{- end -}}

{{/* Numbers out of their bounds, of some settings and a table as above. */}}
{{- define "dream.outOfBounds" -}}
{{- $settings := .settings -}}
{{- $key := .key -}}
{{- range $name, $bounds := .table -}}
{{- if hasKey $settings $name -}}
{{- $value := int64 (get $settings $name) -}}
{{- $least := int64 (first $bounds) -}}
{{- $most := int64 (last $bounds) -}}
{{- if or (lt $value $least) (gt $value $most) }}
{{ $key }}.{{ $name }}: {{ $value }} is not allowed; use {{ $least }}{{ if ne $least $most }} to {{ $most }}{{ end }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dream.wrong.numbers" -}}
{{- range $path, $bounds := include "dream.numbers" . | fromYaml -}}
{{- $value := include "dream.at" (dict "values" $.Values "path" $path) -}}
{{- $least := int64 (first $bounds) -}}
{{- $most := int64 (last $bounds) -}}
{{- if eq $value "" }}
{{ $path }}: is missing; use {{ $least }} to {{ $most }}
{{- else if or (lt (int64 $value) $least) (gt (int64 $value) $most) }}
{{ $path }}: {{ $value }} is not allowed; use {{ $least }} to {{ $most }}
{{- end -}}
{{- end -}}
{{- $once := dict "successThreshold" (list 1 1) -}}
{{- range list "startupProbe" "livenessProbe" "readinessProbe" -}}
{{- $table := include "dream.probeNumbers" $ | fromYaml -}}
{{- if ne . "readinessProbe" -}}
{{- $table = mergeOverwrite $table $once -}}
{{- end }}
{{ include "dream.outOfBounds" (dict "key" . "settings" (default dict (get $.Values .)) "table" $table) }}
{{- end -}}
{{- end -}}

{{/* What each text has to look like, as a pattern and in words. */}}
{{- define "dream.texts" -}}
config.id:
  - ^[a-z0-9][a-z0-9_-]{0,59}$
  - use 1 to 60 small letters, digits, - and _, and a letter or a digit first, as in the certificate
config.home_assistant.discovery_prefix:
  - ^[^+#/]([^+#]*[^+#/])?$
  - use Home Assistant's discovery prefix, homeassistant
image.digest:
  - ^(sha256:[0-9a-f]{64})?$
  - use sha256:, followed by 64 hexadecimal digits, or nothing
runbooks.url:
  - ^(https?://\S+)?$
  - use an address such as https://wiki.example/dream/operations, or nothing
{{- end -}}

{{- define "dream.wrong.texts" -}}
{{- range $path, $rule := include "dream.texts" . | fromYaml -}}
{{- $value := include "dream.at" (dict "values" $.Values "path" $path) -}}
{{- if not (regexMatch (first $rule) $value) }}
{{ $path }}: {{ $value | quote }} is not allowed; {{ last $rule }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dream.wrong.broker" -}}
{{- $url := .Values.broker.url -}}
{{- if not $url }}
broker.url: say where the broker is, such as mqtts://broker.example:8883
{{- else if contains "@" $url }}
broker.url: the value is not a broker's address; use mqtt://HOST[:1883] or mqtts://HOST[:8883], and broker.credentials for the login
{{- else if not (regexMatch `^mqtts?://(\[[^][/?#\s"\\]+\]|[^][:/?#\s"\\]+)(:[0-9]+)?/?$` $url) }}
broker.url: {{ $url }} is not a broker's address; use mqtt://HOST[:1883] or mqtts://HOST[:8883], with an IPv6 address in brackets
{{- else -}}
{{- $port := include "dream.brokerPort" . -}}
{{- if or (gt (len $port) 5) (lt (int $port) 1) (gt (int $port) 65535) }}
broker.url: {{ $url }} has the port {{ $port }}; use 1 to 65535
{{- end -}}
{{- end -}}
{{- if and (include "dream.tls" .) (not .Values.broker.ca.existingSecret) (not .Values.broker.ca.existingConfigMap) }}
broker.ca: mqtts needs the authorities of the broker's certificate; set existingSecret or existingConfigMap
{{- end -}}
{{- if and $url (not (include "dream.tls" .)) (include "dream.brokerSecret" .) }}
broker.clientCertificate: only mqtts has client certificates; change broker.url
{{- end -}}
{{- if and .Values.broker.clientCertificate.certManager.enabled (not .Values.broker.clientCertificate.certManager.issuerRef.name) }}
broker.clientCertificate.certManager.issuerRef.name: say which issuer makes the certificate for the broker
{{- end -}}
{{- end -}}

{{- define "dream.wrong.http" -}}
{{- if and .Values.http.tls.certManager.enabled (not .Values.http.tls.certManager.issuerRef.name) }}
http.tls.certManager.issuerRef.name: say which issuer makes the certificate of the page
{{- end -}}
{{- end -}}

{{- define "dream.wrong.identity" -}}
{{- if and .Values.identity.certManager.enabled (not .Values.identity.certManager.issuerRef.name) }}
identity.certManager.issuerRef.name: say which issuer makes the gateway's certificate
{{- end -}}
{{- if not (or .Values.identity.certManager.enabled .Values.identity.existingSecret) }}
identity.existingSecret: name the secret with the gateway's certificate and key, or set identity.certManager.enabled
{{- end -}}
{{- if .Values.identity.authorities }}
identity.authorities: is two settings now; use identity.meterAuthorities for who certifies meters and identity.gatewayAuthorities for who certifies the gateway
{{- end -}}
{{- $meters := .Values.identity.meterAuthorities -}}
{{- if and .Values.identity.certManager.enabled (not (or $meters.existingSecret $meters.existingConfigMap)) }}
identity.meterAuthorities: cert-manager's secret has the gateway's authority alone; name the secret or config map with the certificates of the meters' authorities
{{- end -}}
{{- end -}}

{{- define "dream.wrong.clusters" -}}
{{- if not .Values.config.clusters }}
config.clusters: there is none; add a key for each cluster of homes, such as riverside: {}
{{- end }}
{{ include "dream.wrongSettings" (dict "key" "config.defaults" "settings" .Values.config.defaults) }}
{{- $together := dict -}}
{{- range $name, $cluster := .Values.config.clusters -}}
{{- if eq $name "gateway" }}
config.clusters.gateway: this name is reserved, because gateways publish their status below it; choose another
{{- else if not (regexMatch "^[a-z0-9][a-z0-9_-]{0,63}$" $name) }}
config.clusters.{{ $name }}: a name has 1 to 64 small letters, digits, - and _, and a letter or a digit first
{{- end }}
{{ include "dream.wrongSettings" (dict "key" (printf "config.clusters.%s" $name) "settings" $cluster) }}
{{- $all := mergeOverwrite (deepCopy (default dict $.Values.config.defaults)) (deepCopy (default dict $cluster)) -}}
{{- range list "dream.wrongWindows" "dream.wrongMembers" "dream.wrongScheme" "dream.wrongNoise" -}}
{{- with include . $all | trim -}}
{{- $_ := set $together . (append (get $together . | default list) $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $mistake, $names := $together }}
config.clusters.{{ join ", config.clusters." $names }}: {{ $mistake }}
{{- end -}}
{{- end -}}

{{/* Ways round, clusters that would count twice and slots of different lengths are left to the gateway. */}}
{{- define "dream.wrong.groups" -}}
{{- $clusters := default dict .Values.config.clusters -}}
{{- $groups := default dict .Values.config.groups -}}
{{- range $name, $group := $groups -}}
{{- if hasKey $clusters $name }}
config.groups.{{ $name }}: a cluster has this name; choose another
{{- else if or (eq $name "gateway") (not (regexMatch "^[a-z0-9][a-z0-9_-]{0,63}$" $name)) }}
config.groups.{{ $name }}: a name has 1 to 64 small letters, digits, - and _, and a letter or a digit first; gateway is reserved
{{- end }}
{{- if not $group.of }}
config.groups.{{ $name }}.of: names nothing; list the clusters or groups that it is the sum of
{{- end }}
{{- range $group.of -}}
{{- if not (or (hasKey $clusters .) (hasKey $groups .)) }}
config.groups.{{ $name }}.of: {{ . }} is neither a cluster nor a group; correct it, or leave it out
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What is wrong with a cluster's settings, or the defaults, looked at one by one. */}}
{{- define "dream.wrongSettings" -}}
{{- $key := .key -}}
{{- $settings := default dict .settings -}}
{{ include "dream.outOfBounds" (dict "key" $key "settings" $settings "table" (include "dream.clusterNumbers" . | fromYaml)) }}
{{- range $name, $rule := dict
      "epsilon" (list 0.000001 1000000.0 "above 0, up to 1000000, with at most six places; very small and very large ones in quotes")
      "day_epsilon" (list 0.0 1099511.0 "from 0, which is none, to 1099511, with at most six places")
      "max_missing" (list 0.0 0.2 "from 0 to 0.2, with at most six places")
      "max_malicious" (list 0.1 1.0 "from 0.1 to 1, with at most six places") -}}
{{- if hasKey $settings $name -}}
{{- $text := get $settings $name | toString -}}
{{- $decimal := regexMatch `^[0-9]{1,7}(\.[0-9]{1,6})?$` $text -}}
{{- if not (and $decimal (ge (float64 $text) (index $rule 0)) (le (float64 $text) (index $rule 1))) }}
{{ $key }}.{{ $name }}: {{ $text }} is not allowed; use a decimal {{ index $rule 2 }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $settings.range_watts -}}
{{- $least := int64 (first .) -}}
{{- $most := int64 (last .) -}}
{{- if or (gt $least 0) (lt $most 0) (eq $least $most) (lt $least -1000000000) (gt $most 1000000000) }}
{{ $key }}.range_watts: [{{ $least }}, {{ $most }}] is not allowed; it must contain 0 and another value, within a million kW
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether meters accept lists that are as small as a cluster's may be. */}}
{{- define "dream.wrongMembers" -}}
{{- $policy := default "strict" .meter_policy -}}
{{- $least := get (dict "strict" 50 "community" 23 "trial" 2) $policy -}}
{{- if lt (int64 (default $least .min_members)) (int64 $least) -}}
meters with the {{ $policy }} policy refuse a list of {{ int64 .min_members }} members; use a min_members of {{ $least }} or more, or another meter_policy
{{- end -}}
{{- end -}}

{{/* Whether a cluster's scheme goes with its other settings. */}}
{{- define "dream.wrongScheme" -}}
{{- if and (eq (default "auto" .scheme) "committee") (gt (int64 (default 0 .partners)) 0) -}}
a committee has no mask partners; leave partners out, or use the scheme pairwise
{{- end -}}
{{- end -}}

{{/* Whether the account of a day, if there is one, allows for a cluster's noise. */}}
{{- define "dream.wrongNoise" -}}
{{- $range := get (dict "flat" (list 0 5000) "house" (list 0 8000) "electric-heat" (list 0 15000) "pv" (list -8000 8000)) (default "house" .kind) -}}
{{- $range = default $range .range_watts -}}
{{- $width := sub (int64 (last $range)) (int64 (first $range)) -}}
{{- $epsilon := default "0.5" .epsilon | toString -}}
{{- $account := or (not (hasKey . "day_epsilon")) (gt (float64 (toString .day_epsilon)) 0.0) -}}
{{- if and $account (gt $width 0) (gt (float64 $epsilon) (float64 $width)) -}}
the noise has a scale below 1 W, which no account of a day allows for; use a wider range_watts or an epsilon of {{ $width }} or less
{{- end -}}
{{- end -}}

{{/* Whether a cluster's windows fit its slot, with the gateway's own defaults. Another check reports numbers out of bounds. */}}
{{- define "dream.wrongWindows" -}}
{{- $slot := int64 (default 600 .slot_seconds) -}}
{{- $reading := int64 (default (div $slot 10) .reading_seconds) -}}
{{- $reveal := int64 (default (div $slot 10) .reveal_seconds) -}}
{{- $usual := ternary 1 2 (eq (default "auto" .scheme) "committee") -}}
{{- $attempts := int64 (default $usual .attempts) -}}
{{- if and (gt $slot 0) (or (eq $reading 0) (eq $reveal 0)) -}}
in a slot of {{ $slot }} s a window, a tenth of it, is shorter than a second; use a slot_seconds of 10 or more, or set reading_seconds and reveal_seconds
{{- else if gt (mul $attempts (add $reading $reveal)) $slot -}}
{{ $attempts }} attempts of {{ $reading }} + {{ $reveal }} s do not fit a slot of {{ $slot }} s; change attempts, reading_seconds, reveal_seconds or slot_seconds
{{- end -}}
{{- end -}}

{{- define "dream.wrong.lists" -}}
{{- if not .Values.meterLists.existingConfigMap -}}
{{- $missing := "meterLists.existingConfigMap: say which config map has the lists that" -}}
{{- if include "dream.namesLists" .Values.config.defaults }}
{{ $missing }} config.defaults names
{{- end -}}
{{- range $name, $cluster := .Values.config.clusters -}}
{{- if include "dream.namesLists" $cluster }}
{{ $missing }} the cluster {{ $name }} names
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether a cluster's settings, if there are any, name files of the config map. */}}
{{- define "dream.namesLists" -}}
{{- $settings := default dict . -}}
{{- if or (dig "allow_file" "" $settings) (dig "cut_off_file" "" $settings) (dig "deny_file" "" $settings) }}yes{{ end -}}
{{- end -}}

{{- define "dream.wrong.resources" -}}
{{- range $key, $resources := dict "resources" .Values.resources "simulator.resources" .Values.simulator.resources -}}
{{- range $name, $request := $resources.requests -}}
{{- $limit := get (default dict $resources.limits) $name -}}
{{- if ne (toString $limit) "" -}}
{{- if gt (include "dream.quantity" $request | float64) (include "dream.quantity" $limit | float64) }}
{{ $key }}.requests.{{ $name }}: {{ $request }} is more than {{ $key }}.limits.{{ $name }}, {{ $limit }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.persistence.enabled (lt (include "dream.quantity" .Values.persistence.size | float64) 1048576.0) }}
persistence.size: {{ .Values.persistence.size }} is too small for a store; use 1Mi or more, such as 1Gi
{{- end -}}
{{- end -}}

{{/* A quantity of Kubernetes as a plain number. */}}
{{- define "dream.quantity" -}}
{{- $unit := regexFind "[A-Za-z]+$" (toString .) -}}
{{- $of := dict "" 1.0 "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- $of = merge $of (dict "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0) -}}
{{- mulf (trimSuffix $unit (toString .) | float64) (get $of $unit) -}}
{{- end -}}

{{- define "dream.wrong.postgres" -}}
{{- with .Values.postgres -}}
{{- if .url -}}
{{- if not (regexMatch "^postgres(ql)?://[^:@/]+@[^/]+/[^/]+$" .url) }}
postgres.url: it must name a user, a host and a database, and no password; use postgres://dream@db:5432/dream
{{- end -}}
{{- if not .keys.existingSecret }}
postgres.keys.existingSecret: say which secret has the keys of the store; make one with openssl rand -hex 32
{{- end -}}
{{- if not .keys.keys }}
postgres.keys.keys: name at least one key of the secret
{{- end -}}
{{- else if or .ca.existingSecret .ca.existingConfigMap .credentials.existingSecret .keys.existingSecret }}
postgres.url: set it, or leave out the other values of postgres
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What changes the number of replicas is refused by Kubernetes: see statefulset.yaml. */}}
{{- define "dream.wrong.replicas" -}}
{{- if and (eq (int64 .Values.replicas) 0) .Values.persistence.enabled (eq .Values.persistence.whenDeleted "Delete") }}
persistence.whenDeleted: Delete deletes every volume with the StatefulSet, which goes away while replicas is 0; install Retain first, and replicas 0 after that
{{- end -}}
{{- end -}}

{{- define "dream.wrong.externalSecrets" -}}
{{- with .Values.externalSecrets -}}
{{- if and .secrets (not .secretStoreRef.name) }}
externalSecrets.secretStoreRef.name: say which store has the secrets
{{- end -}}
{{- range $name, $keys := .secrets -}}
{{- if not $keys }}
externalSecrets.secrets.{{ $name }}: has no keys; name them, such as tls.key: {key: dream/gateway, property: key}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dream.wrong.simulator" -}}
{{- if and .Values.simulator.enabled (not .Values.simulator.existingSecret) (not .Values.simulator.existingClaim) }}
simulator: set existingSecret or existingClaim to a directory made by meter-sim provision
{{- end -}}
{{- end -}}
