{{- define "lithify.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that selectors use; of a dict with root and component. */}}
{{- define "lithify.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "lithify.labels" -}}
{{ include "lithify.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "lithify.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Which of the three programs work here: the coordinators. */}}
{{- define "lithify.together" -}}
{{- if and .Values.server.enabled (eq .Values.coordinator.form "together") -}}true{{- end -}}
{{- end -}}

{{- define "lithify.maintainApart" -}}
{{- if and (ne .Values.maintain.form "none") (not (include "lithify.together" .)) -}}true{{- end -}}
{{- end -}}

{{- define "lithify.distributed" -}}
{{- if and .Values.worker.enabled (ne .Values.fleet.distribution "local") -}}true{{- end -}}
{{- end -}}

{{/* Said once, where a value is missing or does not fit, instead of a pod that does not start. */}}
{{- define "lithify.check" -}}
{{- if and (not .Values.config) (not .Values.existingConfigMap) -}}
{{- fail "config: lithify.toml is empty: set config or existingConfigMap" -}}
{{- end -}}
{{- range $name, $text := dict "config" .Values.config "worker.extraConfig" .Values.worker.extraConfig -}}
{{- if regexMatch "(?im)^[^#\\n]*(secret|password|token|secret_access_key|access_key_id)[\"']?\\s*=\\s*[\"'][^$\"']" $text -}}
{{- fail (printf "%s: a secret in clear: write it as \"${NAME}\", with NAME in secretEnv" $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.server.enabled (not .Values.server.tls.existingSecret) -}}
{{- fail "server.tls.existingSecret: the server needs a certificate (tls.crt, tls.key; ca.crt with mutual)" -}}
{{- end -}}
{{- if and (include "lithify.together" .) (eq .Values.maintain.form "cronjob") -}}
{{- fail "maintain.form: cronjob needs coordinator.form = apart" -}}
{{- end -}}
{{- if and (not .Values.server.enabled) (eq .Values.maintain.form "none") -}}
{{- fail "nothing to run: server.enabled is false and maintain.form is none" -}}
{{- end -}}
{{- if and (include "lithify.together" .) (gt (int .Values.server.replicas) 1) (eq .Values.maintain.form "resident") -}}
{{- fail "server.replicas: one process keeps the state of maintenance: coordinator.form = apart for more servers" -}}
{{- end -}}
{{- if include "lithify.distributed" . -}}
{{- if not .Values.fleet.existingSecret -}}
{{- fail "fleet.existingSecret: coordinator and workers need a secret that they share" -}}
{{- end -}}
{{- if not .Values.worker.tls.existingSecret -}}
{{- fail "worker.tls.existingSecret: workers need a certificate (tls.crt, tls.key, ca.crt)" -}}
{{- end -}}
{{- if and .Values.worker.tls.mutual (not .Values.fleet.clientTls.existingSecret) -}}
{{- fail "fleet.clientTls.existingSecret: workers ask for a certificate (worker.tls.mutual)" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "lithify.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.user.runAsUser }}
runAsUser: {{ . }}
{{- end }}
{{- with .Values.user.runAsGroup }}
runAsGroup: {{ . }}
{{- end }}
{{- with .Values.user.fsGroup }}
fsGroup: {{ . }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "lithify.containerSecurity" -}}
runAsNonRoot: true
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What all pods have in common; of a dict with root, values and account. */}}
{{- define "lithify.podStart" -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: false
enableServiceLinks: false
hostNetwork: false
hostPID: false
hostIPC: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  {{- include "lithify.podSecurity" .root | nindent 2 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "lithify.env" -}}
- name: HOME
  value: /tmp
- name: TMPDIR
  value: /tmp
- name: XDG_STATE_HOME
  value: /var/lib/lithify
{{- range . }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- end -}}

{{/* The coordinator's [fleet], as arguments: what the chart knows better than a file. */}}
{{- define "lithify.fleetArguments" -}}
{{- if include "lithify.distributed" . -}}
- --set=fleet.distribution={{ .Values.fleet.distribution }}
- --set=fleet.discovery=dns
- --set=fleet.dns={{ include "lithify.fullname" . }}-worker.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:{{ .Values.worker.port }}
- --set=fleet.secret_file=/run/secrets/lithify-fleet/secret
- --set=fleet.tls_ca=/run/secrets/lithify-fleet-ca/ca.crt
{{- if .Values.fleet.clientTls.existingSecret }}
- --set=fleet.tls_cert=/run/secrets/lithify-fleet-client/tls.crt
- --set=fleet.tls_key=/run/secrets/lithify-fleet-client/tls.key
{{- end }}
- --set=fleet.min_workers={{ .Values.fleet.minWorkers }}
- --set=fleet.max_inflight_groups_per_worker={{ .Values.worker.maxInflightGroups }}
- --set=fleet.queue_file=/run/lithify/queue.json
{{- else -}}
- --set=fleet.distribution=local
{{- end }}
{{- end -}}

{{- define "lithify.serverArguments" -}}
- --set=server.listen=0.0.0.0:{{ .Values.server.port }}
- --set=server.tls_cert_file=/run/secrets/lithify-server/tls.crt
- --set=server.tls_key_file=/run/secrets/lithify-server/tls.key
{{- if .Values.server.tls.mutual }}
- --set=server.tls_client_ca_file=/run/secrets/lithify-server/ca.crt
{{- end }}
- --set=server.drain={{ .Values.server.drainSeconds }}s
- --set=server.health_listen=0.0.0.0:{{ .Values.server.healthPort }}
{{- end -}}

{{- define "lithify.principalArguments" -}}
{{- if .Values.maintain.principal.existingSecret -}}
- --set=maintenance.principal.client_secret_file=/run/secrets/lithify-principal/client-secret
{{- end -}}
{{- end -}}

{{/* Mounts and volumes of a coordinator; of a dict with root, and server, principal as true or "". */}}
{{- define "lithify.coordinatorMounts" -}}
- {name: config, mountPath: /etc/lithify, readOnly: true}
- {name: state, mountPath: /var/lib/lithify}
- {name: run, mountPath: /run/lithify}
- {name: tmp, mountPath: /tmp}
{{- if .server }}
- {name: server-tls, mountPath: /run/secrets/lithify-server, readOnly: true}
{{- end }}
{{- if .principal }}
- {name: principal, mountPath: /run/secrets/lithify-principal, readOnly: true}
{{- end }}
{{- if include "lithify.distributed" .root }}
- {name: fleet, mountPath: /run/secrets/lithify-fleet, readOnly: true}
- {name: fleet-ca, mountPath: /run/secrets/lithify-fleet-ca, readOnly: true}
{{- if .root.Values.fleet.clientTls.existingSecret }}
- {name: fleet-client, mountPath: /run/secrets/lithify-fleet-client, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "lithify.coordinatorVolumes" -}}
- name: config
  configMap:
    name: {{ default (printf "%s-config" (include "lithify.fullname" .root)) .root.Values.existingConfigMap }}
    items: [{key: lithify.toml, path: lithify.toml}]
- name: run
  emptyDir: {sizeLimit: 16Mi}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- if .server }}
- name: server-tls
  secret:
    secretName: {{ .root.Values.server.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- if .principal }}
- name: principal
  secret:
    secretName: {{ .root.Values.maintain.principal.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .root.Values.maintain.principal.key }}, path: client-secret}]
{{- end }}
{{- if include "lithify.distributed" .root }}
- name: fleet
  secret:
    secretName: {{ .root.Values.fleet.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .root.Values.fleet.secretKey }}, path: secret}]
