package translate

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/wellknown"
)

// Stage returns the stage of a replicated job: the index of the first
// replicated job that it shares allocations with, and false where the JobSet
// has no such replicated job. Replicated jobs joined by dependsOn: Ready (or by
// nothing) are one stage; dependsOn: Complete starts another, since the two
// never run at the same time.
func Stage(js *jobset.JobSet, replicatedJob string) (int, bool) {
	stages := stagesOf(js)
	for i, rj := range js.Spec.ReplicatedJobs {
		if rj.Name == replicatedJob {
			return stages[i], true
		}
	}
	return 0, false
}

// stagesOf returns the stage of each replicated job. A replicated job may only
// depend on earlier ones (JobSet's webhook sees to it), so one pass will do: a
// stage is the set of those waited for by Complete, directly or through those
// that are Ready together with it.
func stagesOf(js *jobset.JobSet) []int {
	index := map[string]int{}
	depth := make([]int, len(js.Spec.ReplicatedJobs)) // how many Complete edges lead here
	for i, rj := range js.Spec.ReplicatedJobs {
		index[rj.Name] = i
		for _, d := range rj.DependsOn {
			on, ok := index[d.Name]
			if !ok {
				continue
			}
			after := depth[on]
			if d.Status == jobset.DependencyComplete {
				after++
			}
			depth[i] = max(depth[i], after)
		}
	}
	stages := make([]int, len(depth))
	first := map[int]int{}
	for i, d := range depth {
		if _, ok := first[d]; !ok {
			first[d] = i
		}
		stages[i] = first[d]
	}
	return stages
}

// Options are what the virtual node adds to an owner's own words.
type Options struct {
	// Selects tells whether a pod of this template may be bound to the node.
	Selects func(corev1.PodSpec) bool
	// GPUResource is the extended resource that stands for GPUs.
	GPUResource corev1.ResourceName
	// Devices are the extended resources beside it.
	Devices DeviceResources
	// ClusterDomain is the cluster's DNS domain ("cluster.local").
	ClusterDomain string
	// Pods is how many a gang may have, if that is fewer than MostPods; 0 for no such
	// limit. One of more gets no places.
	Pods int
}

// JobSetGang is the gang of one stage of a JobSet: all replicated jobs of the
// stage whose pods may be bound to the virtual node, in the JobSet's order.
func JobSetGang(js *jobset.JobSet, stage int, o Options) Gang {
	g := Gang{
		Key:         JobSetKey(js, stage),
		Namespace:   js.Namespace,
		Owner:       fmt.Sprintf("JobSet %s/%s", js.Namespace, js.Name),
		OwnerName:   js.Name,
		OwnerUID:    js.UID,
		Refills:     true,
		Whole:       true,
		Annotations: js.Annotations,
		PodLabels:   map[string]string{jobset.JobSetNameKey: js.Name},
	}
	stages := stagesOf(js)
	for i, rj := range js.Spec.ReplicatedJobs {
		if stages[i] == stage && o.Selects(rj.Template.Spec.Template.Spec) && !g.count(o, int64(rj.Replicas), int64(podsOf(rj.Template.Spec))) {
			return g
		}
	}
	override, groups := map[string]bool{}, map[string]bool{}
	inOrder := js.Spec.StartupPolicy != nil && js.Spec.StartupPolicy.StartupPolicyOrder == jobset.InOrder
	for i, rj := range js.Spec.ReplicatedJobs {
		template := rj.Template.Spec.Template
		if stages[i] != stage {
			continue
		}
		if !o.Selects(template.Spec) {
			g.Whole = false
			continue
		}
		first := !waitsForReady(rj, groups) && !(inOrder && len(g.Slots) > 0)
		groups[rj.Name] = true
		g.Waves = g.Waves || ptr.Deref(rj.Template.Spec.Completions, 0) > ptr.Deref(rj.Template.Spec.Parallelism, 1)
		if v, err := strconv.ParseBool(template.Annotations[wellknown.AnnotationRides]); err == nil {
			override[rj.Name] = v
		}
		resources := PodResources(template.Spec, o.GPUResource, o.Devices)
		for job := range int(rj.Replicas) {
			for index := range podsOf(rj.Template.Spec) {
				g.Slots = append(g.Slots, Slot{
					Role:      Role{Group: rj.Name, Job: job, Index: index},
					Hosts:     jobSetHosts(js, rj.Name, job, index, o.ClusterDomain),
					Resources: resources,
					First:     first,
					MPISlots:  mpiSlots(template.Annotations, js.Annotations, resources),
				})
			}
		}
	}
	markRiders(g.Slots, override)
	return g
}

