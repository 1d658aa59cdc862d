package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

// A pod's author can write the node's finalizer: that alone admits nothing.
func TestAFinalizerOfTheAuthorsMakingAdmitsNothing(t *testing.T) {
	c := newScene(t)
	c.s.identity = identity.Identity{User: "ada", Account: "physics", Accounts: []string{"physics"}}
	p := c.worker(0)
	p.identity, p.sealed = c.s.identity, false
	p.pod.Annotations = map[string]string{wellknown.AnnotationAccount: "bio"}
	c.decide()
	require.NotNil(t, p.rejection)
	assert.Equal(t, wellknown.ReasonNotAllowed, p.rejection.Reason)
	p.rejection, p.sealed = nil, true
	c.decide()
	require.NotNil(t, p.rejection, "its annotations can be changed once it is accepted")
	p.rejection = nil
	c.allocated(wlm.PhaseQueued)
	c.decide()
	assert.Nil(t, p.rejection, "what has a job keeps it, whatever the map says by now")
}

func TestNothingIsSubmittedThatTheIdentityRefuses(t *testing.T) {
	c := newScene(t)
	c.worker(0)
	c.allocated(wlm.PhaseQueued)
	c.s.alloc.job, c.s.alloc.untouched = nil, false
	c.s.identity = identity.Identity{User: "ada", Account: "physics", Accounts: []string{"physics"}}
	c.s.wishes.Account = "bio"
	r := &Reconciler{kind: "Slurm", recorder: record.NewFakeRecorder(10)} // without a workload manager
	require.NoError(t, r.trySubmit(t.Context(), c.s))
	assert.Contains(t, c.s.alloc.submitError, "the job is not submitted: the account bio is not one of those")
	assert.False(t, c.s.alloc.untouched, "what was submitted before may have become a job")
}

func TestWhatNeverFitsIsNotToldAsTheWorkloadManagersRefusal(t *testing.T) {
	c := newScene(t)
	c.worker(0)
	c.allocated(wlm.PhaseQueued).job = nil
	c.s.hpc.inventory.Partitions = []wlm.Partition{{Default: true, Nodes: []wlm.Node{{Name: "n1", CPUs: 1, Usable: true}}}}
	r := &Reconciler{kind: "Slurm", recorder: record.NewFakeRecorder(10), people: &people{sites: installed{}}} // without a workload manager
	require.NoError(t, r.trySubmit(t.Context(), c.s))
	assert.Contains(t, c.s.alloc.submitError, "the job is not submitted: the gang needs room for")
}
