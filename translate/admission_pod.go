package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

const byScheduler = "the scheduler's business; it is done before the pod gets here"

func podRules() []rule {
	return []rule{
		{
			field: "metadata.ownerReferences", when: "a DaemonSet", verdict: refused, reason: unsupported("DaemonSet"),
			note: "a DaemonSet serves one node, and a virtual node stands for many",
			cure: "Let the DaemonSet avoid nodes with the label type=virtual-kubelet, or remove its toleration",
			uses: onPod(func(p *corev1.Pod) bool {
				owner := metav1.GetControllerOf(p)
				return owner != nil && owner.Kind == "DaemonSet" && strings.HasPrefix(owner.APIVersion, "apps/")
			}),
		},
		{
			field: "metadata.annotations", when: "slurm-bridge's, other than those in [annotations.md](annotations.md)", verdict: ignored,
			note: "the allocation's size and name come from the pods' own requests and owner",
			uses: onAnnotations(func(name string) bool {
				return strings.HasPrefix(name, wellknown.SlurmBridgePrefix) && !isAlias(name)
			}),
		},
		{
			field: "metadata.annotations", when: "gangline.dev/… that do not exist", verdict: ignored,
			note: "there is no such annotation, it may be misspelt",
			uses: onAnnotations(func(name string) bool {
				return strings.HasPrefix(name, wellknown.Domain+"/") && !slices.Contains(wellknown.Annotations(), name)
			}),
		},
		{
			field: "metadata.annotations", when: "interLink's (slurm-job.vk.io/…), other than flags", verdict: ignored,
			note: "scripts are not passed on; gangline.dev annotations say what the allocation should be",
			uses: onAnnotations(func(name string) bool {
				return strings.HasPrefix(name, wellknown.InterLinkPrefix) && !isAlias(name)
			}),
		},
		{field: "spec.initContainers", verdict: supported, note: "one after the other; those with restartPolicy Always are sidecars. Each field as in containers"},
		{field: "spec.ephemeralContainers", verdict: supported, note: "a process in the surroundings of the target container, or of the first one: its environment, mounts and devices. Without a command it is a shell (SHELL, or /bin/sh). Each field as in containers; one that asks for what is refused there is not started, its status and an Event say why, and the pod runs on"},
		{field: "spec.restartPolicy", verdict: supported},
		{field: "spec.terminationGracePeriodSeconds", verdict: supported, note: "at the end of its time limit a job has no longer than the workload manager grants (Slurm: KillWait)"},
		{field: "spec.activeDeadlineSeconds", verdict: supported, note: "handled by the virtual node; it counts from the start of the pod on the HPC node, not from its time in the queue"},
		{field: "spec.dnsPolicy", when: "Default, ClusterFirst, ClusterFirstWithHostNet", verdict: supported, note: "names of the gang's own pods resolve, all others by the HPC node's resolver; the cluster's DNS does not reach there"},
		{
			field: "spec.dnsPolicy", when: "None", verdict: ignored,
			note: "the HPC node's resolver is used",
			uses: onPod(func(p *corev1.Pod) bool { return p.Spec.DNSPolicy == corev1.DNSNone }),
		},
		{
			field: "spec.dnsConfig", verdict: ignored,
			note: "the HPC node's resolver is used",
			uses: onPod(func(p *corev1.Pod) bool { return p.Spec.DNSConfig != nil }),
		},
		{field: "spec.nodeSelector", verdict: supported, note: byScheduler},
		{field: "spec.serviceAccountName", verdict: supported, note: "for tokens; the process runs as the HPC user that the site maps"},
		{field: "spec.serviceAccount", verdict: supported, note: "the old name of serviceAccountName"},
		{field: "spec.automountServiceAccountToken", verdict: supported, note: "the API server's business"},
		{field: "spec.nodeName", verdict: supported},
		{field: "spec.hostNetwork", verdict: supported, note: "always so: processes use the HPC node's network"},
		{
			field: "spec.hostPID", when: "true", verdict: refused, reason: unsupported("HostPID"),
			note: "a pod may not look into the other processes of an HPC node",
			cure: "Remove it",
			uses: onPod(func(p *corev1.Pod) bool { return p.Spec.HostPID }),
		},
		{field: "spec.hostIPC", verdict: supported, note: "always so: shared memory is the HPC node's"},
		{field: "spec.shareProcessNamespace", verdict: supported, note: "always so"},
		{field: "spec.imagePullSecrets", when: "with a container runtime", verdict: supported, note: "encrypted on their way to the HPC node; one that is missing is told in an Event"},
		{field: "spec.imagePullSecrets", when: "without one", verdict: noEffect, note: "no image is pulled"},
		{field: "spec.hostname", verdict: supported},
		{field: "spec.subdomain", verdict: supported, note: "all names of the gang's pods resolve on the HPC nodes, Service or not"},
		{field: "spec.setHostnameAsFQDN", verdict: supported},
		{field: "spec.hostnameOverride", verdict: supported},
		{field: "spec.hostAliases", verdict: supported},
		{field: "spec.affinity", verdict: supported, note: byScheduler},
		{field: "spec.schedulerName", verdict: supported, note: byScheduler},
		{field: "spec.tolerations", verdict: supported, note: byScheduler},
		{field: "spec.priorityClassName", verdict: supported, note: byScheduler + "; where the site maps it (priorityClasses), its job stands back in the queue as well"},
		{field: "spec.priority", verdict: supported, note: byScheduler},
		{field: "spec.preemptionPolicy", verdict: supported, note: byScheduler},
		{field: "spec.topologySpreadConstraints", verdict: supported, note: byScheduler},
		{field: "spec.schedulingGates", verdict: supported, note: byScheduler},
		{field: "spec.schedulingGroup", verdict: supported, note: byScheduler},
		{field: "spec.readinessGates", verdict: supported},
		{field: "spec.evictionResponders", verdict: supported, note: "the eviction API's business"},
		{
			field: "spec.runtimeClassName", verdict: refused, reason: unsupported("RuntimeClass"),
			note: "pods run directly on the HPC node, not in a container runtime",
			cure: "Remove it",
			uses: onPod(func(p *corev1.Pod) bool { return ptr.Deref(p.Spec.RuntimeClassName, "") != "" }),
		},
		{
			field: "spec.overhead", verdict: ignored,
			note: "there is no sandbox that needs it; the allocation is sized without it",
			uses: onPod(func(p *corev1.Pod) bool { return len(p.Spec.Overhead) > 0 }),
		},
		{field: "spec.enableServiceLinks", verdict: supported},
		{field: "spec.os", when: "linux", verdict: supported},
		{
			field: "spec.os", when: "windows", verdict: refused, reason: unsupported("OS"),
			note: "the HPC nodes run Linux",
			cure: "Use os.name linux, or another node",
			uses: onPod(func(p *corev1.Pod) bool { return p.Spec.OS != nil && p.Spec.OS.Name != corev1.Linux }),
		},
		{
			field: "spec.hostUsers", when: "false", verdict: ignored,
			note: "the pod's user on the HPC node is the one the site maps, which is never root",
			uses: onPod(func(p *corev1.Pod) bool { return !ptr.Deref(p.Spec.HostUsers, true) }),
		},
		{
			field: "spec.resourceClaims", verdict: refused, reason: unsupported("ResourceClaims"),
			note: "the workload manager hands out devices, and it knows no claims",
			cure: "Request the GPU resource in the container's resources",
			uses: onPod(func(p *corev1.Pod) bool { return len(p.Spec.ResourceClaims) > 0 }),
		},
		{field: "spec.resources", verdict: supported, note: "the requests and limits of cpu and memory size the allocation"},
	}
}

