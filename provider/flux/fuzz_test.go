package flux

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// What the instance lists is in part its users' own words.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"id":1,"name":"pi-1","state":64,"result":1,"exception_occurred":true,"exception_type":"timeout","nodelist":"n[0-3]"}`))
	f.Add([]byte(`{"id":2,"state":8,"urgency":0,"annotations":{"sched":{"reason_pending":"x","t_estimate":1e300}}}`))
	f.Add([]byte(`{"id":3,"state":4096,"t_submit":-1,"expiration":1e300,"duration":1e300}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var j flux.Job
		if json.Unmarshal(text, &j) != nil {
			return
		}
		job := jobOf(j, "ada")
		assert.Equal(t, "ada", job.User)
		_, err := flux.ParseJobID(job.ID)
		assert.NoError(t, err)
		if job.Phase == wlm.PhaseEnded {
			assert.NotEqual(t, wlm.OutcomeNone, job.Outcome, "an end that is not understood is none")
		}
	})
}

// Whatever the wishes are, the job runs the agent and nothing else, and what is of the
// user's are values of JSON.
func FuzzJobspec(f *testing.F) {
	f.Add("batch", "physics", "big&^old", "a comment", "afterok:fGfoQkP", 2, 2)
	f.Add("{{id}}", "--uid=0", "a|b", "\n\x00{{tmpdir}}", "afterok:1;reboot", -1, 1<<40)
	f.Add("", "", "&", "", "x", 0, 0)
	f.Fuzz(func(t *testing.T, queue, bank, properties, comment, dependency string, nodes, cpus int) {
		r := translate.Request{
			Name: "pi-1", Comment: comment, Agent: "/opt/agent", Dir: "/spool/gangs/pi-1", Dependency: dependency,
			Groups: []translate.TaskGroup{{Tasks: 2, Resources: translate.Resources{CPUs: cpus}}},
			Wishes: translate.Wishes{Partition: queue, Account: bank, Constraint: properties, MinNodes: nodes, MaxNodes: nodes},
		}
		spec, err := newJobspec(r, setting{hasQueues: true})
		if err != nil {
			return
		}
		require.Len(t, spec.Tasks, 1)
		assert.Equal(t, []string{"/usr/bin/env", "GANGLINE_JOB_ID={{id.f58plain}}", "GANGLINE_NODE={{node.name}}", "/opt/agent", "serve", "/spool/gangs/pi-1"},
			spec.Tasks[0].Command)
		assert.Nil(t, spec.Attributes.System.Files)
		for _, operands := range spec.Attributes.System.Constraints {
			for _, name := range operands {
				assert.False(t, strings.ContainsAny(name.(string), "&|, "), name)
			}
		}
		for _, d := range spec.Attributes.System.Dependencies {
			_, err := flux.ParseJobID(d.Value)
			assert.NoError(t, err)
		}
		assert.True(t, json.Valid([]byte(spec.String())))
	})
}
