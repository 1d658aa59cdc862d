package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	. "github.com/gangline/gangline/translate/translatetest"
)

func TestVolumesThatFollowAreMadeAnew(t *testing.T) {
	fromMap := func(name string, optional bool) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named(name), Optional: ptr.To(optional)}}
	}
	pod := MakePod("p").EnvFrom("A", mapKey("only-env", "k", false)).
		Volume("here", fromMap("here", false)).Mount("here", "/here").
		Volume("gone", fromMap("gone", false)).Mount("gone", "/gone").
		Volume("dispensable", fromMap("gone", true)).Mount("dispensable", "/dispensable").
		Volume("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}).Mount("scratch", "/scratch").
		Volume("unused", fromMap("unused", false)).Obj()
	volumes, missing := Refresh(pod, Inputs{ConfigMaps: configMaps(configMap("here", map[string]string{"a": "1"}))})
	assert.Equal(t, []spool.Volume{
		{Name: "here", Files: []spool.File{{Path: "a", Mode: 0o644, Data: []byte("1")}}}, {Name: "dispensable"},
	}, volumes)
	require.Len(t, missing, 1)
	reason, text := missing[0].Event()
	assert.Equal(t, "FailedMount", reason)
	assert.Equal(t, `MountVolume.SetUp failed for volume "gone" : configmap "gone" not found`, text)

	assert.Equal(t, Refs{ConfigMaps: []Ref{{Name: "gone"}, {Name: "here"}}}, RefreshReferences(pod), "what only variables name is not read again")
}

func TestLimitsOfEphemeralStorage(t *testing.T) {
	pod := MakePod("p").Limit("ephemeral-storage", "1Gi").
		InitContainer("i").Command("true").Limit("ephemeral-storage", "4Gi").
		Sidecar("s").Command("true").Limit("ephemeral-storage", "512Mi").
		Container("free").Command("true").Obj()
	orders, err := Orders(pod, Inputs{})
	require.NoError(t, err)
	assert.Equal(t, "4Gi", orders.StorageLimit, "the init container's while it runs")
	assert.Equal(t, "1Gi", orders.Containers[0].StorageLimit)
	assert.Empty(t, orders.Containers[1].StorageLimit)
	assert.Empty(t, orders.InitContainers[0].StorageLimit)
	assert.Equal(t, "512Mi", orders.InitContainers[1].StorageLimit)
}