func podSecurityRules() []rule {
	used := func(used func(*corev1.PodSecurityContext) bool) finder {
		return onPod(func(p *corev1.Pod) bool { return p.Spec.SecurityContext != nil && used(p.Spec.SecurityContext) })
	}
	type context = corev1.PodSecurityContext
	return append(identityRules("spec.securityContext.", func(get func(security) bool) finder {
		return used(func(c *context) bool {
			return get(security{c.RunAsUser, c.RunAsGroup, c.SELinuxOptions, c.WindowsOptions, c.SeccompProfile, c.AppArmorProfile})
		})
	}), []rule{
		{
			field: "spec.securityContext.supplementalGroups", verdict: ignored, note: siteIdentity,
			uses: used(func(c *context) bool { return len(c.SupplementalGroups) > 0 }),
		},
		{
			field: "spec.securityContext.supplementalGroupsPolicy", verdict: ignored, note: siteIdentity,
			uses: used(func(c *context) bool { return c.SupplementalGroupsPolicy != nil }),
		},
		{
			field: "spec.securityContext.fsGroup", verdict: ignored,
			note: "the pod's volumes belong to the HPC user it runs as",
			uses: used(func(c *context) bool { return c.FSGroup != nil }),
		},
		{field: "spec.securityContext.fsGroupChangePolicy", verdict: noEffect, note: "part of fsGroup"},
		{field: "spec.securityContext.seLinuxChangePolicy", verdict: noEffect, note: "part of seLinuxOptions"},
		{
			field: "spec.securityContext.sysctls", verdict: refused, reason: unsupported("Sysctls"),
			note: "a user may not change an HPC node's kernel",
			cure: "Remove them, or ask the site to set them on its nodes",
			uses: used(func(c *context) bool { return len(c.Sysctls) > 0 }),
		},
	}...)
}

// asSeenInImage is what the user of a pod is whose image runs.
const asSeenInImage = "how the image sees the HPC user; its files are that user's all the same"

const siteIdentity = "the site maps the pod to an HPC user and its groups; a pod cannot choose them"

