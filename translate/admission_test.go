package translate

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	. "github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

func container(change func(*corev1.Container)) *corev1.Pod { return MakePod("pi").With(change).Obj() }

func spec(change func(*corev1.PodSpec)) *corev1.Pod { return MakePod("pi").Spec(change).Obj() }

func podSecurity(c corev1.PodSecurityContext) *corev1.Pod {
	return spec(func(s *corev1.PodSpec) { s.SecurityContext = &c })
}

func containerSecurity(c corev1.SecurityContext) *corev1.Pod {
	return container(func(main *corev1.Container) { main.SecurityContext = &c })
}

func volume(v corev1.VolumeSource) *corev1.Pod { return MakePod("pi").Volume("v", v).Obj() }

func projected(p corev1.VolumeProjection) *corev1.Pod {
	return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{p}}})
}

func mount(m corev1.VolumeMount) *corev1.Pod {
	return MakePod("pi").Volume("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}).MountAs(m).Obj()
}

func hostPath(path string, kind *corev1.HostPathType) *corev1.Pod {
	return volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: kind}})
}

func ownedBy(apiVersion, kind string) *corev1.Pod {
	pod := MakePod("pi").Obj()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "o", Controller: ptr.To(true)}}
	return pod
}

func TestAdmitRefusesWhatTheHPCSideCannotDo(t *testing.T) {
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		reason  string
		field   string
		message string
	}{
		"a pod of a DaemonSet": {
			pod: ownedBy("apps/v1", "DaemonSet"), reason: "UnsupportedDaemonSet", field: "metadata.ownerReferences",
			message: "type=virtual-kubelet",
		},
		"a container without a command, because no image is pulled": {
			pod:    container(func(c *corev1.Container) { c.Command, c.Args = nil, []string{"x"} }),
			reason: wellknown.ReasonNoCommand, field: "spec.containers[0].command", message: "Set command to a program",
		},
		"an init container without a command": {
			pod: MakePod("pi").InitContainer("i").Obj(), reason: wellknown.ReasonNoCommand, field: "spec.initContainers[0].command",
		},
		"a working directory that is not absolute": {
			pod:    container(func(c *corev1.Container) { c.WorkingDir = "src" }),
			reason: "UnsupportedWorkingDir", field: "spec.containers[0].workingDir",
		},
		"hostPID": {
			pod: spec(func(s *corev1.PodSpec) { s.HostPID = true }), reason: "UnsupportedHostPID", field: "spec.hostPID",
		},
		"a runtime class": {
			pod:    spec(func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("kata") }),
			reason: "UnsupportedRuntimeClass", field: "spec.runtimeClassName",
		},
		"Windows": {
			pod:    spec(func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }),
			reason: "UnsupportedOS", field: "spec.os",
		},
		"resource claims of the pod": {
			pod:    spec(func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }),
			reason: "UnsupportedResourceClaims", field: "spec.resourceClaims",
		},
		"resource claims of a container": {
			pod:    container(func(c *corev1.Container) { c.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} }),
			reason: "UnsupportedResourceClaims", field: "spec.containers[0].resources.claims",
		},
		"the user root of the pod": {
			pod:    podSecurity(corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0)}),
			reason: "UnsupportedRunAsRoot", field: "spec.securityContext.runAsUser",
		},
		"the user root of a container": {
			pod:    containerSecurity(corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}),
			reason: "UnsupportedRunAsRoot", field: "spec.containers[0].securityContext.runAsUser",
		},
		"sysctls": {
			pod:    podSecurity(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "a"}}}),
			reason: "UnsupportedSysctls", field: "spec.securityContext.sysctls",
		},
		"Windows options of the pod": {
			pod:    podSecurity(corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}),
			reason: "UnsupportedOS", field: "spec.securityContext.windowsOptions",
		},
		"Windows options of a container": {
			pod:    containerSecurity(corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{}}),
			reason: "UnsupportedOS", field: "spec.containers[0].securityContext.windowsOptions",
		},
		"a seccomp profile of the node's, for the pod": {
			pod:    podSecurity(corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}),
			reason: "UnsupportedSeccompProfile", field: "spec.securityContext.seccompProfile",
		},
		"a seccomp profile of the node's, for a container": {
			pod:    containerSecurity(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}),
			reason: "UnsupportedSeccompProfile", field: "spec.containers[0].securityContext.seccompProfile",
		},
		"an AppArmor profile of the node's, for the pod": {
			pod:    podSecurity(corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}}),
			reason: "UnsupportedAppArmorProfile", field: "spec.securityContext.appArmorProfile",
		},
		"an AppArmor profile of the node's, for a container": {
			pod:    containerSecurity(corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost}}),
			reason: "UnsupportedAppArmorProfile", field: "spec.containers[0].securityContext.appArmorProfile",
		},
		"a privileged container": {
			pod:    containerSecurity(corev1.SecurityContext{Privileged: ptr.To(true)}),
			reason: "UnsupportedPrivileged", field: "spec.containers[0].securityContext.privileged",
		},
		"more capabilities": {
			pod:    containerSecurity(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"IPC_LOCK"}}}),
			reason: "UnsupportedCapabilities", field: "spec.containers[0].securityContext.capabilities.add",
		},
		"an unmasked /proc": {
			pod:    containerSecurity(corev1.SecurityContext{ProcMount: ptr.To(corev1.UnmaskedProcMount)}),
			reason: "UnsupportedProcMount", field: "spec.containers[0].securityContext.procMount",
		},
		"a variable from a file": {
			pod:    MakePod("pi").Env("A", "1").EnvFrom("B", corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}).Obj(),
			reason: "UnsupportedFileKeyRef", field: "spec.containers[0].env[1].valueFrom.fileKeyRef",
		},
		"a host port that would have to be mapped": {
			pod:    container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}} }),
			reason: "UnsupportedHostPort", field: "spec.containers[0].ports[0].hostPort",
		},
		"a host address to listen on": {
			pod:    container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostIP: "127.0.0.1"}} }),
			reason: "UnsupportedHostPort", field: "spec.containers[0].ports[0].hostIP",
		},
		"huge pages": {
			pod:    MakePod("pi").Request("hugepages-2Mi", "4Mi").Limit("hugepages-2Mi", "4Mi").Obj(),
			reason: "UnsupportedHugePages", field: "spec.containers[0].resources.requests[hugepages-2Mi]",
		},
		"huge pages of the pod": {
			pod: spec(func(s *corev1.PodSpec) {
				s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}}
			}),
			reason: "UnsupportedHugePages", field: "spec.resources.limits[hugepages-2Mi]",
		},
		"a resource that nobody can give": {
			pod:    MakePod("pi").Limit("example.com/fpga", "1").Obj(),
			reason: "UnsupportedResource", field: "spec.containers[0].resources.limits[example.com/fpga]",
		},
		"another GPU than the site's": {
			pod:    MakePod("pi").Limit("amd.com/gpu", "1").Obj(),
			reason: "UnsupportedResource", field: "spec.containers[0].resources.limits[amd.com/gpu]",
		},
		"a mount over the root": {
			pod:    mount(corev1.VolumeMount{Name: "v", MountPath: "//"}),
			reason: "UnsupportedMountPath", field: "spec.containers[0].volumeMounts[0].mountPath",
		},
		"a mount over the agent's directory": {
			pod:    mount(corev1.VolumeMount{Name: "v", MountPath: "/run/gangline/bin"}),
			reason: "UnsupportedMountPath", field: "spec.containers[0].volumeMounts[0].mountPath",
		},
		"mounts that spread to the node": {
			pod:    mount(corev1.VolumeMount{Name: "v", MountPath: "/m", MountPropagation: ptr.To(corev1.MountPropagationBidirectional)}),
			reason: "UnsupportedMountPropagation", field: "spec.containers[0].volumeMounts[0].mountPropagation",
		},
		"options of a mount": {
			pod:    mount(corev1.VolumeMount{Name: "v", MountPath: "/m", BindMountOptions: []string{"noexec"}}),
			reason: "UnsupportedBindMountOptions", field: "spec.containers[0].volumeMounts[0].bindMountOptions",
		},
		"a block device": {
			pod:    container(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "v"}} }),
			reason: "UnsupportedBlockVolume", field: "spec.containers[0].volumeDevices",
		},
		"a volume claim": {
			pod:    volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
			reason: "UnsupportedPersistentVolumeClaim", field: "spec.volumes[0].persistentVolumeClaim",
			message: "spec.volumes[0].persistentVolumeClaim is not supported: the site's rules map it to no directory of the HPC side. " +
				"Ask the site for a rule under volumes.claims in the node's configuration",
		},
		"an emptyDir of huge pages": {
			pod:    volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}),
			reason: "UnsupportedHugePages", field: "spec.volumes[0].emptyDir.medium",
		},
		"trust bundles": {
			pod:    projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}),
			reason: "UnsupportedClusterTrustBundle", field: "spec.volumes[0].projected.sources[0].clusterTrustBundle",
		},
		"pod certificates": {
			pod:    projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}),
			reason: "UnsupportedPodCertificate", field: "spec.volumes[0].projected.sources[0].podCertificate",
		},
		"a hostPath outside the site's list": {
			pod: hostPath("/etc", nil), reason: "UnsupportedHostPath", field: "spec.volumes[0].hostPath.path",
			message: "(/etc; allowed: /scratch, /data/)",
		},
		"a hostPath that only begins like one of the site's": {
			pod: hostPath("/scratch2", nil), reason: "UnsupportedHostPath", field: "spec.volumes[0].hostPath.path",
		},
		"a hostPath that climbs out of the site's": {
			pod: hostPath("/scratch/../etc", nil), reason: "UnsupportedHostPath", field: "spec.volumes[0].hostPath.path",
		},
		"a hostPath that is not absolute": {
			pod: hostPath("scratch", nil), reason: "UnsupportedHostPath", field: "spec.volumes[0].hostPath.path",
		},
		"several things at once, naming the others as well": {
			pod: container(func(c *corev1.Container) {
				c.WorkingDir, c.SecurityContext = "src", &corev1.SecurityContext{ProcMount: ptr.To(corev1.UnmaskedProcMount)}
			}),
			reason: "UnsupportedWorkingDir", field: "spec.containers[0].workingDir",
			message: "Also refused: spec.containers[0].securityContext.procMount.",
		},
		"a pod larger than any HPC node": {
			pod:    MakePod("pi").Request("cpu", "2").Request("nvidia.com/gpu", "9").Obj(),
			reason: wellknown.ReasonDoesNotFit, field: "spec.containers[*].resources",
			message: "needs 2 CPUs, 0 MiB and 9 GPUs on one HPC node (spec.containers[*].resources), and no node has as much: they have 64 CPUs, 1024 MiB and 0 GPUs or 8 CPUs, 1024 MiB and 8 GPUs.",
		},
		"a pod that only two kinds of node together could hold": {
			pod:    MakePod("pi").Request("cpu", "64").Request("nvidia.com/gpu", "8").Obj(),
			reason: wellknown.ReasonDoesNotFit, field: "spec.containers[*].resources",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Admit(tc.pod, Site{HostPaths: []string{"/scratch", "/data/"}, Nodes: []Resources{
				{CPUs: 64, MemoryMiB: 1024}, {CPUs: 64, MemoryMiB: 1024}, {CPUs: 8, MemoryMiB: 1024, GPUs: 8},
			}})
			require.NotNil(t, got)
			assert.Equal(t, tc.reason, got.Reason)
			assert.Equal(t, tc.field, got.Field)
			assert.Contains(t, got.Message, tc.message)
		})
	}
}

