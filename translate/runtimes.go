package translate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// RuntimeHost is the runtime of pods whose containers are programs of the HPC node: no
// image is pulled.
const RuntimeHost = "host"

// containerRuntime is what admission has to know of a container runtime. How they are called is
// agent/container's.
type containerRuntime struct {
	name string
	// anyUser tells that a process can be any user in the image (and the HPC user on the
	// host); otherwise it can be root or itself.
	anyUser bool
}

func containerRuntimes() []containerRuntime {
	return []containerRuntime{
		{name: "bubblewrap", anyUser: true},
		{name: "charliecloud", anyUser: true},
		{name: "podman"},
		{name: "apptainer"},
		{name: "singularity"},
		{name: "enroot"},
	}
}

// RuntimeNames are all runtimes that pods and sites can name.
func RuntimeNames() []string {
	names := []string{RuntimeHost}
	for _, r := range containerRuntimes() {
		names = append(names, r.name)
	}
	return names
}

// OnHost tells that a pod wants no images, whatever runtime the site or its owner has chosen:
// all of its containers name wellknown.ImageHost.
func OnHost(pod *corev1.Pod) bool {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Image != wellknown.ImageHost {
			return false
		}
	}
	return true
}

// Runtimes are what a site offers.
type Runtimes struct {
	// Default is that of pods which name none; empty for RuntimeHost.
	Default string
	// Allowed are those that pods may name; nil where that is not known.
	Allowed []string
	// Orders is what an agent is told of each, but for the pod's own.
	Orders map[string]spool.Runtime
}

// inImages tells that the pod's containers run in their images.
func (s Site) inImages() bool { return s.Runtime != "" && s.Runtime != RuntimeHost }

// mapsAnyUser tells that a process can be any user in the pod's images.
func (s Site) mapsAnyUser() bool {
	return slices.ContainsFunc(containerRuntimes(), func(r containerRuntime) bool { return r.name == s.Runtime && r.anyUser })
}

// onHost limits a finder to pods that are programs of the HPC node, inImage to those that
// run in images.
func onHost(f finder) finder {
	return func(field string, pod *corev1.Pod, site Site) []use {
		if site.inImages() {
			return nil
		}
		return f(field, pod, site)
	}
}

func inImage(f finder) finder {
	return func(field string, pod *corev1.Pod, site Site) []use {
		if !site.inImages() {
			return nil
		}
		return f(field, pod, site)
	}
}

// withRootOnly limits a finder to pods whose runtime knows two users only.
func withRootOnly(f finder) finder {
	return inImage(func(field string, pod *corev1.Pod, site Site) []use {
		if site.mapsAnyUser() {
			return nil
		}
		return f(field, pod, site)
	})
}

func readRuntime(w *Wishes, v string) error {
	w.Runtime = v
	if !slices.Contains(RuntimeNames(), v) {
		return fmt.Errorf("write one of %s", strings.Join(RuntimeNames(), ", "))
	}
	return nil
}

func offeredRuntime(w Wishes, o Offer, name string) *Rejection {
	if o.Runtimes == nil || slices.Contains(o.Runtimes, w.Runtime) {
		return nil
	}
	return &Rejection{
		Reason:  wellknown.ReasonNotAllowed,
		Field:   annotationField(name),
		Message: fmt.Sprintf("The site does not offer the runtime %q. Ask for one of these: %s.", w.Runtime, listed(o.Runtimes)),
	}
}

// PullSecrets are the Secrets that a pod's images are pulled with, where they are pulled. As
// with kubelet, the pod can do without those that are missing.
func PullSecrets(pod *corev1.Pod, site Site) []Ref {
	if !site.inImages() {
		return nil
	}
	names := refSet{}
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name != "" {
			names.add(ref.Name, ptr.To(true))
		}
	}
	return names.sorted()
}

// pullKeys are the keys of Secrets for registries, by their type.
var pullKeys = map[corev1.SecretType]string{
	corev1.SecretTypeDockerConfigJson: corev1.DockerConfigJsonKey,
	corev1.SecretTypeDockercfg:        corev1.DockerConfigKey,
}

// runtimeOrders is what the agent is told of the pod's runtime, nil without one.
func (r *resolver) runtimeOrders() (*spool.Runtime, error) {
	site := r.in.Site
	if !site.inImages() {
		return nil, nil
	}
	orders, known := site.Runtimes.Orders[site.Runtime]
	if !known {
		return nil, missing("the site does not offer the container runtime %q any more", site.Runtime)
	}
	for _, ref := range PullSecrets(r.pod, site) {
		secret := r.in.Secrets[ref.Name]
		if secret == nil {
			continue
		}
		if data := secret.Data[pullKeys[secret.Type]]; len(data) > 0 {
			orders.PullSecrets = append(orders.PullSecrets, data)
		}
	}
	return &orders, nil
}

// inImage is what a container is told that runs in its image, nil for one that does not.
func (r *resolver) inImage(c *corev1.Container, expand func(string) string) *spool.InImage {
	if !r.in.Site.inImages() {
		return nil
	}
	o := &spool.InImage{PullPolicy: c.ImagePullPolicy}
	for _, word := range c.Command {
		o.Command = append(o.Command, expand(word))
	}
	for _, word := range c.Args {
		o.Args = append(o.Args, expand(word))
	}
	if pod := r.pod.Spec.SecurityContext; pod != nil {
		o.User, o.Group = pod.RunAsUser, pod.RunAsGroup
	}
	if own := c.SecurityContext; own != nil {
		if own.RunAsUser != nil {
			o.User = own.RunAsUser
		}
		if own.RunAsGroup != nil {
			o.Group = own.RunAsGroup
		}
		o.ReadOnly = ptr.Deref(own.ReadOnlyRootFilesystem, false)
	}
	return o
}
