package main

import (
	"bytes"
	"errors"
	"fmt"
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

func TestWithoutAFileThereIsASentence(t *testing.T) {
	cmd := command()
	cmd.SetArgs([]string{"config", "validate"})
	assert.ErrorContains(t, cmd.ExecuteContext(t.Context()), "name one configuration file")
}
