{{- define "memsvc.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "memsvc.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "memsvc.selector" . }}
{{- end }}

{{- define "memsvc.selector" -}}
app.kubernetes.io/name: memsvc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "memsvc.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "memsvc.databaseSecret" -}}
{{- if .Values.postgresql.enabled -}}
{{ include "memsvc.name" . }}-database
{{- else -}}
{{ required "database.secret names the Secret with the DSNs, or set postgresql.enabled" .Values.database.secret }}
{{- end -}}
{{- end }}

{{- define "memsvc.postgresqlSecret" -}}
{{- .Values.postgresql.secret | default (printf "%s-postgresql" (include "memsvc.name" .)) -}}
{{- end }}

{{/* The DSNs, as a list of environment variables. Called with the root and whether the owner's is among them. */}}
{{- define "memsvc.databaseEnvironment" -}}
{{- $root := index . 0 }}{{ $owner := index . 1 }}
{{- if $root.Values.postgresql.enabled }}
{{- $host := printf "%s-postgresql" (include "memsvc.name" $root) }}
- name: MEMSVC_APP_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "memsvc.postgresqlSecret" $root }}, key: app-password}}
- {name: MEMSVC_DATABASE_URL, value: "postgresql://memsvc_app:$(MEMSVC_APP_PASSWORD)@{{ $host }}:5432/memsvc"}
{{- if $owner }}
- name: MEMSVC_OWNER_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "memsvc.postgresqlSecret" $root }}, key: owner-password}}
- {name: MEMSVC_DATABASE__ADMIN_URL, value: "postgresql://memsvc_owner:$(MEMSVC_OWNER_PASSWORD)@{{ $host }}:5432/memsvc"}
{{- end }}
{{- else }}
- name: MEMSVC_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ include "memsvc.databaseSecret" $root }}, key: {{ $root.Values.database.keys.url }}}}
{{- if $owner }}
- name: MEMSVC_DATABASE__ADMIN_URL
  valueFrom: {secretKeyRef: {name: {{ include "memsvc.databaseSecret" $root }}, key: {{ $root.Values.database.keys.adminUrl }}}}
{{- end }}
{{- if $root.Values.database.direct }}
- name: MEMSVC_DATABASE__DIRECT_URL
  valueFrom: {secretKeyRef: {name: {{ include "memsvc.databaseSecret" $root }}, key: {{ $root.Values.database.keys.directUrl }}}}
{{- end }}
{{- end }}
{{- end }}

{{- define "memsvc.secretEnvironment" -}}
{{- range .Values.secretEnvironment }}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
{{- end }}
{{- end }}

{{- define "memsvc.podSecurity" -}}
serviceAccountName: {{ include "memsvc.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "memsvc.containerSecurity" -}}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The data of a ConfigMap with the settings. */}}
{{- define "memsvc.settings" -}}
memsvc.yaml: |
  {{- toYaml .Values.settings | nindent 2 }}
{{- end }}

{{/* Called with the root and the name of the ConfigMap with the settings. */}}
{{- define "memsvc.volumes" -}}
volumes:
  - {name: data, emptyDir: {sizeLimit: 64Mi}}
  - {name: tmp, emptyDir: {sizeLimit: 256Mi}}
  - name: settings
    configMap: {name: {{ index . 1 }}}
{{- end }}

{{- define "memsvc.mounts" -}}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
  - {name: settings, mountPath: /etc/memsvc, readOnly: true}
{{- end }}

{{- define "memsvc.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
