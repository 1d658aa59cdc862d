package agent

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/device"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/translate/rendezvous"
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

// surroundings is what the node adds to a container's environment.
type surroundings struct {
	hostname, home, user string
	dir                  string // of the agent's own files
	container            string // the run's id
	devices              device.Binding
	image                []string        // the image's variables
	site                 []corev1.EnvVar // the site's variables, complete
	// apart tells that pods of the gang share the node, each in a user namespace of
	// its own.
	apart bool
	// relocated maps paths that the pod was promised to where they are: empty
	// with a private root.
	relocated map[string]string
	// addresses maps the gang's names to addresses where they cannot be
	// resolved: empty with a private root.
	addresses map[string]string
}

// environment is the whole environment of a container: the pod's own, what every
// container has, the site's, and the workload manager's device variables. Nothing else of the
// agent's environment gets in.
func environment(pod []corev1.EnvVar, s surroundings) []string {
	values := map[string]string{"HOSTNAME": s.hostname, "HOME": s.home, "PATH": defaultPath}
	if s.user != "" {
		values["USER"] = s.user
	}
	for _, entry := range s.image {
		if name, value, ok := strings.Cut(entry, "="); ok {
			values[name] = value
		}
	}
	for _, v := range s.site {
		values[v.Name] = v.Value
	}
	for name, value := range s.devices.Variables() {
		values[name] = value
	}
	if s.apart {
		for _, v := range mpi.EnvOnSharedNode() {
			values[v.Name] = v.Value
		}
	}
	for _, e := range pod {
		switch {
		case device.IsVariable(e.Name):
			values[e.Name] = s.devices.Within(e.Name, e.Value)
		case rendezvous.NamesHost(e.Name):
			values[e.Name] = rendezvous.ReplaceHosts(e.Value, s.addresses)
		default:
			values[e.Name] = relocate(e.Value, s.relocated)
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

// cookie is the environment entry of all processes of a run; see process.Sweep.
func cookie(container string) string { return envContainer + "=" + container }

// relocate replaces a value that is a promised path, or one below it. The agent's own
// programs are first on the PATH of every pod, and each pod has them elsewhere:
// launchers carry the value along to other pods, so it is the name alone.
func relocate(value string, relocated map[string]string) string {
	if program, ok := strings.CutPrefix(value, runDir+"/bin/"); ok && relocated[runDir] != "" {
		return program
	}
	for promised, real := range relocated {
		if rest, ok := strings.CutPrefix(value, promised); ok && (rest == "" || rest[0] == '/') {
			return real + rest
		}
	}
	return value
}
