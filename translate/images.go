package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Image is what an image means on the HPC nodes, where none is pulled: the
// program that stands in for its entrypoint.
type Image struct {
	// Name is the image's, as pods have it. Without a tag or digest it stands
	// for all of them. A name without a registry is Docker Hub's.
	Name string `json:"name"`
	// Entrypoint and Cmd are those of the image, as in its Dockerfile: a
	// container's command replaces both, its args replace Cmd.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
}

// Images are those that the site knows the meaning of.
type Images []Image

// argv is what a container runs, by the rule of container runtimes: its command
// or else the image's entrypoint, and its args or else, if it has no command
// either, the image's cmd. Words of the image are taken as they are; expand is
// for the container's own.
func (known Images) argv(c *corev1.Container, expand func(string) string) []string {
	var image Image
	// sshd as args needs no entrypoint, see sshworker.go.
	if len(c.Command) == 0 && sshdIn(c.Args) == "" {
		image, _ = known.find(c.Image)
	}
	argv := slices.Clone(image.Entrypoint)
	for _, word := range c.Command {
		argv = append(argv, expand(word))
	}
	if len(c.Args) == 0 {
		return append(argv, image.Cmd...)
	}
	for _, word := range c.Args {
		argv = append(argv, expand(word))
	}
	return argv
}

// lacksCommand tells that nobody knows what a container is to run.
func (known Images) lacksCommand(c corev1.Container) bool {
	if len(c.Command) > 0 || sshdIn(c.Args) != "" || beginsWithShell(c.Args) {
		return false
	}
	image, ok := known.find(c.Image)
	// Args alone are no program's name: an image's entrypoint reads them.
	return !ok || len(image.Entrypoint) == 0 && (len(c.Args) > 0 || len(image.Cmd) == 0)
}

// find returns the image's own entry, or that of its repository.
func (known Images) find(name string) (Image, bool) {
	full := canonicalImage(name)
	undigested, _, _ := strings.Cut(full, "@")
	for _, wanted := range []string{full, undigested, repositoryOf(undigested)} {
		for _, image := range known {
			if canonicalImage(image.Name) == wanted {
				return image, true
			}
		}
	}
	return Image{}, false
}

// canonicalImage gives a name its registry, as container runtimes do: "busybox"
// is docker.io/library/busybox. It is a comparison's form, so a tag that is not
// named is not made up.
func canonicalImage(name string) string {
	registry, rest, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		return "docker.io/library/" + name
	case strings.ContainsAny(registry, ".:") || registry == "localhost":
		if registry == "docker.io" && !strings.Contains(rest, "/") {
			return "docker.io/library/" + rest
		}
		return name
	}
	return "docker.io/" + name
}

// repositoryOf is an image's name without its tag.
func repositoryOf(name string) string {
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i]
	}
	return name
}

// withoutCommand finds the containers of which nobody knows what they are to
// run.
func withoutCommand(field string, pod *corev1.Pod, site Site) []use {
	if site.inImages() {
		return nil // its image says
	}
	return onContainers(site.Images.lacksCommand)(field, pod, site)
}