// JobSetKey is the key of a JobSet's stage.
func JobSetKey(js *jobset.JobSet, stage int) string {
	return fmt.Sprintf("jobset/%s/%d", js.UID, stage)
}

// waitsForReady tells whether a replicated job's pods come only when others of
// the same gang are Ready. For those elsewhere the gang need not wait: when its
// pods come, they are Ready.
func waitsForReady(rj jobset.ReplicatedJob, gang map[string]bool) bool {
	for _, d := range rj.DependsOn {
		if d.Status == jobset.DependencyReady && gang[d.Name] {
			return true
		}
	}
	return false
}

// podsOf is how many pods of a Job run at once.
func podsOf(spec batchv1.JobSpec) int {
	n := ptr.Deref(spec.Parallelism, 1)
	if spec.Completions != nil {
		n = min(n, *spec.Completions)
	}
	return int(n)
}

// jobSetHosts are the DNS names that JobSet gives a pod
// (https://jobset.sigs.k8s.io/docs/concepts/): <jobset>-<replicated job>-<job>-<index>
// in the subdomain of its headless Service.
func jobSetHosts(js *jobset.JobSet, rjob string, job, index int, domain string) []string {
	host := fmt.Sprintf("%s-%s-%d-%d", js.Name, rjob, job, index)
	subdomain := js.Name
	if n := js.Spec.Network; n != nil {
		if !ptr.Deref(n.EnableDNSHostnames, true) {
			return []string{host}
		}
		if n.Subdomain != "" {
			subdomain = n.Subdomain
		}
	}
	return hostNames(host, subdomain, js.Namespace, domain)
}

// hostNames are the names by which a pod with a subdomain is known, the
// shortest first.
func hostNames(host, subdomain, namespace, domain string) []string {
	if subdomain == "" {
		return []string{host}
	}
	fqdn := host + "." + subdomain
	return []string{
		host,
		fqdn,
		fqdn + "." + namespace,
		fqdn + "." + namespace + ".svc",
		fqdn + "." + namespace + ".svc." + domain,
	}
}

// mpiSlots is the number of MPI processes a pod is for: as annotated, else one
// a GPU, else one.
func mpiSlots(pod, owner map[string]string, r Resources) int {
	if n, ok := annotatedMPISlots(pod, owner); ok {
		return n
	}
	return max(r.GPUs, 1)
}

// mostMPISlots is more than any host has, and so few that a gang's sum is still a number.
const mostMPISlots = 1 << 20

// annotatedMPISlots is the annotation's value, the pod's before the owner's. What is no
// number of slots counts as none.
func annotatedMPISlots(pod, owner map[string]string) (int, bool) {
	for _, annotations := range []map[string]string{pod, owner} {
		if n, err := strconv.Atoi(annotations[wellknown.AnnotationMPISlots]); err == nil && n > 0 && n <= mostMPISlots {
			return n, true
		}
	}
	return 0, false
}

// JobSetRole reads a pod's place in its JobSet from its Job's labels and its
// own completion index. It reports false where they are missing.
func JobSetRole(jobLabels map[string]string, pod *corev1.Pod) (Role, bool) {
	group, ok := jobLabels[jobset.ReplicatedJobNameKey]
	if !ok {
		return Role{}, false
	}
	job, err := strconv.Atoi(jobLabels[jobset.JobIndexKey])
	if err != nil {
		return Role{}, false
	}
	return Role{Group: group, Job: job, Index: completionIndex(pod)}, true
}

// RestartAttempt is how often all pods of a pod's JobSet were made anew before it.
func RestartAttempt(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Labels[wellknown.LabelRestartAttempt])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// completionIndex is a pod's index in an Indexed Job, or 0.
func completionIndex(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return 0
	}
	return n
}
