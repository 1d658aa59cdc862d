package translate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	. "github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

func words(line string) []string { return strings.Fields(line) }

func siteImages() Images {
	return Images{
		{Name: "solver", Entrypoint: words("/opt/solver/bin/run $(A)"), Cmd: words("--help")},
		{Name: "solver:2", Entrypoint: words("/opt/solver2/bin/run")},
		{Name: "registry.example.com:5000/team/tool", Entrypoint: words("tool")},
		{Name: "docker.io/library/busybox", Cmd: words("sh -c true")},
	}
}

func TestCommandOfAnImage(t *testing.T) {
	const digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, tc := range map[string]struct {
		image, command, args string
		want                 string // empty: nobody knows
	}{
		"neither: the image's both":                       {"solver", "", "", "/opt/solver/bin/run $(A) --help"},
		"any tag of it":                                   {"solver:1.2", "", "", "/opt/solver/bin/run $(A) --help"},
		"any digest of it":                                {"solver" + digest, "", "", "/opt/solver/bin/run $(A) --help"},
		"a tag of its own":                                {"solver:2", "", "", "/opt/solver2/bin/run"},
		"that tag, with a digest":                         {"solver:2" + digest, "", "", "/opt/solver2/bin/run"},
		"args replace cmd, and are expanded":              {"solver", "", "-n $(A)", "/opt/solver/bin/run $(A) -n a"},
		"a command replaces both":                         {"solver", "mine $(A)", "", "mine a"},
		"a command with args":                             {"solver", "mine", "-x", "mine -x"},
		"Docker Hub's full name":                          {"docker.io/library/solver", "", "", "/opt/solver/bin/run $(A) --help"},
		"a short name of what is written out":             {"busybox:1", "", "", "sh -c true"},
		"a registry with a port":                          {"registry.example.com:5000/team/tool:v1", "", "-v", "tool -v"},
		"another registry's of the same name":             {"example.com/solver", "", "", ""},
		"an unknown one":                                  {"other", "", "", ""},
		"args for an image that has only a cmd":           {"busybox", "", "-x", ""},
		"an unknown one with a command":                   {"other", "true", "", "true"},
		"sshd as args, as Kubeflow's workers have it":     {"other", "", "/usr/sbin/sshd -D", "/usr/sbin/sshd -D"},
		"sshd as args, with an image that has entrypoint": {"solver", "", "/usr/sbin/sshd -D", "/usr/sbin/sshd -D"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := MakePod("p").With(func(c *corev1.Container) {
				c.Image, c.Command, c.Args = tc.image, words(tc.command), words(tc.args)
				c.Env = []corev1.EnvVar{{Name: "A", Value: "a"}}
			}).Obj()
			rejection := Admit(pod, Site{Images: siteImages()})
			if tc.want == "" {
				if assert.NotNil(t, rejection) {
					assert.Equal(t, wellknown.ReasonNoCommand, rejection.Reason)
				}
				return
			}
			assert.Nil(t, rejection)
			orders, err := Orders(pod, Inputs{Site: Site{Images: siteImages()}})
			assert.NoError(t, err)
			assert.Equal(t, words(tc.want), orders.Containers[0].Argv)
		})
	}
}
