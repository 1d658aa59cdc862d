package container_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate"
)

// TestCommands shows what each runtime is told, one word a line.
func TestCommands(t *testing.T) {
	plain := container.Process{
		Image: "/store/pytorch", Twin: "/store/twin", Init: "/run/gangline/gangline-init", ID: "u-main-0-1", State: "/dev/shm/g/podman", UID: 1001, GID: 1002,
		Mounts: []container.Mount{
			{Source: "/dev/shm/g/run", Target: "/run/gangline", ReadOnly: true},
			{Source: "/lustre/a, b", Target: "/data"},
		},
	}
	all := plain
	all.Program, all.Options = "/opt/runtime/bin/it", []string{"--option", "value"}
	all.User, all.Group = ptr.To(int64(0)), ptr.To(int64(0))
	all.ReadOnly, all.GPUs = true, container.NVIDIA
	for _, name := range container.Names() {
		t.Run(name, func(t *testing.T) {
			r, found := container.Find(name)
			require.True(t, found)
			var text strings.Builder
			show := func(title string, words []string) {
				text.WriteString("# " + title + "\n" + strings.Join(words, "\n") + "\n\n")
			}
			show("a plain process", r.Command(plain))
			show("root, read-only, with GPUs, as the site has it", r.Command(all))
			if r.Variables != nil {
				show("its variables", r.Variables(plain))
			}
			show("a test", r.Test(name))
			golden.Equal(t, filepath.Join("testdata", name+".txt"), text.String())
		})
	}
}

func TestARuntimeThatThereIsNot(t *testing.T) {
	_, found := container.Find("docker")
	assert.False(t, found)
}

func TestAdmissionKnowsTheSameRuntimes(t *testing.T) {
	assert.ElementsMatch(t, append(container.Names(), translate.RuntimeHost), translate.RuntimeNames())
}

func TestAdmissionKnowsWhichRuntimesTakeAnyUser(t *testing.T) {
	const user = 12345
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:      []corev1.Container{{Name: "main", Image: "app:1", Command: []string{"app"}}},
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](user)},
	}}
	for _, name := range container.Names() {
		r, _ := container.Find(name)
		words := strings.Join(r.Command(container.Process{Image: "/i", Init: "/init", User: ptr.To[int64](user)}), " ")
		refusal := translate.Admit(pod, translate.Site{Runtime: name})
		assert.Equal(t, strings.Contains(words, strconv.Itoa(user)), refusal == nil, "%s: %v", name, refusal)
	}
}
