// Package translatetest builds pods for tests:
//
//	MakePod("pi").Command("sleep", "1").Env("A", "1").Obj()
//
// It is for tests alone; nothing else may import it.
package translatetest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodBuilder builds a pod. What concerns a container goes to the one that was
// added last; a new pod has one of the name "main".
type PodBuilder struct {
	pod  *corev1.Pod
	last *corev1.Container
}

// MakePod starts a pod in the namespace "default" with one container, "main",
// that runs "true".
func MakePod(name string) *PodBuilder {
	b := &PodBuilder{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID(name + "-uid"),
	}}}
	return b.Container("main").Command("true")
}

// Obj returns the pod.
func (b *PodBuilder) Obj() *corev1.Pod { return b.pod.DeepCopy() }

// Namespace moves the pod.
func (b *PodBuilder) Namespace(ns string) *PodBuilder {
	b.pod.Namespace = ns
	return b
}

// Annotation sets an annotation.
func (b *PodBuilder) Annotation(name, value string) *PodBuilder {
	metav1.SetMetaDataAnnotation(&b.pod.ObjectMeta, name, value)
	return b
}

// Label sets a label.
func (b *PodBuilder) Label(name, value string) *PodBuilder {
	metav1.SetMetaDataLabel(&b.pod.ObjectMeta, name, value)
	return b
}

// Spec changes the pod's spec.
func (b *PodBuilder) Spec(change func(*corev1.PodSpec)) *PodBuilder {
	change(&b.pod.Spec)
	return b
}

// Container adds a container.
func (b *PodBuilder) Container(name string) *PodBuilder {
	b.pod.Spec.Containers = append(b.pod.Spec.Containers, corev1.Container{Name: name})
	b.last = &b.pod.Spec.Containers[len(b.pod.Spec.Containers)-1]
	return b
}

// InitContainer adds an init container.
func (b *PodBuilder) InitContainer(name string) *PodBuilder {
	b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers, corev1.Container{Name: name})
	b.last = &b.pod.Spec.InitContainers[len(b.pod.Spec.InitContainers)-1]
	return b
}

// Sidecar adds an init container that always restarts.
func (b *PodBuilder) Sidecar(name string) *PodBuilder {
	b.InitContainer(name)
	always := corev1.ContainerRestartPolicyAlways
	b.last.RestartPolicy = &always
	return b
}

// With changes the container.
func (b *PodBuilder) With(change func(*corev1.Container)) *PodBuilder {
	change(b.last)
	return b
}

// Command sets the container's command.
func (b *PodBuilder) Command(words ...string) *PodBuilder {
	b.last.Command = words
	return b
}

// Args sets the container's args.
func (b *PodBuilder) Args(words ...string) *PodBuilder {
	b.last.Args = words
	return b
}

// Env adds a variable to the container.
func (b *PodBuilder) Env(name, value string) *PodBuilder {
	b.last.Env = append(b.last.Env, corev1.EnvVar{Name: name, Value: value})
	return b
}

// EnvFrom adds a variable with a source to the container.
func (b *PodBuilder) EnvFrom(name string, source corev1.EnvVarSource) *PodBuilder {
	b.last.Env = append(b.last.Env, corev1.EnvVar{Name: name, ValueFrom: &source})
	return b
}

// EnvAll adds a source of variables to the container.
func (b *PodBuilder) EnvAll(source corev1.EnvFromSource) *PodBuilder {
	b.last.EnvFrom = append(b.last.EnvFrom, source)
	return b
}

// Request sets a request of the container.
func (b *PodBuilder) Request(name corev1.ResourceName, quantity string) *PodBuilder {
	set(&b.last.Resources.Requests, name, quantity)
	return b
}

// Limit sets a limit of the container.
func (b *PodBuilder) Limit(name corev1.ResourceName, quantity string) *PodBuilder {
	set(&b.last.Resources.Limits, name, quantity)
	return b
}

// Volume adds a volume to the pod.
func (b *PodBuilder) Volume(name string, source corev1.VolumeSource) *PodBuilder {
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	return b
}

// Mount mounts a volume into the container.
func (b *PodBuilder) Mount(volume, path string) *PodBuilder {
	return b.MountAs(corev1.VolumeMount{Name: volume, MountPath: path})
}

// MountAs adds a mount to the container.
func (b *PodBuilder) MountAs(m corev1.VolumeMount) *PodBuilder {
	b.last.VolumeMounts = append(b.last.VolumeMounts, m)
	return b
}

func set(list *corev1.ResourceList, name corev1.ResourceName, quantity string) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = resource.MustParse(quantity)
}
