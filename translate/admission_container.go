package translate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

const probedPorts = "a port of that number on the HPC node, which another pod there may hold"

func containerRules() []rule {
	container := func(field string) string { return "spec.containers[*]." + field }
	return []rule{
		{field: container("name"), verdict: supported},
		{field: container("image"), when: "one whose entrypoint the site has named", verdict: supported, note: "the site's program stands in for its entrypoint, and so for its cmd"},
		{field: container("image"), when: "with a container runtime", verdict: supported, note: "pulled once for all HPC nodes; see [containers.md](containers.md)"},
		{
			field: container("image"), when: "`host` beside images, with a container runtime", verdict: refused, reason: unsupported("Image"),
			note: "a pod is in images or on the HPC node; one whose containers all have the image `host` is on the node, whatever the runtime",
			cure: "Give all of the pod's containers an image, or all the image host",
			uses: inImage(onContainers(func(c corev1.Container) bool { return c.Image == wellknown.ImageHost })),
		},
		{field: container("image"), when: "any other, without one", verdict: noEffect, note: "a label: the command is a program of the HPC node, no image is pulled. A change while the pod runs has no effect, and its status keeps the image that it started with"},
		{
			field: container("command"), when: "missing, without a container runtime", verdict: refused, reason: wellknown.ReasonNoCommand,
			note: "the image is not pulled, and the site has not named its entrypoint; args that begin with sshd or a shell need none",
			cure: "Set command to a program that the HPC nodes have, or ask the site to name the image's entrypoint",
			uses: withoutCommand,
		},
		{field: container("command"), verdict: supported, note: "given to execve as it is; no shell is involved"},
		{field: container("args"), verdict: supported},
		{field: container("workingDir"), verdict: supported, note: "a directory of the HPC node or of a volume; with a container runtime, of the image, to whose own it may be relative"},
		{
			field: container("workingDir"), when: "not absolute, without a container runtime", verdict: refused, reason: unsupported("WorkingDir"),
			note: "there is no image that it could be relative to",
			cure: "Write an absolute path",
			uses: onHost(onContainers(func(c corev1.Container) bool { return c.WorkingDir != "" && !path.IsAbs(c.WorkingDir) })),
		},
		{field: container("restartPolicy"), verdict: supported, note: "it comes before the pod's; Always makes an init container a sidecar"},
		{field: container("restartPolicyRules"), verdict: supported, note: "Restart and RestartAllContainers; before the latter begins anew, the back-off of the container that asked is waited for"},
		{field: container("startupProbe"), verdict: supported, note: "from the HPC node, to the pod's address where no host is named; " + probedPorts},
		{field: container("livenessProbe"), verdict: supported, note: "as startupProbe"},
		{field: container("readinessProbe"), verdict: supported, note: "as startupProbe"},
		{field: container("lifecycle.postStart"), verdict: supported, note: "exec, httpGet, sleep"},
		{field: container("lifecycle.preStop"), verdict: supported, note: "exec, httpGet, sleep; within the grace period"},
		{field: container("lifecycle.stopSignal"), verdict: supported, note: "where the API server has the feature; otherwise it drops the field"},
		{field: container("terminationMessagePath"), verdict: supported},
		{field: container("terminationMessagePolicy"), verdict: supported},
		{field: container("imagePullPolicy"), when: "with a container runtime", verdict: supported},
		{field: container("imagePullPolicy"), when: "without one", verdict: noEffect, note: "no image is pulled"},
		{field: container("stdin"), verdict: supported, note: "held open for kubectl attach"},
		{field: container("stdinOnce"), verdict: supported, note: "without tty; a terminal stays for the next client, as with containerd"},
		{field: container("tty"), verdict: supported, note: "what it shows goes to the log too"},
	}
}

