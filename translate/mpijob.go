package translate

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

// The parts of an MPIJob.
const (
	mpiLauncher = "launcher"
	mpiWorker   = "worker"
)

// mpiJob is what matters here of an MPIJob of kubeflow.org/v2beta1
// (mpi-operator, pkg/apis/kubeflow/v2beta1/types.go), and its defaults.
type mpiJob struct {
	Metadata ownerMeta `json:"metadata"`
	Spec     struct {
		SlotsPerWorker         *int32 `json:"slotsPerWorker"` // 1
		RunLauncherAsWorker    bool   `json:"runLauncherAsWorker"`
		LauncherCreationPolicy string `json:"launcherCreationPolicy"` // AtStartup
		RunPolicy              struct {
			Suspend bool `json:"suspend"`
		} `json:"runPolicy"`
		ReplicaSpecs struct {
			Launcher *mpiReplicas `json:"Launcher"`
			Worker   *mpiReplicas `json:"Worker"`
		} `json:"mpiReplicaSpecs"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string                 `json:"type"`
			Status corev1.ConditionStatus `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

type mpiReplicas struct {
	Replicas *int32                 `json:"replicas"` // 0 for workers; there is one launcher
	Template corev1.PodTemplateSpec `json:"template"`
}

// MPIJobKey is the key of an MPIJob's gang.
func MPIJobKey(uid types.UID) string { return "mpijob/" + string(uid) }

// MPIJobGang is the gang of an MPIJob: its workers in the order of their index and
// its launcher, which comes first where it is a worker too, as in the operator's
// hostfile. With launcherCreationPolicy WaitForWorkersReady the launcher is late.
func MPIJobGang(u *unstructured.Unstructured, o Options) (Declaration, error) {
	job, err := decode[mpiJob](u)
	if err != nil {
		return Declaration{}, err
	}
	d := Declaration{
		Gang:      job.Metadata.gang(MPIJobKey(job.Metadata.UID), "MPIJob"),
		Gone:      job.Metadata.DeletionTimestamp != nil,
		Suspended: job.Spec.RunPolicy.Suspend,
		Finished:  job.finished(),
	}
	d.PodLabels = map[string]string{wellknown.LabelTrainingJobName: job.Metadata.Name}
	d.Whole = job.whole(o)
	if !d.count(o, job.pods(o), 1) {
		return d, nil
	}
	asWorker := job.Spec.RunLauncherAsWorker
	workers, launcher := job.workers(o), job.launcher(o)
	if asWorker {
		d.Slots = append(launcher, workers...)
	} else {
		d.Slots = append(workers, launcher...)
	}
	markRiders(d.Slots, job.rides())
	return d, nil
}

// whole tells that no part of the job is elsewhere.
func (j mpiJob) whole(o Options) bool {
	for _, r := range []*mpiReplicas{j.Spec.ReplicaSpecs.Launcher, j.Spec.ReplicaSpecs.Worker} {
		if r != nil && !o.Selects(r.Template.Spec) {
			return false
		}
	}
	return true
}

// pods are those that may be bound to the virtual node.
func (j mpiJob) pods(o Options) int64 {
	var n int64
	if l := j.Spec.ReplicaSpecs.Launcher; l != nil && o.Selects(l.Template.Spec) {
		n++
	}
	if w := j.Spec.ReplicaSpecs.Worker; w != nil && o.Selects(w.Template.Spec) {
		n += int64(ptr.Deref(w.Replicas, 0))
	}
	return n
}

func (j mpiJob) workers(o Options) []Slot {
	w := j.Spec.ReplicaSpecs.Worker
	if w == nil || !o.Selects(w.Template.Spec) {
		return nil
	}
	offset := 0
	if j.Spec.RunLauncherAsWorker {
		offset = 1 // the launcher is the first
	}
	resources := PodResources(w.Template.Spec, o.GPUResource, o.Devices) // of each; there may be very many
	var slots []Slot
	for i := range int(ptr.Deref(w.Replicas, 0)) {
		slots = append(slots, j.slot(w, resources, Role{Group: mpiWorker, Index: i + offset}, "-worker-"+strconv.Itoa(i), o))
	}
	return slots
}

func (j mpiJob) launcher(o Options) []Slot {
	l := j.Spec.ReplicaSpecs.Launcher
	if l == nil || !o.Selects(l.Template.Spec) {
		return nil
	}
	slot := j.slot(l, PodResources(l.Template.Spec, o.GPUResource, o.Devices), Role{Group: mpiLauncher}, "-launcher", o)
	slot.First = j.Spec.LauncherCreationPolicy != "WaitForWorkersReady"
	if !j.Spec.RunLauncherAsWorker {
		slot.MPISlots = 0
	}
	return []Slot{slot}
}

// slot is a place of the job. The operator sets the pods' host names and the
// subdomain, whatever their template says.
func (j mpiJob) slot(r *mpiReplicas, resources Resources, role Role, suffix string, o Options) Slot {
	s := Slot{
		Role:      role,
		Hosts:     hostNames(j.Metadata.Name+suffix, j.Metadata.Name, j.Metadata.Namespace, o.ClusterDomain),
		Resources: resources,
		First:     true,
	}
	s.MPISlots = int(ptr.Deref(j.Spec.SlotsPerWorker, 1))
	if n, ok := annotatedMPISlots(r.Template.Annotations, j.Metadata.Annotations); ok {
		s.MPISlots = n
	}
	return s
}

// rides tells which parts are told whether to ride: a launcher that is a worker
// has ranks to run.
func (j mpiJob) rides() map[string]bool {
	override := map[string]bool{}
	if j.Spec.RunLauncherAsWorker {
		override[mpiLauncher] = false
	}
	for group, r := range map[string]*mpiReplicas{mpiLauncher: j.Spec.ReplicaSpecs.Launcher, mpiWorker: j.Spec.ReplicaSpecs.Worker} {
		if r == nil {
			continue
		}
		if v, err := strconv.ParseBool(r.Template.Annotations[wellknown.AnnotationRides]); err == nil {
			override[group] = v
		}
	}
	return override
}

func (j mpiJob) finished() bool {
	for _, c := range j.Status.Conditions {
		if (c.Type == "Succeeded" || c.Type == "Failed") && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// MPIJobRole reads a pod's place in its MPIJob from the operator's labels. It
// reports false where they are missing.
func MPIJobRole(pod *corev1.Pod) (Role, bool) {
	role := Role{Group: pod.Labels[wellknown.LabelTrainingJobRole]}
	switch role.Group {
	case mpiLauncher:
		return role, true
	case mpiWorker:
		index, err := strconv.Atoi(pod.Labels[wellknown.LabelTrainingReplicaIndex])
		role.Index = index
		return role, err == nil
	}
	return Role{}, false
}
