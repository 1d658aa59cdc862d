package translate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

// Rejection is why a pod cannot run here, in the form a pod's status has.
type Rejection struct {
	// Reason is one word for programs, Message a sentence for people: it
	// names the field, why it is refused, and the cure.
	Reason  string
	Message string
	// Field is the path of what is refused, e.g. "spec.volumes[0].nfs".
	Field string
}

// Site is what a virtual node knows of its HPC side when it admits pods.
type Site struct {
	// HostPaths are the directories that hostPath volumes may be in; an entry
	// allows itself and all below it.
	HostPaths []string
	// ReadOnlyHostPaths are such directories that pods may only read.
	ReadOnlyHostPaths []string
	// ClaimRules map PersistentVolumeClaims to directories; the first that fits counts.
	ClaimRules []ClaimRule
	// Claims are the pod's own, by name, as far as they are known.
	Claims map[string]Claim
	// User is the HPC user that pods run as.
	User string
	// GPUResource is the extended resource that stands for GPUs; empty for
	// DefaultGPUResource.
	GPUResource corev1.ResourceName
	// Devices are the extended resources beside it.
	Devices DeviceResources
	// Images are those whose entrypoints the site has named.
	Images Images
	// Environment and Limits are what the site gives pods' processes; Partition is
	// where the gang's job is.
	Environment SiteVariables
	Limits      ProcessLimits
	Partition   string
	// Runtimes are the site's container runtimes, and Runtime is the pod's: RuntimeHost, or
	// empty, for one whose containers are programs of the HPC node.
	Runtimes Runtimes
	Runtime  string
	// Nodes is what the HPC nodes have, one entry for each kind. While it is
	// empty (not known yet), no pod is too large.
	Nodes []Resources
}

// Admit decides whether a pod can run on the HPC side, by the table of rules.
// It returns nil for a pod that can.
func Admit(pod *corev1.Pod, site Site) *Rejection {
	var first *Rejection
	var others []string
	for _, r := range rules() {
		if r.verdict != refused {
			continue
		}
		for _, u := range r.uses(r.field, pod, site) {
			if first != nil {
				others = append(others, u.path)
				continue
			}
			first = &Rejection{Reason: r.reason, Field: u.path, Message: r.refusal(u)}
		}
	}
	if len(others) > 0 {
		first.Message += " Also refused: " + strings.Join(others, ", ") + "."
	}
	if first == nil {
		needs := PodResources(pod.Spec, site.GPUResource, site.Devices)
		if first = checkDevices(needs); first == nil {
			first = checkSize(needs, site.Nodes)
		}
	}
	return first
}

// Warnings tells which fields the pod sets and nothing honours, a sentence for
// each row of the table: the node tells them as Events.
func Warnings(pod *corev1.Pod, site Site) []string {
	var warnings []string
	for _, r := range rules() {
		if r.verdict != ignored {
			continue
		}
		var paths []string
		for _, u := range r.uses(r.field, pod, site) {
			paths = append(paths, u.path)
		}
		switch len(paths) {
		case 0:
		case 1:
			warnings = append(warnings, fmt.Sprintf("%s is ignored: %s.", paths[0], r.note))
		default:
			warnings = append(warnings, fmt.Sprintf("%s are ignored: %s.", strings.Join(paths, ", "), r.note))
		}
	}
	return warnings
}

// verdict is what becomes of a field.
type verdict string

const (
	supported verdict = "supported"
	// noEffect is for fields that have nothing to act on here and whose
	// absence no pod would notice: they are accepted without a word.
	noEffect verdict = "accepted, no effect"
	ignored  verdict = "ignored, with an Event"
	refused  verdict = "refused"
)

// rule is one row of the admission table: what becomes of one field, or of
// one use of it.
type rule struct {
	field   string // path in the pod; [*] stands for each item of a list
	when    string // which use of the field is meant; empty for any
	verdict verdict
	reason  string // of the rejection
	note    string // why; for a supported field what to know of it
	cure    string // what to do instead
	uses    finder // where a pod makes this use; nil where nobody needs to know
}

// use is one place of a pod where a rule applies.
type use struct {
	path   string
	detail string // what is special about it, or empty
}

func (u use) String() string {
	if u.detail == "" {
		return u.path
	}
	return fmt.Sprintf("%s (%s)", u.path, u.detail)
}

// finder lists the places of a pod where a rule for the field applies.
type finder func(field string, pod *corev1.Pod, site Site) []use

// refusal is the message for one use.
func (r rule) refusal(u use) string {
	return fmt.Sprintf("%s is not supported: %s. %s.", u, r.note, r.cure)
}

// unsupported is the reason for refusing a feature.
func unsupported(feature string) string { return wellknown.ReasonUnsupported + feature }

// rules is the admission table, in the order of the documentation.
func rules() []rule {
	var all []rule
	for _, s := range sections() {
		all = append(all, s.rules...)
	}
	return all
}

// section is a part of the table with a heading.
type section struct {
	title string
	rules []rule
}

func sections() []section {
	return []section{
		{"The pod", podRules()},
		{"The pod's security context", podSecurityRules()},
		{"Containers and init containers", containerRules()},
		{"Their environment, ports and resources", containerDetailRules()},
		{"Their mounts", mountRules()},
		{"Their security context", containerSecurityRules()},
		{"Volumes", volumeRules()},
	}
}

// suffix is the part of a field's path after the last list in it.
func suffix(field string) string {
	if i := strings.LastIndex(field, "[*]"); i >= 0 {
		return field[i+len("[*]"):]
	}
	return ""
}

// onPod finds a use anywhere in the pod.
func onPod(used func(*corev1.Pod) bool) finder {
	return func(field string, pod *corev1.Pod, _ Site) []use {
		if used(pod) {
			return []use{{path: field}}
		}
		return nil
	}
}

// onContainers finds the containers, init containers first, that make a use.
func onContainers(used func(corev1.Container) bool) finder {
	return func(field string, pod *corev1.Pod, _ Site) []use {
		var uses []use
		eachContainer(pod, func(path string, c corev1.Container) {
			if used(c) {
				uses = append(uses, use{path: path + suffix(field)})
			}
		})
		return uses
	}
}

// onItems finds the items of a list of the containers that make a use.
func onItems[T any](list string, items func(corev1.Container) []T, used func(T) bool) finder {
	return func(field string, pod *corev1.Pod, _ Site) []use {
		var uses []use
		eachContainer(pod, func(path string, c corev1.Container) {
			for i, item := range items(c) {
				if used(item) {
					uses = append(uses, use{path: fmt.Sprintf("%s.%s[%d]%s", path, list, i, suffix(field))})
				}
			}
		})
		return uses
	}
}

// onVolumes finds the volumes that make a use.
func onVolumes(used func(corev1.Volume) bool) finder {
	return func(field string, pod *corev1.Pod, _ Site) []use {
		var uses []use
		for i, v := range pod.Spec.Volumes {
			if used(v) {
				uses = append(uses, use{path: fmt.Sprintf("spec.volumes[%d]%s", i, suffix(field))})
			}
		}
		return uses
	}
}

// eachContainer visits the pod's init containers and containers with their
// paths.
func eachContainer(pod *corev1.Pod, visit func(path string, c corev1.Container)) {
	for i, c := range pod.Spec.InitContainers {
		visit(fmt.Sprintf("spec.initContainers[%d]", i), c)
	}
	for i, c := range pod.Spec.Containers {
		visit(fmt.Sprintf("spec.containers[%d]", i), c)
	}
}
