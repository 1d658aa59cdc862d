package doctor

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sandbox"
)

// TestMain makes this program the stage by which pods' processes start.
func TestMain(m *testing.M) {
	if sandbox.IsInit(os.Args) {
		sandbox.Init()
	}
	os.Exit(m.Run())
}

func TestRuntimesAreTried(t *testing.T) {
	assert.Empty(t, runtimes(t.Context(), nil), "a site that runs no images")
	found := runtimes(t.Context(), map[string]string{"bubblewrap": "", "enroot": "/no/such/enroot", "docker": "", "podman": "/bin/false"})
	require.Len(t, found, 4)
	assert.Equal(t, OK, found[0].Status, found[0].Message)
	assert.Contains(t, found[0].Message, "bubblewrap works")
	assert.Equal(t, Fail, found[1].Status)
	assert.Contains(t, found[1].Message, "does not know the runtime docker")
	assert.Equal(t, Fail, found[2].Status)
	assert.Contains(t, found[2].Message, "/no/such/enroot does not work")
	assert.Contains(t, found[2].Cure, "containers.runtimes.enroot.program")
	assert.Equal(t, Fail, found[3].Status)
	assert.Contains(t, found[3].Message, "ended with code 1")
}
