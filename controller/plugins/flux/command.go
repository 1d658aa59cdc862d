package flux

import (
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

const (
	configDir  = "/etc/flux-config"
	entrypoint = "entrypoint.sh"
	initScript = "init.sh"
	podScript  = "pod.lua"
	// verbatim announces to entrypoint.sh that each of the arguments behind it
	// is a word.
	verbatim = "--"
)

// invocation is how the container runs its command inside Flux.
type invocation struct {
	// command replaces the container's.
	command []string
	// arguments is the number of arguments that entrypoint.sh has to heed,
	// together with the container's args that stay.
	arguments int
}

// wrap takes the TrainJob's command and args or, as far as it has none, the
// container's.
//
// Kubeflow joins all words by blanks. So do we if the words can be told apart
// again; all others stay words of their own, and no shell gets to see any. The
// container's args stay where they are, for Kubernetes to append, also if the
// TrainJob has some: Kubeflow runs the command with both then.
func wrap(c *corev1.Container, trainer *v1alpha1.Trainer) invocation {
	words, rest := slices.Clone(c.Command), len(c.Args)
	if trainer != nil && trainer.Command != nil {
		words = slices.Clone(trainer.Command)
	}
	if trainer != nil && trainer.Args != nil {
		words, rest = append(words, trainer.Args...), 0
	}
	wrapped := []string{"/bin/bash", configDir + "/" + entrypoint}
	if joined := strings.Join(words, " "); canJoin(words) {
		wrapped = append(wrapped, joined)
	} else {
		wrapped = append(append(wrapped, verbatim), words...)
	}
	return invocation{command: wrapped, arguments: len(wrapped) - 2 + rest}
}

// canJoin tells whether words that are joined by blanks are the same words when
// split at blanks, also after Kubernetes has put variables' values for "$(NAME)",
// and are no option of entrypoint.sh's.
func canJoin(words []string) bool {
	for _, word := range words {
		if word == "" || strings.ContainsFunc(word, unicode.IsSpace) || strings.Contains(word, "$(") {
			return false
		}
	}
	return len(words) == 0 || !strings.HasPrefix(words[0], "--")
}
