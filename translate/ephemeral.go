package translate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// Ephemeral containers come to a pod that runs (kubectl debug). Here one is a
// process in the surroundings of the container that it looks at, or of the pod's
// first one: that one's environment and mounts, and its own besides.

// defaultShell runs in an ephemeral container that names no command, where the
// environment names no other as SHELL.
const defaultShell = "/bin/sh"

// EphemeralOrders makes the orders of those ephemeral containers of a pod that are
// wanted. For each that cannot be started yet it says why. Inputs need only what
// EphemeralReferences names; an error is none of the pod's.
func EphemeralOrders(pod *corev1.Pod, in Inputs, wanted func(name string) bool) ([]spool.ContainerOrders, map[string]Waiting, error) {
	r := &resolver{pod: pod, in: in, refs: References(pod)}
	services, err := r.serviceVars()
	if err != nil {
		return nil, nil, fmt.Errorf("making the orders of ephemeral containers of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.fallbacks = append(services, r.gangVars()...)
	r.volumes = r.laidOut()
	var orders []spool.ContainerOrders
	waits := map[string]Waiting{}
	for _, e := range pod.Spec.EphemeralContainers {
		if !wanted(e.Name) {
			continue
		}
		o, err := r.ephemeral(e)
		if err != nil {
			waits[e.Name] = Waiting{Reason: wellknown.ReasonConfigError, Message: err.Error()}
			continue
		}
		orders = append(orders, o)
	}
	return orders, waits, nil
}

// laidOut are the volumes that the pod's agent has. Only what kind they are
// matters here; what is in them is the agent's by now.
func (r *resolver) laidOut() []spool.Volume {
	var volumes []spool.Volume
	for _, v := range mountedVolumes(r.pod) {
		made, err := r.volume(v)
		if err != nil {
			made = spool.Volume{Name: v.Name} // of files, one of which is missing now
		}
		volumes = append(volumes, made)
	}
	if own, ok := r.mpiVolume(); ok {
		volumes = append(volumes, own)
	}
	return volumes
}

func (r *resolver) ephemeral(e corev1.EphemeralContainer) (spool.ContainerOrders, error) {
	target, err := targetOf(r.pod, e)
	if err != nil {
		return spool.ContainerOrders{}, err
	}
	c := surrounded(e, target)
	o, err := r.container(&c)
	if err != nil {
		return o, err
	}
	if len(o.Argv) == 0 && o.InImage == nil {
		shell := defaultShell
		for _, v := range o.Env {
			if v.Name == "SHELL" {
				shell = cmp.Or(v.Value, shell)
			}
		}
		o.Argv = []string{shell}
	}
	return o, nil
}

// EphemeralReferences lists what the environments of a pod's ephemeral containers
// name. Volumes are the agent's by now.
func EphemeralReferences(pod *corev1.Pod) Refs {
	only := pod.DeepCopy()
	only.Spec.InitContainers, only.Spec.Containers = nil, nil
	for _, e := range pod.Spec.EphemeralContainers {
		if target, err := targetOf(pod, e); err == nil {
			c := surrounded(e, target)
			c.VolumeMounts = nil
			only.Spec.Containers = append(only.Spec.Containers, c)
		}
	}
	return References(only)
}

// targetOf is the container in whose surroundings an ephemeral one runs.
func targetOf(pod *corev1.Pod, e corev1.EphemeralContainer) (corev1.Container, error) {
	all := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
	if len(all) == 0 {
		return corev1.Container{}, errors.New("the pod has no containers")
	}
	if e.TargetContainerName == "" {
		return all[0], nil
	}
	i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == e.TargetContainerName })
	if i < 0 {
		return corev1.Container{}, fmt.Errorf("unable to find target container %q", e.TargetContainerName)
	}
	return all[i], nil
}

// surrounded is an ephemeral container with what it finds around itself. Its own
// variables and mounts come before its target's; the resources are those that its
// target's variables may name.
func surrounded(e corev1.EphemeralContainer, target corev1.Container) corev1.Container {
	c := asContainer(e)
	c.EnvFrom = slices.Concat(target.EnvFrom, c.EnvFrom)
	c.Env = slices.Concat(target.Env, c.Env)
	c.WorkingDir = cmp.Or(c.WorkingDir, target.WorkingDir)
	c.Resources = target.Resources
	for _, m := range target.VolumeMounts {
		if !slices.ContainsFunc(c.VolumeMounts, func(own corev1.VolumeMount) bool { return own.MountPath == m.MountPath }) {
			c.VolumeMounts = append(c.VolumeMounts, m)
		}
	}
	return c
}

func asContainer(e corev1.EphemeralContainer) corev1.Container {
	return corev1.Container(*e.EphemeralContainerCommon.DeepCopy())
}

// RefusedEphemeral are the ephemeral containers that ask for what no container here
// can have, by the same table as Admit. The pod runs on without them.
func RefusedEphemeral(pod *corev1.Pod) map[string]Rejection {
	refused := map[string]Rejection{}
	for i, e := range pod.Spec.EphemeralContainers {
		c := asContainer(e)
		if len(c.Command) == 0 {
			c.Command = []string{defaultShell}
		}
		r := Admit(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}, Site{})
		if r == nil {
			continue
		}
		own := fmt.Sprintf("spec.ephemeralContainers[%d]", i)
		r.Field = strings.ReplaceAll(r.Field, "spec.containers[0]", own)
		r.Message = strings.ReplaceAll(r.Message, "spec.containers[0]", own)
		refused[e.Name] = *r
	}
	return refused
}

// ephemeralStatuses are the statuses of the ephemeral containers: the agent's where
// it has one, otherwise why they have not started.
func ephemeralStatuses(o Observation) []corev1.ContainerStatus {
	if len(o.Pod.Spec.EphemeralContainers) == 0 {
		return nil
	}
	var specs []corev1.Container
	for _, e := range o.Pod.Spec.EphemeralContainers {
		specs = append(specs, asContainer(e))
	}
	var observed []corev1.ContainerStatus
	if o.Observed != nil {
		observed = o.Observed.EphemeralContainers
	}
	refused := RefusedEphemeral(o.Pod)
	started := o
	started.Waiting = Waiting{Reason: wellknown.ReasonContainerCreating}
	statuses := containerStatuses(started, specs, o.Pod.Status.EphemeralContainerStatuses, observed)
	for i := range statuses {
		s := &statuses[i]
		w, waits := o.Ephemeral[s.Name]
		if r, ok := refused[s.Name]; ok {
			w, waits = Waiting{Reason: r.Reason, Message: r.Message}, true
		}
		if waits && s.State.Waiting != nil {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: w.Reason, Message: w.Message}
		}
		if o.Ended != nil && s.State.Running != nil {
			endContainer(s, *o.Ended, o.Now)
		}
	}
	return statuses
}
