package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What sbatch of Slurm 22.05.8 said to a job that the cluster does not take, and
// when there was nobody to take it. All of it was seen with the real one.
func TestARefusalIsToldFromAFailureToAsk(t *testing.T) {
	const failed = "sbatch: error: Batch job submission failed: "
	tests := map[string]struct {
		exit   int
		stderr string
		want   string // empty for no verdict
	}{
		"no such partition": {1, "sbatch: error: invalid partition specified: nope\n" + failed + "Invalid partition name specified\n",
			"invalid partition specified: nope; Batch job submission failed: Invalid partition name specified"},
		"a partition that is closed": {1, failed + "Required partition not available (inactive or drain)\n",
			"Batch job submission failed: Required partition not available (inactive or drain)"},
		"a partition for others": {1, failed + "User's group not permitted to use this partition\n",
			"Batch job submission failed: User's group not permitted to use this partition"},
		"a partition for root": {1, failed + "Access/permission denied\n", "Batch job submission failed: Access/permission denied"},
		"no such account": {1, failed + "Invalid account or account/partition combination specified\n",
			"Batch job submission failed: Invalid account or account/partition combination specified"},
		"no such QOS":        {1, failed + "Invalid qos specification\n", "Batch job submission failed: Invalid qos specification"},
		"no such feature":    {1, failed + "Invalid feature specification\n", "Batch job submission failed: Invalid feature specification"},
		"no such reserve":    {1, failed + "Requested reservation is invalid\n", "Batch job submission failed: Requested reservation is invalid"},
		"others' reserve":    {1, failed + "Access denied to requested reservation\n", "Batch job submission failed: Access denied to requested reservation"},
		"a limit on size":    {1, "sbatch: error: QOSMaxCpuPerJobLimit\n" + failed + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n", "QOSMaxCpuPerJobLimit; Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"},
		"a limit on time":    {1, failed + "Requested time limit is invalid (missing or exceeds some limit)\n", "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)"},
		"too large a node":   {1, "sbatch: error: CPU count per node can not be satisfied\n" + failed + "Requested node configuration is not available\n", "CPU count per node can not be satisfied; Batch job submission failed: Requested node configuration is not available"},
		"too many nodes":     {1, failed + "More processors requested than permitted\n", "Batch job submission failed: More processors requested than permitted"},
		"a malformed option": {255, "sbatch: error: Invalid --time specification\n", "Invalid --time specification"},
		"an unknown option":  {255, "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n", "unrecognized option '--bogus'"},
		"a generic resource": {1, "sbatch: error: Invalid generic resource (gres) specification\n", "Invalid generic resource (gres) specification"},
		"a site's own rule, beside its banner": {1, "*** Welcome to HPC ***\n\nsbatch: error: Please name a project\n" + failed + "Unspecified error\n",
			"Please name a project; Batch job submission failed: Unspecified error"},

		"no controller":                   {1, failed + "Unable to contact slurm controller (connect failure)\n", ""},
		"a controller that hangs":         {1, failed + "Socket timed out on send/recv operation\n", ""},
		"no munge":                        {1, "sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge encode failed: Failed to access \"/run/munge.sock\": No such file or directory (Did you start munged?)\n" + failed + "Protocol authentication error\n", ""},
		"a backup controller":             {1, failed + "Slurm backup controller in standby mode\n", ""},
		"no configuration":                {1, "sbatch: error: ClusterName needs to be specified\nsbatch: fatal: Unable to process configuration file\n", ""},
		"no batch script":                 {1, "sbatch: error: Unable to open file /nonexist\n", ""},
		"a limit on jobs that wait":       {1, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n" + failed + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n", ""},
		"another limit on jobs that wait": {1, "sbatch: error: AssocGrpSubmitJobsLimit\n" + failed + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n", ""},
		"a wrapper that does not work":    {127, "/opt/bin/sbatch: 3: exec: sbatch-real: not found\n", ""},
		"an sbatch that was killed":       {-1, "sbatch: error: something\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			message, refused := refusal(answer{tool: "sbatch", exit: tt.exit, stderr: tt.stderr})
			assert.Equal(t, tt.want != "", refused)
			assert.Equal(t, tt.want, message)
		})
	}
}

func TestTheJobsIDIsReadFromTheLastLine(t *testing.T) {
	for out, want := range map[string]string{
		"4711\n": "4711", "4711": "4711", "4711;cluster\n": "4711", "Dear user,\nwelcome\n4711\n": "4711",
	} {
		id, err := parseJobID(out)
		require.NoError(t, err)
		assert.Equal(t, want, id)
	}
	for _, out := range []string{"", "\n", "Submitted batch job 4711\n", "4711\nthank you\n", ";cluster\n"} {
		_, err := parseJobID(out)
		assert.ErrorContains(t, err, "printed no job id", out)
	}
}
