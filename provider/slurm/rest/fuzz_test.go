package rest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// FuzzAnswers reads any body as each kind of answer.
func FuzzAnswers(f *testing.F) {
	f.Add(http.StatusOK, []byte(`{"errors":[],"jobs":[{"job_id":7,"name":"pi-1","user_name":"ada","user_id":1001,"job_state":"RUNNING","start_time":1}]}`))
	f.Add(http.StatusOK, []byte(`{"jobs":[{"job_id":{"set":true,"number":7},"user_id":1001,"job_state":["RUNNING","COMPLETING"],"het_job_id":{"set":false}}],"last_update":{"set":true,"infinite":true}}`))
	f.Add(http.StatusInternalServerError, []byte(`{"errors":[{"error":"Unspecified error","error_number":-1}]}`))
	f.Add(http.StatusOK, []byte(`{"nodes":[{"name":"n1","cpus":8,"real_memory":1e3,"gres":"gpu:h100:8","state":"idle","state_flags":["DRAIN"],"partitions":["p"]}],"partitions":[{"name":"p","flags":["default"],"state":"UP"}]}`))
	f.Add(http.StatusBadGateway, []byte("<html>\xff"))
	f.Fuzz(func(t *testing.T, status int, data []byte) {
		owners := &slurm.Owners{}
		owners.Learn(1001, "ada")
		var jobs jobsAnswer
		if readAnswer(status, data, &jobs) == nil {
			require.Equal(t, http.StatusOK, status, "nothing else is an answer")
			list, err := jobsOf(jobs.Jobs, whose{uids: []int{1001}, owners: owners})
			if err == nil {
				assert.LessOrEqual(t, len(list), len(jobs.Jobs))
			}
			for _, j := range list {
				assert.NotEmpty(t, j.Phase)
				if j.Phase == wlm.PhaseEnded {
					assert.NotEqual(t, wlm.OutcomeNone, j.Outcome)
				}
			}
		}
		var nodes nodesAnswer
		var partitions partitionsAnswer
		if readAnswer(status, data, &nodes) == nil && readAnswer(status, data, &partitions) == nil {
			for _, p := range inventoryOf(nodes.Nodes, partitions.Partitions).Partitions {
				assert.NotEmpty(t, p.Nodes)
			}
		}
	})
}

// What sbatch would be asked for is taken apart and nothing of it is lost: each option is
// one field, and the batch script is always the same.
func FuzzOrder(f *testing.F) {
	f.Add("a comment", "gpu", "physics", "ib&h100", 2, int64(3000), 1)
	f.Add("--uid=0", "a=b", ":", "x", 1, int64(1), 0)
	f.Add("", "", "", "", 64, int64(1)<<43, 8)
	f.Fuzz(func(t *testing.T, comment, partition, account, constraint string, cpus int, memory int64, gpus int) {
		r := translate.Request{
			Name: "pi-1", Comment: comment, Agent: "/opt/agent", Dir: "/spool/pi-1",
			Groups: []translate.TaskGroup{{Tasks: 2, Resources: translate.Resources{CPUs: cpus, MemoryMiB: memory, GPUs: gpus}}},
			Wishes: translate.Wishes{Partition: partition, Account: account, Constraint: constraint},
		}
		args, err := translate.SbatchArgs(r, "/spool/pi-1/launch.sh")
		if err != nil {
			return
		}
		o, err := parseOrder(args)
		require.NoError(t, err)
		require.Len(t, o.components, 1)
		assert.Len(t, o.components[0], len(args)-3, "each option is there")
		assert.Equal(t, "/opt/agent", o.agent)
		for _, name := range versionNames() {
			v, _ := findVersion(name)
			body, err := v.body(o, []string{"PATH=/bin"})
			if err != nil {
				continue
			}
			job, _ := body["job"].(map[string]any)
			text, _ := body["script"].(string)
			if text == "" {
				text, _ = job["script"].(string)
			}
			assert.Equal(t, script, text)
			assert.Equal(t, comment, job["comment"])
			if partition != "" {
				assert.Equal(t, partition, job["partition"])
			}
			assert.False(t, strings.Contains(text, comment) && len(comment) > len(script))
		}
	})
}
