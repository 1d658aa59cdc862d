package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gangline/gangline/provider/spool"
)

// A seed stays, so that a node that begins anew reaches its pods; one that somebody may have
// seen is deleted, and then no key and no seal is what it was.
func TestADeletedSeedMakesNewKeys(t *testing.T) {
	clientset := fake.NewClientset()
	load := func() keySource {
		k, err := loadKeySource(t.Context(), clientset, "gangline", "hpc")
		require.NoError(t, err)
		return k
	}
	first, again := load(), load()
	assert.Equal(t, first, again)
	require.NoError(t, clientset.CoreV1().Secrets("gangline").Delete(t.Context(), "gangline-node-hpc", metav1.DeleteOptions{}))
	second := load()
	before, err := first.ssh("pi-1")
	require.NoError(t, err)
	after, err := second.ssh("pi-1")
	require.NoError(t, err)
	assert.NotEqual(t, before.HostKey, after.HostKey)
	assert.NotEqual(t, before.ClientKey, after.ClientKey)
	assert.NotEqual(t, before.ClientPublicKey, after.ClientPublicKey)
	assert.NotEqual(t, first.seal(spool.Gang{Allocation: "pi-1"}), second.seal(spool.Gang{Allocation: "pi-1"}))
}
