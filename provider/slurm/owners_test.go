package slurm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/slurm"
)

func TestAJobKeepsItsUserWhileNamesCannotBeLookedUp(t *testing.T) {
	uids := []int{1001, 1002}
	for sentence, told := range map[string]string{"as squeue has it": "nobody", "as newer tools have it": "1001", "as slurmrestd has it": ""} {
		t.Run(sentence, func(t *testing.T) {
			var owners slurm.Owners
			_, counts, err := owners.Among(uids, 1001, told)
			assert.True(t, counts)
			assert.ErrorContains(t, err, "getent passwd 1001", "it is never taken for a job that has gone")
			name, _, err := owners.Among(uids, 1001, "ada")
			assert.NoError(t, err)
			assert.Equal(t, "ada", name)
			name, counts, err = owners.Among(uids, 1001, told)
			assert.NoError(t, err)
			assert.True(t, counts)
			assert.Equal(t, "ada", name)
			_, counts, err = owners.Among(uids, 1003, told)
			assert.NoError(t, err, "a stranger's job is nobody's business")
			assert.False(t, counts)
		})
	}
}
