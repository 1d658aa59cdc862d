package identity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gangline/gangline/translate"
)

// choice is a wish that an identity has a say in.
type choice struct {
	what, several string
	wish          func(*translate.Wishes) *string
	usual         string
	allowed       []string
}

func (id Identity) choices() []choice {
	return []choice{
		{"account", "accounts", func(w *translate.Wishes) *string { return &w.Account }, id.Account, id.Accounts},
		{"partition", "partitions", func(w *translate.Wishes) *string { return &w.Partition }, id.Partition, id.Partitions},
		{"qos", "qoses", func(w *translate.Wishes) *string { return &w.QOS }, id.QOS, id.QOSes},
	}
}

// Refuse says all that cannot be granted of a pod's wishes, and what can be asked for
// instead; empty if they can be granted. The identity is one that Match returned.
func (id Identity) Refuse(w translate.Wishes) string {
	var reasons []string
	for _, c := range id.choices() {
		if wish := *c.wish(&w); wish != "" && len(c.allowed) > 0 && !slices.Contains(c.allowed, wish) {
			reasons = append(reasons, fmt.Sprintf("the %s %s is not one of those that the pod's namespace and ServiceAccount may use: %s",
				c.what, wish, strings.Join(c.allowed, ", ")))
		}
	}
	if most := id.Limits.TimeLimit.Duration; most > 0 && w.TimeLimit > most {
		reasons = append(reasons, fmt.Sprintf("the time limit %s is above the %s that the pod's namespace and ServiceAccount may ask for", timeLimit(w), most))
	}
	return strings.Join(reasons, "; ")
}

func timeLimit(w translate.Wishes) string {
	if w.TimeLimit >= translate.NoTimeLimit {
		return "UNLIMITED"
	}
	return w.TimeLimit.String()
}

// Complete gives a gang's wishes what they leave open.
func (id Identity) Complete(w translate.Wishes) translate.Wishes {
	for _, c := range id.choices() {
		wish := c.wish(&w)
		*wish = cmp.Or(*wish, c.usual)
	}
	w.TimeLimit = cmp.Or(w.TimeLimit, id.Limits.TimeLimit.Duration)
	return w
}

// Exceeds says why a gang of so many pods and GPUs is too large; empty if it is not.
func (id Identity) Exceeds(pods, gpus int) string {
	for _, bound := range []struct {
		what      string
		has, most int
	}{{"pods", pods, id.Limits.Pods}, {"GPUs", gpus, id.Limits.GPUs}} {
		if bound.most > 0 && bound.has > bound.most {
			return fmt.Sprintf("its gang has %d %s, and the pod's namespace and ServiceAccount may have %d in one gang", bound.has, bound.what, bound.most)
		}
	}
	return ""
}