func containerDetailRules() []rule {
	env := func(c corev1.Container) []corev1.EnvVar { return c.Env }
	ports := func(c corev1.Container) []corev1.ContainerPort { return c.Ports }
	return []rule{
		{field: "spec.containers[*].envFrom", verdict: supported, note: "by configMapRef and secretRef, with prefix"},
		{field: "spec.containers[*].env[*].name", verdict: supported},
		{field: "spec.containers[*].env[*].value", verdict: supported, note: "with $(VAR)"},
		{field: "spec.containers[*].env[*].valueFrom.fieldRef", verdict: supported, note: "all addresses are the HPC node's"},
		{field: "spec.containers[*].env[*].valueFrom.resourceFieldRef", verdict: supported},
		{field: "spec.containers[*].env[*].valueFrom.configMapKeyRef", verdict: supported},
		{field: "spec.containers[*].env[*].valueFrom.secretKeyRef", verdict: supported, note: "encrypted on its way to the HPC node"},
		{
			field: "spec.containers[*].env[*].valueFrom.fileKeyRef", verdict: refused, reason: unsupported("FileKeyRef"),
			note: "the environment is made before the pod's volumes exist",
			cure: "Use a ConfigMap or a Secret, or read the file in the command",
			uses: onItems("env", env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil }),
		},
		{field: "spec.containers[*].ports[*].name", verdict: supported, note: "for Services"},
		{field: "spec.containers[*].ports[*].containerPort", verdict: supported, note: "a port of the HPC node: pods that share a node must not use the same one"},
		{field: "spec.containers[*].ports[*].protocol", verdict: supported},
		{field: "spec.containers[*].ports[*].hostPort", when: "the containerPort", verdict: supported, note: "always so"},
		{
			field: "spec.containers[*].ports[*].hostPort", when: "another than the containerPort", verdict: refused, reason: unsupported("HostPort"),
			note: "processes use the HPC node's network, where nothing maps ports",
			cure: "Use the same number for both",
			uses: onItems("ports", ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 && p.HostPort != p.ContainerPort }),
		},
		{
			field: "spec.containers[*].ports[*].hostIP", verdict: refused, reason: unsupported("HostPort"),
			note: "processes use the HPC node's network and listen where they choose",
			cure: "Remove it, and let the program bind to the address it should serve",
			uses: onItems("ports", ports, func(p corev1.ContainerPort) bool { return p.HostIP != "" }),
		},
		{field: "spec.containers[*].resources.requests", when: "cpu, memory, the GPU resource, those that the site maps (resources)", verdict: supported, note: "they size the allocation; a limit without a request counts as one"},
		{
			field: "spec.containers[*].resources.requests", when: "ephemeral-storage", verdict: noEffect,
			note: "nobody sets aside scratch space on an HPC node",
		},
		{
			field: "spec.containers[*].resources.requests", when: "hugepages-*", verdict: refused, reason: unsupported("HugePages"),
			note: "the workload manager does not hand out huge pages",
			cure: "Remove the request; a program may use those the HPC node has",
			uses: onResources(func(name corev1.ResourceName, _ Site) bool {
				return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
			}),
		},
		{
			field: "spec.containers[*].resources.requests", when: "any other", verdict: refused, reason: unsupported("Resource"),
			note: "nobody on the HPC side can give this resource",
			cure: "Remove the request, or ask the site to say under resources what it stands for",
			uses: onResources(func(name corev1.ResourceName, site Site) bool {
				switch name {
				case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
					return false
				}
				return !site.Devices.knows(site.GPUResource, name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
			}),
		},
		{field: "spec.containers[*].resources.limits", verdict: supported, note: "as requests; cpu limits do not slow a process down, and memory is bounded as the site's workload manager does; beyond a limit of ephemeral-storage (logs and emptyDirs on disk) the pod is evicted"},
		{
			field: "spec.containers[*].resources.claims", verdict: refused, reason: unsupported("ResourceClaims"),
			note: "the workload manager hands out devices, and it knows no claims",
			cure: "Request the GPU resource",
			uses: onContainers(func(c corev1.Container) bool { return len(c.Resources.Claims) > 0 }),
		},
		{field: "spec.containers[*].resizePolicy", verdict: noEffect, note: "an allocation keeps its size; a resize of a running pod is answered as infeasible"},
	}
}

// onResources finds requests and limits, of containers and of the pod, by the
// resource's name.
func onResources(used func(corev1.ResourceName, Site) bool) finder {
	return func(_ string, pod *corev1.Pod, site Site) []use {
		var uses []use
		look := func(at string, r corev1.ResourceRequirements) {
			// What is requested need not be named again for its limit.
			seen := map[corev1.ResourceName]bool{}
			for _, list := range []struct {
				name  string
				items corev1.ResourceList
			}{{"requests", r.Requests}, {"limits", r.Limits}} {
				for _, name := range sortedKeys(list.items) {
					if q := list.items[name]; !q.IsZero() && !seen[name] && used(name, site) {
						seen[name] = true
						uses = append(uses, use{path: fmt.Sprintf("%s.%s[%s]", at, list.name, name)})
					}
				}
			}
		}
		eachContainer(pod, func(path string, c corev1.Container) { look(path+".resources", c.Resources) })
		if pod.Spec.Resources != nil {
			look("spec.resources", *pod.Spec.Resources)
		}
		return uses
	}
}

