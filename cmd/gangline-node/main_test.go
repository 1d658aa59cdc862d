package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestWhatFailsInASessionIsNoErrorOfTheNode: virtual-kubelet hands such errors to Kubernetes'
// library, which logs them.
func TestWhatFailsInASessionIsNoErrorOfTheNode(t *testing.T) {
	var out bytes.Buffer
	_, err := logger(&out, "text")
	require.NoError(t, err)
	utilruntime.HandleError(fmt.Errorf("error executing command in container: %w", errors.New("no such program")))
	assert.Contains(t, out.String(), `level=INFO msg="a client's command was not run"`)
	assert.Contains(t, out.String(), "no such program")
	utilruntime.HandleError(errors.New("the cache is broken"))
	assert.Contains(t, out.String(), `level=ERROR msg="Unhandled Error"`)
}

// TestTheAddressMayBeTheProcesss: where the node is a pod, its configuration has none.
func TestTheAddressMayBeTheProcesss(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: config.gangline.dev/v1alpha1
kind: NodeConfiguration
nodeName: hpc
spool: /shared/gangline
agent: /shared/bin/gangline-agent
workloadManager: slurm
kubelet: {certFile: /c, keyFile: /k, clientCAFile: /a}
`), 0o600))
	validate := func(args ...string) error {
		cmd := command()
		cmd.SetArgs(append([]string{"config", "validate", file}, args...))
		cmd.SetOut(io.Discard)
		return cmd.ExecuteContext(t.Context())
	}
	assert.ErrorContains(t, validate(), "kubelet.address must be the IP")
	assert.NoError(t, validate("--address", "10.1.2.3"))
	t.Setenv("GANGLINE_ADDRESS", "10.1.2.3")
	assert.NoError(t, validate())
}

func TestWithoutAFileThereIsASentence(t *testing.T) {
	cmd := command()
	cmd.SetArgs([]string{"config", "validate"})
	assert.ErrorContains(t, cmd.ExecuteContext(t.Context()), "name one configuration file")
}
