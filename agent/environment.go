package agent

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// defaultPath is PATH where a pod sets none, as container runtimes have it.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// runDir is where a pod finds the agent's own files.
	runDir = "/run/gangline"
	// envDir tells a pod where they really are.
	envDir = "GANGLINE_DIR"
	// envContainer marks all processes of a container's run.
	envContainer = "GANGLINE_CONTAINER"
)

// hiddenDevices makes the common libraries see no GPU at all.
var hiddenDevices = map[string]string{
	"CUDA_VISIBLE_DEVICES":   "",
	"HIP_VISIBLE_DEVICES":    "",
	"ROCR_VISIBLE_DEVICES":   "",
	"NVIDIA_VISIBLE_DEVICES": "void",
}

// surroundings is what the node adds to a container's environment.
type surroundings struct {
	hostname, home, user string
	dir                  string // of the agent's own files
	container            string // the run's id
	devices              map[string]string
	hideDevices          bool
	// relocated maps paths that the pod was promised to where they are: empty
	// with a private root.
	relocated map[string]string
	// addresses maps the gang's names to addresses where they cannot be
	// resolved: empty with a private root.
	addresses map[string]string
}

// environment is the whole environment of a container: the pod's own, what every
// container has, and the workload manager's device variables. Nothing else of the
// agent's environment gets in.
func environment(pod []corev1.EnvVar, s surroundings) []string {
	values := map[string]string{"HOSTNAME": s.hostname, "HOME": s.home, "PATH": defaultPath}
	if s.user != "" {
		values["USER"] = s.user
	}
	devices := s.devices
	if s.hideDevices {
		devices = hiddenDevices
	}
	for name, value := range devices {
		values[name] = value
	}
	for _, e := range pod {
		values[e.Name] = relocate(e.Value, s.relocated)
		if slices.Contains(rendezvousVariables[:], e.Name) {
			values[e.Name] = resolveHost(values[e.Name], s.addresses)
		}
	}
	values["PATH"] = s.dir + "/bin:" + values["PATH"]
	values[envDir] = s.dir
	values[envContainer] = s.container
	env := make([]string, 0, len(values))
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// override replaces entries of an environment: where a name is given twice,
// programs do not agree on which one counts.
func override(env []string, entries ...string) []string {
	for _, e := range entries {
		name, _, _ := strings.Cut(e, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, e)
	}
	return env
}

// cookie is the environment entry of all processes of a run; see process.Sweep.
func cookie(container string) string { return envContainer + "=" + container }

// relocate replaces a value that is a promised path, or one below it.
func relocate(value string, relocated map[string]string) string {
	for promised, real := range relocated {
		if rest, ok := strings.CutPrefix(value, promised); ok && (rest == "" || rest[0] == '/') {
			return real + rest
		}
	}
	return value
}

// rendezvousVariables tell a framework's processes where to meet: torchrun,
// JAX, DeepSpeed, NCCL-style launchers.
var rendezvousVariables = [...]string{
	"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS",
}

// resolveHost replaces the host of "host" or "host:port".
func resolveHost(value string, addresses map[string]string) string {
	host, port, hasPort := strings.Cut(value, ":")
	address, ok := addresses[strings.ToLower(host)]
	switch {
	case !ok:
		return value
	case hasPort:
		return address + ":" + port
	}
	return address
}