// security is what the security contexts of pods and containers share.
type security struct {
	user, group *int64
	seLinux     *corev1.SELinuxOptions
	windows     *corev1.WindowsSecurityContextOptions
	seccomp     *corev1.SeccompProfile
	appArmor    *corev1.AppArmorProfile
}

// identityRules are the rules that pods' and containers' security contexts
// share. They accept all that the restricted Pod Security Standard asks for.
func identityRules(path string, used func(func(security) bool) finder) []rule {
	return []rule{
		{
			field: path + "runAsUser", when: "0, without a container runtime", verdict: refused, reason: unsupported("RunAsRoot"),
			note: siteIdentity + ", and never root",
			cure: "Remove it; the process runs as the HPC user",
			uses: onHost(used(func(s security) bool { return s.user != nil && *s.user == 0 })),
		},
		{
			field: path + "runAsUser", when: "any other, without a container runtime", verdict: ignored, note: siteIdentity,
			uses: onHost(used(func(s security) bool { return s.user != nil && *s.user != 0 })),
		},
		{
			field: path + "runAsGroup", when: "without a container runtime", verdict: ignored, note: siteIdentity,
			uses: onHost(used(func(s security) bool { return s.group != nil })),
		},
		{field: path + "runAsUser", when: "0, with a container runtime", verdict: supported, note: asSeenInImage},
		{field: path + "runAsUser", when: "any other, with bubblewrap or charliecloud", verdict: supported, note: asSeenInImage},
		{
			field: path + "runAsUser", when: "any other, with another container runtime", verdict: refused, reason: unsupported("RunAsUser"),
			note: "in this runtime a process is root or the HPC user, whose files it uses",
			cure: "Remove it, or ask for bubblewrap or charliecloud (gangline.dev/runtime), where it is how the image sees the HPC user",
			uses: withRootOnly(used(func(s security) bool { return s.user != nil && *s.user != 0 })),
		},
		{field: path + "runAsGroup", when: "0, with a container runtime; any, with bubblewrap or charliecloud", verdict: supported, note: asSeenInImage},
		{
			field: path + "runAsGroup", when: "any other, with another container runtime", verdict: ignored,
			note: "in this runtime a process has root's group or the HPC user's",
			uses: withRootOnly(used(func(s security) bool { return s.group != nil && *s.group != 0 })),
		},
		{field: path + "runAsNonRoot", verdict: supported, note: "always so"},
		{
			field: path + "seLinuxOptions", verdict: ignored,
			note: "labels on an HPC node are the site's",
			uses: used(func(s security) bool { return s.seLinux != nil && *s.seLinux != corev1.SELinuxOptions{} }),
		},
		{
			field: path + "windowsOptions", verdict: refused, reason: unsupported("OS"),
			note: "the HPC nodes run Linux",
			cure: "Remove it",
			uses: used(func(s security) bool { return s.windows != nil }),
		},
		{field: path + "seccompProfile", when: "Unconfined", verdict: supported},
		{
			field: path + "seccompProfile", when: "RuntimeDefault", verdict: ignored,
			note: "no container runtime is there to confine the process; it has the rights of the HPC user",
			uses: used(func(s security) bool {
				return s.seccomp != nil && s.seccomp.Type == corev1.SeccompProfileTypeRuntimeDefault
			}),
		},
		{
			field: path + "seccompProfile", when: "Localhost", verdict: refused, reason: unsupported("SeccompProfile"),
			note: "HPC nodes have no profiles of Kubernetes",
			cure: "Use RuntimeDefault",
			uses: used(func(s security) bool {
				return s.seccomp != nil && s.seccomp.Type == corev1.SeccompProfileTypeLocalhost
			}),
		},
		{field: path + "appArmorProfile", when: "Unconfined", verdict: supported},
		{
			field: path + "appArmorProfile", when: "RuntimeDefault", verdict: ignored,
			note: "no container runtime is there to confine the process; it has the rights of the HPC user",
			uses: used(func(s security) bool {
				return s.appArmor != nil && s.appArmor.Type == corev1.AppArmorProfileTypeRuntimeDefault
			}),
		},
		{
			field: path + "appArmorProfile", when: "Localhost", verdict: refused, reason: unsupported("AppArmorProfile"),
			note: "HPC nodes have no profiles of Kubernetes",
			cure: "Use RuntimeDefault",
			uses: used(func(s security) bool {
				return s.appArmor != nil && s.appArmor.Type == corev1.AppArmorProfileTypeLocalhost
			}),
		},
	}
}

// onAnnotations finds annotations of the pod by their names.
func onAnnotations(used func(name string) bool) finder {
	return func(_ string, pod *corev1.Pod, _ Site) []use {
		var uses []use
		for _, name := range sortedKeys(pod.Annotations) {
			if used(name) {
				uses = append(uses, use{path: annotationField(name)})
			}
		}
		return uses
	}
}
