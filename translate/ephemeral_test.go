package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	. "github.com/gangline/gangline/translate/translatetest"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// debugged is a pod of two containers with an ephemeral one.
func debugged(e corev1.EphemeralContainer) *corev1.Pod {
	pod := MakePod("pi").Container("second").
		Volume("data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}).
		Volume("keys", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}).Obj()
	first, second := &pod.Spec.Containers[0], &pod.Spec.Containers[1]
	first.Env = []corev1.EnvVar{{Name: "COLOUR", Value: "blue"}, {Name: "SIZE", Value: "1"}}
	first.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "keys", MountPath: "/keys"}}
	first.WorkingDir = "/data"
	second.Env = []corev1.EnvVar{{Name: "COLOUR", Value: "red"}, {Name: "SHELL", Value: "/bin/zsh"}}
	e.Name = "debugger"
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{e}
	return pod
}

func all(string) bool { return true }

func valueOf(env []corev1.EnvVar, name string) string {
	value := ""
	for _, e := range env {
		if e.Name == name {
			value = e.Value
		}
	}
	return value
}

func TestEphemeralContainersHaveTheirTargetsSurroundings(t *testing.T) {
	for sentence, tc := range map[string]struct {
		container corev1.EphemeralContainer
		check     func(*testing.T, spool.ContainerOrders)
	}{
		"without a target, those of the first container": {
			corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Command: []string{"top"}, Stdin: true, TTY: true}},
			func(t *testing.T, o spool.ContainerOrders) {
				assert.Equal(t, []string{"top"}, o.Argv)
				assert.Equal(t, "blue", valueOf(o.Env, "COLOUR"))
				assert.Equal(t, "xterm", valueOf(o.Env, "TERM"))
				assert.Equal(t, "/data", o.WorkingDir)
				assert.Equal(t, []spool.Mount{
					{Volume: "data", Path: "/data"}, {Volume: "keys", Path: "/keys", ReadOnly: true},
				}, o.Mounts)
				assert.True(t, o.Stdin && o.TTY && !o.StdinOnce)
			},
		},
		"its own variables, mounts and directory come first": {
			corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Command: []string{"$(COLOUR)"}, WorkingDir: "/",
				Env:          []corev1.EnvVar{{Name: "COLOUR", Value: "dark $(COLOUR)"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "keys", MountPath: "/data"}},
			}},
			func(t *testing.T, o spool.ContainerOrders) {
				assert.Equal(t, []string{"dark blue"}, o.Argv)
				assert.Equal(t, "1", valueOf(o.Env, "SIZE"))
				assert.Equal(t, "/", o.WorkingDir)
				assert.ElementsMatch(t, []spool.Mount{
					{Volume: "keys", Path: "/data", ReadOnly: true}, {Volume: "keys", Path: "/keys", ReadOnly: true},
				}, o.Mounts)
			},
		},
		"without a command it is the shell of the environment": {
			corev1.EphemeralContainer{TargetContainerName: "second"},
			func(t *testing.T, o spool.ContainerOrders) {
				assert.Equal(t, []string{"/bin/zsh"}, o.Argv)
				assert.Equal(t, "red", valueOf(o.Env, "COLOUR"))
				assert.Empty(t, o.Mounts)
			},
		},
		"or the node's": {
			corev1.EphemeralContainer{},
			func(t *testing.T, o spool.ContainerOrders) { assert.Equal(t, []string{"/bin/sh"}, o.Argv) },
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			pod := debugged(tc.container)
			assert.Empty(t, RefusedEphemeral(pod))
			orders, waits, err := EphemeralOrders(pod, Inputs{PodIP: "10.0.0.1"}, all)
			require.NoError(t, err)
			assert.Empty(t, waits)
			require.Len(t, orders, 1)
			assert.Equal(t, "debugger", orders[0].Name)
			tc.check(t, orders[0])
		})
	}
}

