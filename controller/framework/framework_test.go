package framework_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/controller/framework"
)

func TestUpsertReplacesInPlaceAndAppends(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "1"}}
	framework.UpsertEnv(&env, corev1.EnvVar{Name: "C", Value: "2"}, corev1.EnvVar{Name: "A", Value: "2"})
	assert.Equal(t, []corev1.EnvVar{{Name: "A", Value: "2"}, {Name: "B", Value: "1"}, {Name: "C", Value: "2"}}, env)

	mounts := []corev1.VolumeMount{{Name: "x", MountPath: "/data"}}
	framework.UpsertVolumeMounts(&mounts, corev1.VolumeMount{Name: "y", MountPath: "/data"}, corev1.VolumeMount{Name: "y", MountPath: "/more"})
	assert.Equal(t, []corev1.VolumeMount{{Name: "y", MountPath: "/data"}, {Name: "y", MountPath: "/more"}}, mounts)
}

func TestUpsertPorts(t *testing.T) {
	cases := map[string]struct{ have, add, want []corev1.ContainerPort }{
		"a port of the same number is replaced": {
			have: []corev1.ContainerPort{{Name: "a", ContainerPort: 1}},
			add:  []corev1.ContainerPort{{Name: "b", ContainerPort: 1}},
			want: []corev1.ContainerPort{{Name: "b", ContainerPort: 1}},
		},
		"a port of the same name is replaced": {
			have: []corev1.ContainerPort{{Name: "a", ContainerPort: 1}},
			add:  []corev1.ContainerPort{{Name: "a", ContainerPort: 2}},
			want: []corev1.ContainerPort{{Name: "a", ContainerPort: 2}},
		},
		"the first port without a name is replaced by one without": {
			have: []corev1.ContainerPort{{Name: "a", ContainerPort: 1}, {ContainerPort: 2}},
			add:  []corev1.ContainerPort{{ContainerPort: 3}},
			want: []corev1.ContainerPort{{Name: "a", ContainerPort: 1}, {ContainerPort: 3}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			framework.UpsertPorts(&c.have, c.add...)
			assert.Equal(t, c.want, c.have)
		})
	}
}

func TestGPUs(t *testing.T) {
	one := func(name corev1.ResourceName, n string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(n), corev1.ResourceCPU: resource.MustParse("64")}
	}
	cases := map[string]struct {
		given corev1.ResourceRequirements
		want  int
	}{
		"none":                          {corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}, 0},
		"by limits":                     {corev1.ResourceRequirements{Limits: one("nvidia.com/gpu", "8")}, 8},
		"by requests, which come first": {corev1.ResourceRequirements{Limits: one("nvidia.com/gpu", "8"), Requests: one("amd.com/gpu", "4")}, 4},
		"whatever the case":             {corev1.ResourceRequirements{Limits: one("example.com/BigGPU", "2")}, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, framework.GPUs(c.given)) })
	}
}
