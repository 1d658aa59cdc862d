package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The order of lists is part of the result, so each of these replaces an equal
// element where it stands and appends a new one.

// UpsertEnv sets variables by name.
func UpsertEnv(env *[]corev1.EnvVar, vars ...corev1.EnvVar) {
	upsert(env, vars, func(a, b corev1.EnvVar) bool { return a.Name == b.Name })
}

// UpsertVolumes sets volumes by name.
func UpsertVolumes(volumes *[]corev1.Volume, more ...corev1.Volume) {
	upsert(volumes, more, func(a, b corev1.Volume) bool { return a.Name == b.Name })
}

// UpsertVolumeMounts sets mounts by their path.
func UpsertVolumeMounts(mounts *[]corev1.VolumeMount, more ...corev1.VolumeMount) {
	upsert(mounts, more, func(a, b corev1.VolumeMount) bool { return a.MountPath == b.MountPath })
}

// UpsertPorts sets ports: those of the same number or of the same name are the
// same port, and all ports without a name have the same name, as Kubeflow has it.
func UpsertPorts(ports *[]corev1.ContainerPort, more ...corev1.ContainerPort) {
	upsert(ports, more, func(a, b corev1.ContainerPort) bool {
		return a.ContainerPort == b.ContainerPort || a.Name == b.Name
	})
}

func upsert[T any](list *[]T, more []T, same func(a, b T) bool) {
	for _, element := range more {
		if i := slices.IndexFunc(*list, func(e T) bool { return same(e, element) }); i >= 0 {
			(*list)[i] = element
			continue
		}
		*list = append(*list, element)
	}
}