func TestAnEphemeralContainerThatCannotStartWaits(t *testing.T) {
	for sentence, tc := range map[string]struct {
		container corev1.EphemeralContainer
		message   string
	}{
		"for a Secret that does not exist": {
			corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: []corev1.EnvFromSource{{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}},
			}}}},
			`secret "none" not found`,
		},
		"for a container that the pod does not have": {
			corev1.EphemeralContainer{TargetContainerName: "third"}, `unable to find target container "third"`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			orders, waits, err := EphemeralOrders(debugged(tc.container), Inputs{}, all)
			require.NoError(t, err)
			assert.Empty(t, orders)
			assert.Equal(t, wellknown.ReasonConfigError, waits["debugger"].Reason)
			assert.Contains(t, waits["debugger"].Message, tc.message)
		})
	}
	orders, waits, err := EphemeralOrders(debugged(corev1.EphemeralContainer{}), Inputs{}, func(string) bool { return false })
	require.NoError(t, err)
	assert.Empty(t, orders, "none that is not wanted")
	assert.Empty(t, waits)
}

func TestEphemeralReferencesAreNoVolumes(t *testing.T) {
	pod := debugged(corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}},
	}}}})
	refs := EphemeralReferences(pod)
	assert.Equal(t, []Ref{{Name: "settings"}}, refs.ConfigMaps)
	assert.Empty(t, refs.Secrets)
	assert.Len(t, pod.Spec.Containers, 2, "the pod itself is left alone")
}

func TestEphemeralContainersAreRefusedByTheTable(t *testing.T) {
	with := func(c corev1.SecurityContext) *corev1.Pod {
		return debugged(corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: &c}})
	}
	pod := with(corev1.SecurityContext{Privileged: ptr.To(true)})
	refused := RefusedEphemeral(pod)["debugger"]
	assert.Equal(t, "UnsupportedPrivileged", refused.Reason)
	assert.Equal(t, "spec.ephemeralContainers[0].securityContext.privileged", refused.Field)
	assert.Contains(t, refused.Message, "spec.ephemeralContainers[0].securityContext.privileged is not supported")

	add := func(names ...corev1.Capability) *corev1.Pod {
		return with(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: names}})
	}
	assert.Empty(t, RefusedEphemeral(add("SYS_PTRACE")), "what kubectl debug asks for by default")
	assert.Equal(t, "UnsupportedCapabilities", RefusedEphemeral(add("NET_ADMIN", "SYS_PTRACE"))["debugger"].Reason)

	pod.Status.Phase = corev1.PodRunning
	status := PodStatus(Observation{Pod: pod, Observed: &spool.PodStatus{}})
	require.Len(t, status.EphemeralContainerStatuses, 1)
	require.NotNil(t, status.EphemeralContainerStatuses[0].State.Waiting)
	assert.Equal(t, "UnsupportedPrivileged", status.EphemeralContainerStatuses[0].State.Waiting.Reason)
}

func TestStatusOfEphemeralContainers(t *testing.T) {
	running := corev1.ContainerStatus{Name: "debugger", ContainerID: "gangline://x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	for sentence, tc := range map[string]struct {
		observation Observation
		check       func(*testing.T, corev1.ContainerStatus)
	}{
		"it is created, whatever the pod waits for": {
			Observation{Waiting: Waiting{Reason: wellknown.ReasonQueued}},
			func(t *testing.T, s corev1.ContainerStatus) {
				assert.Equal(t, "ContainerCreating", s.State.Waiting.Reason)
			},
		},
		"it waits for what is missing": {
			Observation{Observed: &spool.PodStatus{}, Ephemeral: map[string]Waiting{"debugger": {Reason: "R", Message: "M"}}},
			func(t *testing.T, s corev1.ContainerStatus) {
				assert.Equal(t, &corev1.ContainerStateWaiting{Reason: "R", Message: "M"}, s.State.Waiting)
			},
		},
		"it runs as its agent says": {
			Observation{Observed: &spool.PodStatus{EphemeralContainers: []corev1.ContainerStatus{running}}},
			func(t *testing.T, s corev1.ContainerStatus) {
				assert.NotNil(t, s.State.Running)
				assert.Equal(t, "busybox", s.Image)
			},
		},
		"it ends with an allocation that ends": {
			Observation{Observed: &spool.PodStatus{EphemeralContainers: []corev1.ContainerStatus{running}}, Ended: &Ending{ExitCode: 137}},
			func(t *testing.T, s corev1.ContainerStatus) {
				require.NotNil(t, s.State.Terminated)
				assert.EqualValues(t, 137, s.State.Terminated.ExitCode)
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := tc.observation
			o.Pod = debugged(corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "busybox"}})
			statuses := PodStatus(o).EphemeralContainerStatuses
			require.Len(t, statuses, 1)
			assert.Equal(t, "debugger", statuses[0].Name)
			tc.check(t, statuses[0])
		})
	}
}