func TestEveryVolumeSourceIsSupportedOrRefused(t *testing.T) {
	works := map[string]bool{"hostPath": true, "emptyDir": true, "secret": true, "downwardAPI": true, "configMap": true, "projected": true}
	kinds := reflect.TypeFor[corev1.VolumeSource]()
	for i := range kinds.NumField() {
		name := jsonName(kinds.Field(i))
		source := reflect.New(kinds).Elem()
		source.Field(i).Set(reflect.New(kinds.Field(i).Type.Elem()))
		if name == "hostPath" {
			source.Field(i).Elem().FieldByName("Path").SetString("/scratch")
		}
		got := Admit(volume(source.Interface().(corev1.VolumeSource)), Site{HostPaths: []string{"/"}})
		if works[name] {
			assert.Nil(t, got, name)
			continue
		}
		require.NotNil(t, got, name)
		assert.Equal(t, "spec.volumes[0]."+name, got.Field)
	}
}

// asCreated is a pod as the API server stores it: with its defaults, and with
// what admission adds.
func asCreated() *PodBuilder {
	return MakePod("pi").
		With(func(c *corev1.Container) {
			c.Image, c.ImagePullPolicy = "python:3", corev1.PullIfNotPresent
			c.TerminationMessagePath, c.TerminationMessagePolicy = "/dev/termination-log", corev1.TerminationMessageReadFile
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.NotRequired}}
			c.Ports = []corev1.ContainerPort{{ContainerPort: 29500, Protocol: corev1.ProtocolTCP}}
		}).
		Request("cpu", "1").Request("memory", "1Gi").Limit("nvidia.com/gpu", "1").
		Volume("kube-api-access-x", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr.To[int32](0o644),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3607), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
				}}},
			},
		}}).
		MountAs(corev1.VolumeMount{Name: "kube-api-access-x", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}).
		Spec(func(s *corev1.PodSpec) {
			s.RestartPolicy, s.DNSPolicy, s.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default-scheduler"
			s.SecurityContext = &corev1.PodSecurityContext{}
			s.TerminationGracePeriodSeconds, s.EnableServiceLinks = ptr.To[int64](30), ptr.To(true)
			s.ServiceAccountName, s.DeprecatedServiceAccount = "default", "default"
			s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			s.Priority, s.PreemptionPolicy = ptr.To[int32](0), ptr.To(corev1.PreemptLowerPriority)
			s.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}}
			s.NodeName = "hpc"
		})
}

