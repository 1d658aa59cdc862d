package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/api/config/v1alpha1"
)

// load writes text to a file and loads it.
func load(t *testing.T, text, features string) (v1alpha1.Configuration, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return Load(path, features)
}

const defaults = `apiVersion: config.trainer.kubeflow.org/v1alpha1
certManagement:
  enable: true
  webhookSecretName: kubeflow-trainer-webhook-cert
  webhookServiceName: kubeflow-trainer-controller-manager
clientConnection:
  burst: 100
  qps: 50
featureGates:
  TrainJobStatus: false
health:
  healthProbeBindAddress: :8081
  livenessEndpointName: healthz
  readinessEndpointName: readyz
kind: Configuration
leaderElection:
  leaderElect: true
  leaseDuration: 15s
  renewDeadline: 10s
  resourceLock: leases
  resourceName: trainer.kubeflow.org
  resourceNamespace: ""
  retryPeriod: 2s
metrics:
  bindAddress: :8443
  secureServing: true
statusServer:
  burst: 10
  port: 10443
  qps: 5
webhook:
  port: 9443
`

func TestDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"of an empty file": "",
		"of a file with the header only": `
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
`,
		"of a file that says the same": defaults,
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, text, "")
			require.NoError(t, err)
			effective, err := yaml.Marshal(c)
			require.NoError(t, err)
			assert.Equal(t, defaults, string(effective))
		})
	}
	t.Run("without a file", func(t *testing.T) {
		c, err := Load("", "")
		require.NoError(t, err)
		effective, err := yaml.Marshal(c)
		require.NoError(t, err)
		assert.Equal(t, defaults, string(effective))
	})
}

