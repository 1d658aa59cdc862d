package flux

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// settings are what users choose by variables of the training container.
type settings struct {
	// viewImage has Flux, built for the training image's operating system.
	viewImage string
	// device is the network device that the brokers listen on.
	device string
	// queuePolicy is Fluxion's.
	queuePolicy string
}

// plain is what a device or a policy looks like; it needs no quoting anywhere.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.:@*-]+$`)

// settingsOf reads the container's variables, then the TrainJob's. A variable
// that is empty, or whose value stands elsewhere, is none. HPC nodes' devices have
// many names, so the brokers listen on all of them there.
func settingsOf(c *corev1.Container, trainer *v1alpha1.Trainer, native bool) (settings, error) {
	s := settings{
		viewImage:   "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
		device:      "eth0",
		queuePolicy: "fcfs",
	}
	if native {
		s.device = "*"
	}
	fields := map[string]*string{
		"FLUX_VIEW_IMAGE":     &s.viewImage,
		"FLUX_NETWORK_DEVICE": &s.device,
		"FLUX_QUEUE_POLICY":   &s.queuePolicy,
	}
	env := slices.Clone(c.Env)
	if trainer != nil {
		env = append(env, trainer.Env...)
	}
	for _, v := range env {
		if field := fields[v.Name]; field != nil && v.Value != "" {
			*field = v.Value
		}
	}
	for _, name := range []string{"FLUX_NETWORK_DEVICE", "FLUX_QUEUE_POLICY"} {
		if value := *fields[name]; !plain.MatchString(value) {
			return settings{}, fmt.Errorf("%s is %q: it may have letters, digits and _.:@*- only", name, value)
		}
	}
	return s, nil
}
