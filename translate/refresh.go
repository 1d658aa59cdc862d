package translate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// Refresh makes those volumes anew that follow what they are made of while the pod
// runs. A volume that cannot be made, because something has gone meanwhile, is left
// out and named: as with kubelet, what the pod has of it stays.
func Refresh(pod *corev1.Pod, in Inputs) (volumes []spool.Volume, missing []*MissingError) {
	r := &resolver{pod: pod, in: in}
	for _, v := range FollowingVolumes(pod) {
		made, err := r.volume(v)
		if err != nil {
			m := waiting(err)
			m.Volume = v.Name
			missing = append(missing, m)
			continue
		}
		volumes = append(volumes, made)
	}
	return volumes, missing
}

// FollowingVolumes are the mounted volumes that change with what they are made of.
func FollowingVolumes(pod *corev1.Pod) []corev1.Volume {
	var volumes []corev1.Volume
	for _, v := range mountedVolumes(pod) {
		if v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil {
			volumes = append(volumes, v)
		}
	}
	return volumes
}
