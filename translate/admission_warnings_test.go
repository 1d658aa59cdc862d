package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	. "github.com/gangline/gangline/translate/translatetest"

	"github.com/gangline/gangline/translate/wellknown"
)

func TestAdmitKeepsAPodThatIsBeingDebugged(t *testing.T) {
	pod := spec(func(s *corev1.PodSpec) { s.EphemeralContainers = []corev1.EphemeralContainer{{}} })
	assert.Nil(t, Admit(pod, Site{}))
	assert.Empty(t, Warnings(pod, Site{}))
}

func TestWarningsAreOneForAllContainers(t *testing.T) {
	readOnly := func(c *corev1.Container) {
		c.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
	}
	pod := MakePod("pi").With(readOnly).Container("c").With(readOnly).InitContainer("i").With(readOnly).Obj()
	const field = ".securityContext.readOnlyRootFilesystem"
	assert.Equal(t, []string{
		"spec.initContainers[0]" + field + ", spec.containers[0]" + field + ", spec.containers[1]" + field +
			" are ignored: the process may write wherever the HPC user may.",
	}, Warnings(pod, Site{}))
}

func TestWarningsNameWhatNothingHonours(t *testing.T) {
	security := corev1.SecurityContext{
		RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), RunAsNonRoot: ptr.To(true),
		SELinuxOptions:           &corev1.SELinuxOptions{Level: "s0"},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		AppArmorProfile:          &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
		ReadOnlyRootFilesystem:   ptr.To(true),
		AllowPrivilegeEscalation: ptr.To(false),
	}
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		fields []string
	}{
		"slurm-bridge's annotations that have no meaning here": {
			pod: MakePod("pi").Annotation(wellknown.SlurmBridgePrefix+"gres", "gpu:1").Annotation(wellknown.SlurmBridgePrefix+"qos", "low").
				Annotation(wellknown.SlurmBridgePrefix+"user-id", "0").Obj(),
			fields: []string{"metadata.annotations[slurmjob.slinky.slurm.net/gres]"},
		},
		"interLink's annotations": {
			pod:    MakePod("pi").Annotation("slurm-job.vk.io/pre-exec", "-p x").Obj(),
			fields: []string{"metadata.annotations[slurm-job.vk.io/pre-exec]"},
		},
		"a resolver of the pod's own": {
			pod: spec(func(s *corev1.PodSpec) {
				s.DNSPolicy, s.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}}
			}),
			fields: []string{"spec.dnsPolicy", "spec.dnsConfig"},
		},
		"overhead and user namespaces": {
			pod: spec(func(s *corev1.PodSpec) {
				s.Overhead, s.HostUsers = corev1.ResourceList{"cpu": resource.MustParse("1")}, ptr.To(false)
			}),
			fields: []string{"spec.overhead", "spec.hostUsers"},
		},
		"a pod's identity": {
			pod: podSecurity(corev1.PodSecurityContext{
				RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1), FSGroup: ptr.To[int64](1), SupplementalGroups: []int64{1},
				SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyMerge), SELinuxOptions: &corev1.SELinuxOptions{},
			}),
			fields: []string{
				"spec.securityContext.runAsUser", "spec.securityContext.runAsGroup", "spec.securityContext.supplementalGroups",
				"spec.securityContext.supplementalGroupsPolicy", "spec.securityContext.fsGroup",
			},
		},
		"a container's confinement": {
			pod: containerSecurity(security),
			fields: []string{
				"spec.containers[0].securityContext.readOnlyRootFilesystem",
				"spec.containers[0].securityContext.allowPrivilegeEscalation",
				"spec.containers[0].securityContext.runAsUser", "spec.containers[0].securityContext.runAsGroup",
				"spec.containers[0].securityContext.seLinuxOptions",
				"spec.containers[0].securityContext.seccompProfile", "spec.containers[0].securityContext.appArmorProfile",
			},
		},
		"mounts that would follow the node's": {
			pod:    mount(corev1.VolumeMount{Name: "v", MountPath: "/m", MountPropagation: ptr.To(corev1.MountPropagationHostToContainer)}),
			fields: []string{"spec.containers[0].volumeMounts[0].mountPropagation"},
		},
		"owners of files": {
			pod: MakePod("pi").
				Volume("a", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultUser: ptr.To[int64](1)}}).
				Volume("b", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultUser: ptr.To[int64](1)}}).
				Volume("c", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultUser: ptr.To[int64](1)}}).
				Volume("d", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultUser: ptr.To[int64](1)}}).Obj(),
			fields: []string{
				"spec.volumes[3].projected.defaultUser", "spec.volumes[0].configMap.defaultUser",
				"spec.volumes[1].secret.defaultUser", "spec.volumes[2].downwardAPI.defaultUser",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Nil(t, Admit(tc.pod, Site{}))
			warnings := Warnings(tc.pod, Site{})
			require.Len(t, warnings, len(tc.fields), warnings)
			for i, field := range tc.fields {
				assert.Contains(t, warnings[i], field+" is ignored: ")
			}
		})
	}
}
