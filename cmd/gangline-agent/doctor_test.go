package main

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/doctor"
)

// srun mixes the lines of several nodes: each says whose it is.
func TestEachLineOfTheDoctorBeginsWithItsNode(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	require.NoError(t, printFindings(cmd, "text", "hpc1", []doctor.Finding{
		doctor.Good("address", doctor.OK, "10.0.0.1"), doctor.Bad("memory", doctor.Warn, "mount one", "there is no /dev/shm"),
	}))
	assert.Equal(t, `hpc1  ok    address  10.0.0.1
hpc1  warn  memory   there is no /dev/shm
hpc1                 cure: mount one
`, out.String())
}