# The authority only: the workers' key stays with the workers.
- name: fleet-ca
  secret:
    secretName: {{ .root.Values.worker.tls.existingSecret }}
    defaultMode: 0440
    items: [{key: ca.crt, path: ca.crt}]
{{- if .root.Values.fleet.clientTls.existingSecret }}
- name: fleet-client
  secret:
    secretName: {{ .root.Values.fleet.clientTls.existingSecret }}
    defaultMode: 0440
    items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
{{- end }}
{{- end }}
{{- end -}}

{{/* The state volume: of a StatefulSet, or one that ends with the pod. */}}
{{- define "lithify.stateClaim" -}}
accessModes: [ReadWriteOnce]
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- end -}}

{{- define "lithify.workerProbe" -}}
exec:
  command:
    - lithify-worker
    - --probe=localhost:{{ .Values.worker.port }}
    - --ca=/run/secrets/lithify-worker/ca.crt
{{- if .Values.worker.tls.mutual }}
    - --cert=/run/secrets/lithify-worker/tls.crt
    - --key=/run/secrets/lithify-worker/tls.key
{{- end }}
{{- end -}}

{{- define "lithify.maintainContainer" -}}
name: lithify-maintain
image: {{ include "lithify.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [lithify-maintain]
env:
  {{- include "lithify.env" .Values.maintain.secretEnv | nindent 2 }}
securityContext:
  {{- include "lithify.containerSecurity" . | nindent 2 }}
resources:
  {{- toYaml .Values.maintain.resources | nindent 2 }}
{{- end -}}
