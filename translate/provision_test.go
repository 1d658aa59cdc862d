package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

// unbound is a claim that waits for a volume of ours.
func unbound(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "data", UID: "u-1",
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": wellknown.PathProvisioner},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("hpc"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	if change != nil {
		change(claim)
	}
	return claim
}

func hpcClass(clusters ...string) *storagev1.StorageClass {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "hpc"}, Provisioner: wellknown.PathProvisioner}
	if len(clusters) > 0 {
		class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: wellknown.Cluster, Values: clusters},
		}}}
	}
	return class
}

func TestWhoWantsAVolume(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   bool
	}{
		"a claim that waits for one": {nil, true},
		"one of an older cluster": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.beta.kubernetes.io/storage-provisioner": wellknown.PathProvisioner}
		}, true},
		"not one whose first pod is still to come": {func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		"not one of another provisioner": {func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["volume.kubernetes.io/storage-provisioner"] = "csi.example.com"
		}, false},
		"not one that names its volume": {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, false},
		"not one that is going":         {func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		t.Run(sentence, func(t *testing.T) { assert.Equal(t, tc.want, WantsVolume(unbound(tc.change))) })
	}
}

func TestClassesAreForClusters(t *testing.T) {
	assert.True(t, ClassAllows(hpcClass(), "default"))
	assert.True(t, ClassAllows(hpcClass("other", "default"), "default"))
	assert.False(t, ClassAllows(hpcClass("other"), "default"))
	class := hpcClass("default")
	class.AllowedTopologies[0].MatchLabelExpressions[0].Key = "zone"
	assert.False(t, ClassAllows(class, "default"), "a zone of the cluster's own nodes")
	class = hpcClass()
	class.Provisioner = "csi.example.com"
	assert.False(t, ClassAllows(class, "default"))
}

func TestProvisionedVolume(t *testing.T) {
	claim := unbound(nil)
	pv, err := ProvisionedVolume(claim, hpcClass(), "default")
	require.NoError(t, err)
	assert.Equal(t, "pvc-u-1", pv.Name)
	assert.Equal(t, claim.Spec.AccessModes, pv.Spec.AccessModes)
	assert.Equal(t, "1Ti", ptr.To(pv.Spec.Capacity[corev1.ResourceStorage]).String())
	assert.Equal(t, corev1.PersistentVolumeReclaimDelete, pv.Spec.PersistentVolumeReclaimPolicy)
	assert.Equal(t, "default", pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0])

	// What it is bound to is a directory by the site's rules.
	claim.Spec.VolumeName, claim.Status.Phase = pv.Name, corev1.ClaimBound
	c := Claim{claim, pv}
	require.NoError(t, c.usable("team", "data"))
	site := Site{User: "alice", ClaimRules: []ClaimRule{{CSIDriver: wellknown.PathProvisioner, Path: "/scratch/{user}/{volumeHandle}", Create: true}}}
	dir, _, err := site.mapClaim(c)
	require.NoError(t, err)
	assert.Equal(t, "/scratch/alice/pvc-u-1", dir)

	for says, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"volumeMode must be Filesystem, not Block": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) },
		"no selector, dataSource":                  func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} },
	} {
		_, err := ProvisionedVolume(unbound(change), hpcClass(), "default")
		assert.ErrorContains(t, err, says)
	}
}

func TestForsaken(t *testing.T) {
	pv, err := ProvisionedVolume(unbound(nil), hpcClass(), "default")
	require.NoError(t, err)
	assert.False(t, Forsaken(pv), "it is new")
	pv.Status.Phase = corev1.VolumeReleased
	assert.True(t, Forsaken(pv))
	kept := pv.DeepCopy()
	kept.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	assert.False(t, Forsaken(kept))
	others := pv.DeepCopy()
	others.Annotations = nil
	assert.False(t, Forsaken(others))
}
