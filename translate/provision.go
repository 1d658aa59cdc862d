package translate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

// A class whose provisioner is wellknown.PathProvisioner has a PersistentVolume made for
// each claim. The volume is but a name: which directory stands for it is said by the
// site's rules for claims, and who makes that is the HPC user.

// WantsVolume tells whether a claim waits for a volume of ours: Kubernetes' volume
// controller has named the provisioner, which with volumeBindingMode WaitForFirstConsumer
// it does when the scheduler has chosen a node.
func WantsVolume(claim *corev1.PersistentVolumeClaim) bool {
	provisioner := claim.Annotations[storage.AnnStorageProvisioner]
	if provisioner == "" {
		provisioner = claim.Annotations[storage.AnnBetaStorageProvisioner]
	}
	return provisioner == wellknown.PathProvisioner && claim.Spec.VolumeName == "" &&
		claim.Status.Phase != corev1.ClaimBound && claim.DeletionTimestamp == nil
}

// ChosenNode is the node that the scheduler has chosen for a claim, empty for none.
func ChosenNode(claim *corev1.PersistentVolumeClaim) string {
	return claim.Annotations[storage.AnnSelectedNode]
}

// ClassAllows tells whether a class may have volumes on an HPC cluster: it names that one
// in allowedTopologies, or none.
func ClassAllows(class *storagev1.StorageClass, cluster string) bool {
	if class.Provisioner != wellknown.PathProvisioner {
		return false
	}
	return len(class.AllowedTopologies) == 0 || slices.ContainsFunc(class.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			return e.Key != wellknown.Cluster || !slices.Contains(e.Values, cluster)
		})
	})
}

// ProvisionedVolume is the volume for a claim on an HPC cluster. It can be used on that
// cluster's virtual nodes alone. An error says why the claim cannot have one.
func ProvisionedVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, cluster string) (*corev1.PersistentVolume, error) {
	if mode := ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem); mode != corev1.PersistentVolumeFilesystem {
		return nil, fmt.Errorf("volumes of the class %s are directories: volumeMode must be Filesystem, not %s", class.Name, mode)
	}
	if claim.Spec.Selector != nil || claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return nil, fmt.Errorf("volumes of the class %s are made empty, for one claim each: it must have no selector, dataSource and dataSourceRef", class.Name)
	}
	// The name that external provisioners give: one claim never gets two.
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{storage.AnnDynamicallyProvisioned: wellknown.PathProvisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    ptr.To(corev1.PersistentVolumeFilesystem),
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			// No node has a driver of that name, so no kubelet mounts it.
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.PathProvisioner, VolumeHandle: name},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: wellknown.Cluster, Operator: corev1.NodeSelectorOpIn, Values: []string{cluster},
				}},
			}}}},
		},
	}, nil
}

// Forsaken tells whether a volume of ours has outlived its claim, and is to go with it.
// What is in its directory stays.
func Forsaken(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[storage.AnnDynamicallyProvisioned] == wellknown.PathProvisioner && pv.DeletionTimestamp == nil &&
		pv.Status.Phase == corev1.VolumeReleased && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}
