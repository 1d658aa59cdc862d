package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// inImages is a site whose pods run in images by a runtime.
func inImages(runtime string) Site {
	return Site{Runtime: runtime, Runtimes: Runtimes{Default: RuntimeHost, Orders: map[string]spool.Runtime{
		runtime: {Name: runtime, Images: spool.ImageStore{Dir: "/store"}},
	}}}
}

func podOf(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "team/tool:1"}}},
	}
	change(p)
	return p
}

func TestAdmissionInImages(t *testing.T) {
	asUser := func(id int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To(id)}
		}
	}
	for sentence, tc := range map[string]struct {
		runtime string
		change  func(*corev1.Pod)
		reason  string // of the rejection; empty for none
		warned  bool
	}{
		"an image may say what runs":            {"charliecloud", func(*corev1.Pod) {}, "", false},
		"without an image somebody must":        {RuntimeHost, func(*corev1.Pod) {}, wellknown.ReasonNoCommand, false},
		"a working directory below the image's": {"podman", func(p *corev1.Pod) { p.Spec.Containers[0].WorkingDir = "src" }, "", false},
		"root, as the image sees it":            {"apptainer", asUser(0), "", false},
		"another user, where the runtime can":   {"bubblewrap", asUser(1000), "", false},
		"another user, where it cannot":         {"enroot", asUser(1000), "UnsupportedRunAsUser", false},
		"an image that is only read": {"podman", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
		}, "", false},
		"another group, where the runtime has two users": {"podman", func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsGroup: ptr.To[int64](5)} }, "", true},
	} {
		t.Run(sentence, func(t *testing.T) {
			site := inImages(tc.runtime)
			pod := podOf(tc.change)
			r := Admit(pod, site)
			if tc.reason != "" {
				require.NotNil(t, r)
				assert.Equal(t, tc.reason, r.Reason)
				return
			}
			assert.Nil(t, r)
			assert.Equal(t, tc.warned, len(Warnings(pod, site)) > 0)
		})
	}
}

func TestOrdersInImages(t *testing.T) {
	pod := podOf(func(p *corev1.Pod) {
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "new"}, {Name: "old"}, {Name: "absent"}}
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](5), RunAsGroup: ptr.To[int64](6)}
		c := &p.Spec.Containers[0]
		c.ImagePullPolicy = corev1.PullAlways
		c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
		c.Args = []string{"--a=$(A)"}
		c.SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0), ReadOnlyRootFilesystem: ptr.To(true)}
	})
	site := inImages("bubblewrap")
	assert.Equal(t, []Ref{{"absent", true}, {"new", true}, {"old", true}}, PullSecrets(pod, site))
	assert.Empty(t, PullSecrets(pod, Site{}), "no image is pulled")
	orders, err := Orders(pod, Inputs{Site: site, Secrets: map[string]*corev1.Secret{
		"new": {Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")}},
		"old": {Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte("{ }")}},
	}})
	require.NoError(t, err)
	assert.Equal(t, &spool.Runtime{
		Name: "bubblewrap", Images: spool.ImageStore{Dir: "/store"}, PullSecrets: [][]byte{[]byte("{}"), []byte("{ }")},
	}, orders.Runtime)
	assert.Empty(t, site.Runtimes.Orders["bubblewrap"].PullSecrets, "they are the pod's alone")
	c := orders.Containers[0]
	assert.Empty(t, c.Argv)
	assert.Equal(t, &spool.InImage{
		PullPolicy: corev1.PullAlways, Args: []string{"--a=1"}, User: ptr.To[int64](0), Group: ptr.To[int64](6), ReadOnly: true,
	}, c.InImage)

	_, err = Orders(pod, Inputs{Site: Site{Runtime: "podman"}})
	assert.ErrorContains(t, err, "does not offer the container runtime \"podman\" any more")
}

func TestWishesForARuntime(t *testing.T) {
	offer := Offer{Runtimes: []string{RuntimeHost, "podman"}}
	ask := func(pod, owner string) (Wishes, *Rejection) {
		return ParseWishes(map[string]string{wellknown.AnnotationRuntime: pod}, map[string]string{wellknown.AnnotationRuntime: owner}, offer)
	}
	w, r := ask("", "podman")
	assert.Nil(t, r)
	assert.Equal(t, "podman", w.Runtime)
	w, r = ask(RuntimeHost, "podman")
	assert.Nil(t, r)
	assert.Equal(t, RuntimeHost, w.Runtime, "the pod's own comes first")
	_, r = ask("enroot", "")
	require.NotNil(t, r)
	assert.Equal(t, wellknown.ReasonNotAllowed, r.Reason)
	_, r = ask("docker", "")
	require.NotNil(t, r)
	assert.Equal(t, wellknown.ReasonBadAnnotation, r.Reason)
	merged, conflict := Wishes{Runtime: "podman"}.Merge(Wishes{Runtime: RuntimeHost})
	assert.Empty(t, conflict, "pods of a gang may differ")
	assert.Equal(t, "podman", merged.Runtime)
}

func TestPodsOnTheHost(t *testing.T) {
	pod := func(init string, images ...string) *corev1.Pod {
		p := &corev1.Pod{}
		if init != "" {
			p.Spec.InitContainers = []corev1.Container{{Image: init}}
		}
		for _, image := range images {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: image})
		}
		return p
	}
	assert.True(t, OnHost(pod("", "host")))
	assert.True(t, OnHost(pod("host", "host", "host")))
	assert.False(t, OnHost(pod("", "host", "pytorch")))
	assert.False(t, OnHost(pod("busybox", "host")))
}