func mountRules() []rule {
	mounts := func(c corev1.Container) []corev1.VolumeMount { return c.VolumeMounts }
	mount := func(field string) string { return "spec.containers[*].volumeMounts[*]." + field }
	return []rule{
		{field: mount("name"), verdict: supported},
		{field: mount("mountPath"), verdict: supported, note: "at its path, where the HPC node's kernel allows private mounts"},
		{
			field: mount("mountPath"), when: "/ or in " + privateDir, verdict: refused, reason: unsupported("MountPath"),
			note: "the HPC node's own root and the agent's own directory must stay in sight",
			cure: "Mount the volume elsewhere",
			uses: onItems("volumeMounts", mounts, func(m corev1.VolumeMount) bool {
				p := path.Clean("/" + m.MountPath)
				return p == "/" || within(privateDir, p)
			}),
		},
		{field: mount("readOnly"), verdict: supported},
		{field: mount("subPath"), verdict: supported, note: "a part of a ConfigMap or its like stays as it was when the container started"},
		{field: mount("subPathExpr"), verdict: supported},
		{field: mount("recursiveReadOnly"), verdict: supported},
		{field: mount("mountPropagation"), when: "None", verdict: supported},
		{
			field: mount("mountPropagation"), when: "HostToContainer", verdict: ignored,
			note: "what is mounted on the HPC node after the pod has started may not show",
			uses: onItems("volumeMounts", mounts, func(m corev1.VolumeMount) bool {
				return ptr.Deref(m.MountPropagation, "") == corev1.MountPropagationHostToContainer
			}),
		},
		{
			field: mount("mountPropagation"), when: "Bidirectional", verdict: refused, reason: unsupported("MountPropagation"),
			note: "a pod may not mount anything on an HPC node",
			cure: "Remove it",
			uses: onItems("volumeMounts", mounts, func(m corev1.VolumeMount) bool {
				return ptr.Deref(m.MountPropagation, "") == corev1.MountPropagationBidirectional
			}),
		},
		{
			field: mount("bindMountOptions"), verdict: refused, reason: unsupported("BindMountOptions"),
			note: "mounts get no noexec, nodev or nosuid yet",
			cure: "Remove them",
			uses: onItems("volumeMounts", mounts, func(m corev1.VolumeMount) bool { return len(m.BindMountOptions) > 0 }),
		},
		{
			field: "spec.containers[*].volumeDevices", verdict: refused, reason: unsupported("BlockVolume"),
			note: "HPC nodes have no block devices for pods",
			cure: "Use a filesystem",
			uses: onContainers(func(c corev1.Container) bool { return len(c.VolumeDevices) > 0 }),
		},
	}
}

func containerSecurityRules() []rule {
	type context = corev1.SecurityContext
	used := func(used func(*context) bool) finder {
		return onContainers(func(c corev1.Container) bool { return c.SecurityContext != nil && used(c.SecurityContext) })
	}
	const at = "spec.containers[*].securityContext."
	return append([]rule{
		{
			field: at + "privileged", when: "true", verdict: refused, reason: unsupported("Privileged"),
			note: "processes run as an ordinary user of the HPC node",
			cure: "Remove it",
			uses: used(func(c *context) bool { return ptr.Deref(c.Privileged, false) }),
		},
		{field: at + "capabilities.add", when: "SYS_PTRACE", verdict: noEffect, note: "processes of a pod may trace each other as far as the HPC node lets a user's processes (kernel.yama.ptrace_scope)"},
		{
			field: at + "capabilities.add", when: "any other", verdict: refused, reason: unsupported("Capabilities"),
			note: "processes run as an ordinary user of the HPC node and cannot be given capabilities",
			cure: "Remove them",
			uses: used(func(c *context) bool {
				return c.Capabilities != nil && slices.ContainsFunc(c.Capabilities.Add, func(added corev1.Capability) bool { return added != "SYS_PTRACE" })
			}),
		},
		{field: at + "capabilities.drop", verdict: supported, note: "always so: processes have no capabilities"},
		{
			field: at + "readOnlyRootFilesystem", when: "true, without a container runtime", verdict: ignored,
			note: "the process may write wherever the HPC user may",
			uses: onHost(used(func(c *context) bool { return ptr.Deref(c.ReadOnlyRootFilesystem, false) })),
		},
		{field: at + "readOnlyRootFilesystem", when: "true, with a container runtime", verdict: supported},
		{field: at + "allowPrivilegeEscalation", when: "true", verdict: supported, note: "what the HPC node's programs allow its users"},
		{
			field: at + "allowPrivilegeEscalation", when: "false", verdict: ignored,
			note: "the HPC node's own rules for its users hold",
			uses: used(func(c *context) bool { return !ptr.Deref(c.AllowPrivilegeEscalation, true) }),
		},
		{
			field: at + "procMount", when: "Unmasked", verdict: refused, reason: unsupported("ProcMount"),
			note: "processes see the HPC node's /proc as it is",
			cure: "Remove it",
			uses: used(func(c *context) bool { return ptr.Deref(c.ProcMount, "") == corev1.UnmaskedProcMount }),
		},
	}, identityRules(at, func(get func(security) bool) finder {
		return used(func(c *context) bool {
			return get(security{c.RunAsUser, c.RunAsGroup, c.SELinuxOptions, c.WindowsOptions, c.SeccompProfile, c.AppArmorProfile})
		})
	})...)
}