func TestAdmitAcceptsPodsOfEveryDay(t *testing.T) {
	for name, pod := range map[string]*corev1.Pod{
		"a pod as the API server stores it": asCreated().Obj(),
		"init containers and sidecars": asCreated().InitContainer("i").Command("true").
			Sidecar("s").Command("true").Container("c").Command("true").Obj(),
		"a deadline, names and gates": asCreated().Spec(func(s *corev1.PodSpec) {
			s.ActiveDeadlineSeconds = ptr.To[int64](60)
			s.Hostname, s.Subdomain, s.SetHostnameAsFQDN = "a", "b", ptr.To(true)
			s.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"db"}}}
			s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
		}).Obj(),
		"what is always so on an HPC node": asCreated().Spec(func(s *corev1.PodSpec) {
			s.HostNetwork, s.HostIPC, s.ShareProcessNamespace = true, true, ptr.To(true)
			s.Containers[0].Ports[0].HostPort = 29500
			s.SecurityContext.RunAsNonRoot = ptr.To(true)
			s.Containers[0].SecurityContext = &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				Privileged:   ptr.To(false), ProcMount: ptr.To(corev1.DefaultProcMount),
			}
		}).Obj(),
		"shared memory on /dev/shm": asCreated().
			Volume("shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}).
			Mount("shm", "/dev/shm").Obj(),
		"resources of the pod": asCreated().Spec(func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("4")}}
		}).Obj(),
		"a directory that the site allows": asCreated().
			Volume("data", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/sets/", Type: ptr.To(corev1.HostPathDirectory)}}).
			Mount("data", "/data").Obj(),
		"containers with restart policies of their own": asCreated().With(func(c *corev1.Container) {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyOnFailure)
		}).Obj(),
		"probes and hooks": asCreated().With(func(c *corev1.Container) {
			tcp := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
			c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = tcp, tcp, tcp
			sleep := &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}
			c.Lifecycle = &corev1.Lifecycle{PostStart: sleep, PreStop: sleep}
		}).Obj(),
		"bounds on scratch space": asCreated().Request("ephemeral-storage", "1Gi").Limit("ephemeral-storage", "1Gi").
			Volume("v", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				SizeLimit: ptr.To(resource.MustParse("1Gi")), Mode: ptr.To[int32](0o700),
			}}).Obj(),
		"a resource whose quantity is zero":                   asCreated().Limit("example.com/fpga", "0").Obj(),
		"a pod of a kind that merely sounds like a DaemonSet": ownedBy("example.com/v1", "DaemonSet"),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Nil(t, Admit(pod, Site{HostPaths: []string{"/data"}, Nodes: []Resources{{CPUs: 8, MemoryMiB: 2048, GPUs: 1}}}))
			assert.Empty(t, Warnings(pod, Site{}))
		})
	}
}

func TestAdmitKnowsTheSitesGPU(t *testing.T) {
	pod := MakePod("pi").Limit("amd.com/gpu", "2").Obj()
	assert.Nil(t, Admit(pod, Site{GPUResource: "amd.com/gpu", Nodes: []Resources{{CPUs: 1, GPUs: 2}}}))
	assert.NotNil(t, Admit(pod, Site{GPUResource: "amd.com/gpu", Nodes: []Resources{{CPUs: 1, GPUs: 1}}}))
}