func TestWhatAFileSaysStays(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want func(*testing.T, v1alpha1.Configuration)
	}{
		"the webhook's port and host": {
			file: "webhook: {port: 443, host: 127.0.0.1}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.EqualValues(t, 443, *c.Webhook.Port)
				assert.Equal(t, "127.0.0.1", c.Webhook.Host)
			},
		},
		"no leader election": {
			file: "leaderElection: {leaderElect: false, leaseDuration: 1s}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.False(t, *c.LeaderElection.LeaderElect)
			},
		},
		"the times of the leader election": {
			file: "leaderElection: {leaseDuration: 1m, renewDeadline: 40s, retryPeriod: 5s, resourceName: a, resourceNamespace: b}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.True(t, *c.LeaderElection.LeaderElect)
				assert.Equal(t, time.Minute, c.LeaderElection.LeaseDuration.Duration)
				assert.Equal(t, 40*time.Second, c.LeaderElection.RenewDeadline.Duration)
				assert.Equal(t, 5*time.Second, c.LeaderElection.RetryPeriod.Duration)
				assert.Equal(t, "a", c.LeaderElection.ResourceName)
				assert.Equal(t, "b", c.LeaderElection.ResourceNamespace)
			},
		},
		"plain metrics": {
			file: "metrics: {bindAddress: '0', secureServing: false}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.Equal(t, "0", c.Metrics.BindAddress)
				assert.False(t, *c.Metrics.SecureServing)
			},
		},
		"the probes": {
			file: "health: {healthProbeBindAddress: ':1', readinessEndpointName: ready, livenessEndpointName: live}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.Equal(t, v1alpha1.Health{HealthProbeBindAddress: ":1", ReadinessEndpointName: "ready", LivenessEndpointName: "live"}, c.Health)
			},
		},
		"concurrency": {
			file: "controller: {groupKindConcurrency: {TrainJob.trainer.kubeflow.org: 5}}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.Equal(t, map[string]int32{"TrainJob.trainer.kubeflow.org": 5}, c.Controller.GroupKindConcurrency)
			},
		},
		"certificates of somebody else": {
			file: "certManagement: {enable: false, webhookServiceName: s, webhookSecretName: w}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.False(t, *c.CertManagement.Enable)
				assert.Equal(t, "s", c.CertManagement.WebhookServiceName)
				assert.Equal(t, "w", c.CertManagement.WebhookSecretName)
			},
		},
		"rates of zero": {
			file: "{clientConnection: {qps: 0, burst: 0}, statusServer: {qps: 0, burst: 0}}",
			want: func(t *testing.T, c v1alpha1.Configuration) {
				assert.Zero(t, *c.ClientConnection.QPS)
				assert.Zero(t, *c.ClientConnection.Burst)
				assert.Zero(t, *c.StatusServer.QPS)
				assert.Zero(t, *c.StatusServer.Burst)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, tc.file, "")
			require.NoError(t, err)
			tc.want(t, c)
		})
	}
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		file, features string
		want           []string
	}{
		"a field that is unknown":        {file: "webhooks: {port: 1}", want: []string{`unknown field "webhooks"`}},
		"a field with other capitals":    {file: "leaderelection: {}", want: []string{`unknown field "leaderelection"`}},
		"a field below that is unknown":  {file: "webhook: {prt: 1}", want: []string{`unknown field "webhook.prt"`}},
		"a field that is given twice":    {file: "webhook: {port: 1}\nwebhook: {port: 2}", want: []string{`"webhook" already set`}},
		"a value of the wrong type":      {file: "webhook: {port: many}", want: []string{"cannot unmarshal string", "webhook.port"}},
		"what is no YAML":                {file: "webhook: [", want: []string{"reading the configuration", "config.yaml"}},
		"another kind":                   {file: "kind: NodeConfiguration", want: []string{`kind: Unsupported value: "NodeConfiguration"`, `"Configuration"`}},
		"another version":                {file: "apiVersion: v1", want: []string{`apiVersion: Unsupported value: "v1"`, `"config.trainer.kubeflow.org/v1alpha1"`}},
		"a webhook port of 0":            {file: "webhook: {port: 0}", want: []string{"webhook.port: Invalid value: 0: must be between 1 and 65535"}},
		"a webhook port too high":        {file: "webhook: {port: 65536}", want: []string{"webhook.port: Invalid value: 65536: must be between 1 and 65535"}},
		"a status port of 0":             {file: "statusServer: {port: 0}", want: []string{"statusServer.port: Invalid value: 0: must be between 1 and 65535"}},
		"negative rates":                 {file: "{clientConnection: {qps: -1, burst: -2}, statusServer: {qps: -3, burst: -4}}", want: []string{"clientConnection.qps: Invalid value: -1", "clientConnection.burst: Invalid value: -2", "statusServer.qps: Invalid value: -3", "statusServer.burst: Invalid value: -4", "must be greater than or equal to 0"}},
		"no concurrency":                 {file: "controller: {groupKindConcurrency: {A: 0, B: -1}}", want: []string{"controller.groupKindConcurrency[A]: Invalid value: 0: must be greater than 0", "controller.groupKindConcurrency[B]: Invalid value: -1"}},
		"an old kind of lock":            {file: "leaderElection: {resourceLock: configmaps}", want: []string{`leaderElection.resourceLock: Unsupported value: "configmaps"`, `"leases"`}},
		"a lease as short as renewal":    {file: "leaderElection: {leaseDuration: 10s}", want: []string{"leaderElection.leaseDuration", "must be more than renewDeadline"}},
		"renewal as short as a retry":    {file: "leaderElection: {retryPeriod: 9s}", want: []string{"leaderElection.renewDeadline", "must be more than 1.2 times retryPeriod"}},
		"a negative retry":               {file: "leaderElection: {retryPeriod: -1s}", want: []string{"leaderElection.retryPeriod", "must be positive"}},
		"probes of one name":             {file: "health: {livenessEndpointName: readyz}", want: []string{`health.livenessEndpointName: Duplicate value: "readyz"`}},
		"a probe with a slash":           {file: "health: {readinessEndpointName: /readyz}", want: []string{"health.readinessEndpointName", "without a slash"}},
		"a Service name that is none":    {file: "certManagement: {webhookServiceName: a.b}", want: []string{"certManagement.webhookServiceName", `"a.b"`}},
		"a Secret name that is none":     {file: "certManagement: {webhookSecretName: A}", want: []string{"certManagement.webhookSecretName", `"A"`}},
		"an unknown TLS version":         {file: "tls: {minVersion: '1.4'}", want: []string{`tls.minVersion: Unsupported value: "1.4"`, `"1.0", "1.1", "1.2", "1.3"`}},
		"an unknown cipher":              {file: "tls: {cipherSuites: [TLS_AES_128_GCM_SHA256, ROT13]}", want: []string{`tls.cipherSuites[1]: Unsupported value: "ROT13"`, `"TLS_AES_128_GCM_SHA256"`}},
		"an unknown feature in the file": {file: "featureGates: {Flying: true}", want: []string{"featureGates of the configuration: unrecognized feature gate: Flying"}},
		"an unknown feature in the flag": {features: "Flying=true", want: []string{"--feature-gates: unrecognized feature gate: Flying"}},
		"a feature that is neither":      {features: "TrainJobStatus=perhaps", want: []string{"--feature-gates", "perhaps"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tc.file, tc.features)
			require.Error(t, err)
			for _, want := range tc.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
	t.Run("a file that is not there", func(t *testing.T) {
		_, err := Load(filepath.Join(t.TempDir(), "absent.yaml"), "")
		assert.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestFeatures(t *testing.T) {
	for name, tc := range map[string]struct {
		file, flag string
		want       bool
	}{
		"off by default":              {},
		"on by the file":              {file: "featureGates: {TrainJobStatus: true}", want: true},
		"on by the flag":              {flag: "TrainJobStatus=true", want: true},
		"the flag wins over the file": {file: "featureGates: {TrainJobStatus: true}", flag: "TrainJobStatus=false"},
		"on with all alpha features":  {flag: "AllAlpha=true", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, tc.file, tc.flag)
			require.NoError(t, err)
			assert.Equal(t, map[string]bool{TrainJobStatus: tc.want}, c.FeatureGates)
		})
	}
}
