package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gangline/gangline/translate/wellknown"
)

func TestProvisioner(t *testing.T) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "hpc"}, Provisioner: wellknown.PathProvisioner}
	node := func(name, cluster string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{wellknown.Cluster: cluster}}}
	}
	for sentence, tc := range map[string]struct {
		change  func(*corev1.PersistentVolumeClaim)
		volumes int
		event   string
	}{
		"a claim gets its volume":                     {nil, 1, "Normal ProvisioningSucceeded Made the volume pvc-u-1"},
		"when a node of the cluster has been chosen":  {func(c *corev1.PersistentVolumeClaim) { c.Annotations["volume.kubernetes.io/selected-node"] = "hpc" }, 1, "Normal"},
		"not on another cluster's node":               {func(c *corev1.PersistentVolumeClaim) { c.Annotations["volume.kubernetes.io/selected-node"] = "far" }, 0, ""},
		"not on a node that is gone":                  {func(c *corev1.PersistentVolumeClaim) { c.Annotations["volume.kubernetes.io/selected-node"] = "gone" }, 0, ""},
		"not of a class that is gone":                 {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("gone") }, 0, ""},
		"one that cannot have any hears why":          {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, 0, "Warning ProvisioningFailed volumes of the class hpc are directories"},
		"one that has not asked for any gets nothing": {func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, 0, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "team", Name: "data", UID: "u-1",
					Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": wellknown.PathProvisioner},
				},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("hpc")},
			}
			if tc.change != nil {
				tc.change(claim)
			}
			c := fake.NewClientBuilder().WithObjects(claim, class, node("hpc", "default"), node("far", "other")).Build()
			events := record.NewFakeRecorder(4)
			p := &provisioner{client: c, live: c, recorder: events, cluster: "default"}
			for range 2 { // the second finds what the first has made
				_, err := p.provision(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
				require.NoError(t, err)
			}
			list := &corev1.PersistentVolumeList{}
			require.NoError(t, c.List(t.Context(), list))
			assert.Len(t, list.Items, tc.volumes)
			if tc.event != "" {
				assert.Contains(t, <-events.Events, tc.event)
			}
		})
	}
}

func TestAProvisionedVolumeGoesWithItsClaim(t *testing.T) {
	volume := func(name string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": wellknown.PathProvisioner}},
			Spec:       corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete},
			Status:     corev1.PersistentVolumeStatus{Phase: phase},
		}
	}
	c := fake.NewClientBuilder().WithObjects(volume("used", corev1.VolumeBound), volume("left", corev1.VolumeReleased)).Build()
	p := &provisioner{client: c, live: c, recorder: record.NewFakeRecorder(4), cluster: "default"}
	for _, name := range []string{"used", "left", "gone"} {
		_, err := p.reclaim(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		require.NoError(t, err)
	}
	list := &corev1.PersistentVolumeList{}
	require.NoError(t, c.List(t.Context(), list))
	require.Len(t, list.Items, 1)
	assert.Equal(t, "used", list.Items[0].Name)
}
