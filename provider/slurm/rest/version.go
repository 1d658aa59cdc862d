package rest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// version is one version of the API: what differs in how a job is described.
type version struct {
	name string
	// scriptInJob puts the batch script into the (first) job, not beside it.
	scriptInJob bool
	// wrapped numbers are {"set":…,"number":…}.
	wrapped bool
	// environmentList is ["NAME=value"] in place of an object.
	environmentList bool
	// appending, noRequeue and exclusive are the fields, and their values, that ask for
	// what these options of sbatch's mean.
	appending, noRequeue, exclusive keyValue
	// gpusPerTask and gres are the fields, and the formats of their values.
	gpusPerTask, gres keyFormat
}

type keyValue struct {
	option string // the value of sbatch's option that this means; empty for one without
	key    string
	value  any
}

type keyFormat struct{ key, format string }

// versions are those that this package knows, the oldest first. Of v0.0.40 on the
// documents say the same of all that is used here.
func versions() []version {
	v38 := version{
		name:      "v0.0.38",
		appending: keyValue{"append", "open_mode", "append"},
		noRequeue: keyValue{"", "no_requeue", true}, // "requeue" means yes here, whatever its value
		exclusive: keyValue{"", "exclusive", "exclusive"},

		gpusPerTask: keyFormat{"gpus_per_task", "%s"},
		gres:        keyFormat{"gres", "%s"},
	}
	v39 := version{
		name: "v0.0.39", wrapped: true, environmentList: true,
		appending: keyValue{"append", "open_mode", []string{"APPEND"}},
		noRequeue: keyValue{"", "requeue", false},
		exclusive: keyValue{"", "shared", []string{"none"}},

		gpusPerTask: keyFormat{"tres_per_task", "gres:gpu:%s"},
		gres:        keyFormat{"tres_per_node", "gres:%s"},
	}
	known := []version{v38, v39}
	for n := 40; n <= 45; n++ {
		v := v39
		v.name, v.scriptInJob = fmt.Sprintf("v0.0.%d", n), true
		// As Slurm writes it since 23.11, which brought v0.0.40.
		v.gpusPerTask.format, v.gres.format = "gres/gpu:%s", "gres/%s"
		known = append(known, v)
	}
	return known
}

func versionNames() []string {
	var names []string
	for _, v := range versions() {
		names = append(names, v.name)
	}
	return names
}

func findVersion(name string) (version, bool) {
	all := versions()
	i := slices.IndexFunc(all, func(v version) bool { return v.name == name })
	if i < 0 {
		return version{}, false
	}
	return all[i], true
}

// newestOf picks the newest version that both sides know. The paths are those of the
// server's own OpenAPI document.
func newestOf(paths []string) (version, error) {
	pattern := regexp.MustCompile(`^/slurm/(v\d+\.\d+\.\d+)/`)
	offered := map[string]bool{}
	for _, path := range paths {
		if m := pattern.FindStringSubmatch(path); m != nil {
			offered[m[1]] = true
		}
	}
	all := versions()
	for _, v := range slices.Backward(all) {
		if offered[v.name] {
			return v, nil
		}
	}
	var names []string
	for name := range offered {
		names = append(names, name)
	}
	slices.Sort(names)
	return version{}, fmt.Errorf("slurmrestd speaks the versions [%s] of its API and this program %s to %s; start it with one of these (slurmrestd -s or -d)",
		strings.Join(names, " "), all[0].name, all[len(all)-1].name)
}
