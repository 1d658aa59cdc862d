package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/cmd/internal/logs"
)

// run runs the command line and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("POD_NAMESPACE", "trainers")
	var out bytes.Buffer
	root := command()
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte("webhook: {port: 1234}\ncertManagement: {webhookServiceName: mine}"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"version": {
			args: []string{"version"}, want: []string{version, "(Kubeflow Trainer API v2.3.0)"},
		},
		"the configuration, with what flags change": {
			args: []string{"config", "--config", file, "--feature-gates", "TrainJobStatus=true"},
			want: []string{"port: 1234", "TrainJobStatus: true", "leaderElect: true"},
		},
		"webhooks of the configured Service": {
			args: []string{"webhooks", "--config", file},
			want: []string{"name: mine\n      namespace: trainers\n      path: /validate-trainer-kubeflow-org-v1alpha1-trainjob"},
		},
		"webhooks of another namespace": {
			args: []string{"webhooks", "--namespace", "other"}, want: []string{"namespace: other"},
		},
		"webhooks by URL": {
			args: []string{"webhooks", "--url", "https://localhost:1"},
			want: []string{"url: https://localhost:1/mutate-trainer-kubeflow-org-v1alpha1-trainjob"},
		},
		"completion": {
			args: []string{"completion", "bash"}, want: []string{"gangline-controller"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, tc.args...)
			require.NoError(t, err)
			for _, want := range tc.want {
				assert.Contains(t, out, want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("webhook: {port: 0}"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a configuration that is not valid": {args: []string{"run", "--config", bad}, want: "webhook.port: Invalid value: 0"},
		"the same, only checked":            {args: []string{"config", "--config", bad}, want: "webhook.port: Invalid value: 0"},
		"a log format that is none":         {args: []string{"run", "--log-format", "xml"}, want: `--log-format is text or json, not "xml"`},
		"a log level that is none":          {args: []string{"run", "--log-level", "loud"}, want: `--log-level is debug, info, warn or error, not "loud"`},
		"webhooks at an address":            {args: []string{"webhooks", "--url", "https://10.0.0.5:9443"}, want: "certificate is made for names"},
		"webhooks at an address of IPv6":    {args: []string{"webhooks", "--url", "https://[fd00::5]:9443"}, want: "certificate is made for names"},
		"webhooks in the clear":             {args: []string{"webhooks", "--url", "http://controller:9443"}, want: "--url is as https://"},
		"a kubeconfig that is not there":    {args: []string{"run", "--kubeconfig", bad + ".none"}, want: "reading the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, tc.args...)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// A controller that is told to end gives its lease back, which is no error.
func TestAnEndIsNoError(t *testing.T) {
	var out bytes.Buffer
	log, err := logs.New(&out, "text", slog.LevelInfo, expected()...)
	require.NoError(t, err)
	log.Error(errors.New("leader election lost"), "error received after stop sequence was engaged")
	assert.Contains(t, out.String(), "level=INFO msg=\"the lease is given back")
	log.Error(errors.New("leader election lost"), "problem running the manager")
	assert.Contains(t, out.String(), "level=ERROR")
}
