package flux

import (
	_ "embed"
	"fmt"
	"strings"
)

// The scripts' constant parts. What differs from job to job are variables, set
// before them.
var (
	//go:embed scripts/init.sh
	initBody string
	//go:embed scripts/view.sh
	viewBody string
	//go:embed scripts/native.sh
	nativeBody string
	//go:embed scripts/entrypoint.sh
	entrypointBody string
	// podPlugin is one for flux-shell(1).
	//go:embed scripts/pod.lua
	podPlugin string
)

// instance is one Flux instance in the pods of one TrainJob.
type instance struct {
	// job is the JobSet's Job whose pods these are, without the pod's index.
	job string
	// domain is that of the pods' host names.
	domain string
	// nodes is the number of pods, tasks that of processes in each, gpus that of
	// GPUs in each.
	nodes, tasks, gpus int
	// arguments is the number of arguments of entrypoint.sh that count.
	arguments int
	// native tells that Flux is the HPC node's own, and not the init container's
	// image's.
	native   bool
	settings settings
}

// hosts are the pods' host names, in Flux' short form.
func (i instance) hosts() string {
	return fmt.Sprintf("%s-[%s]", i.job, ids(i.nodes))
}

// lead is the host name of the pod of rank 0.
func (i instance) lead() string { return i.job + "-0" }

// followers are the others', "" where there are none.
func (i instance) followers() string {
	switch i.nodes {
	case 1:
		return ""
	case 2:
		return i.job + "-1"
	}
	return fmt.Sprintf("%s-[1-%d]", i.job, i.nodes-1)
}

// resources are the arguments of "flux R encode" for one node, off the HPC side. A
// core stands for a task; how many there really are only the pods know.
func (i instance) resources() []string {
	args := []string{"--cores=" + ids(i.tasks)}
	if i.gpus > 0 {
		args = append(args, "--gpus="+ids(i.gpus))
	}
	return args
}

// runArgs are the arguments of "flux run". Its -g counts the GPUs of each task,
// so where they cannot be dealt out evenly all tasks of a node see all of its.
func (i instance) runArgs() []string {
	args := []string{"-N", fmt.Sprint(i.nodes), "-n", fmt.Sprint(i.nodes * i.tasks)}
	if i.native {
		args = append(args, nativeArgs[:]...)
	}
	switch {
	case i.gpus == 0:
	case i.gpus%i.tasks == 0:
		args = append(args, "-g", fmt.Sprint(i.gpus/i.tasks))
	case i.native: // the whole nodes' are the job's already
	default:
		args = append(args, "-o", "gpu-affinity=off")
	}
	return args
}

// nativeArgs give the command all that the pods have, as their slots are bound to it
// already, and nothing of the lead's environment but what finds pod.lua: that gives each task
// its own pod's.
var nativeArgs = [...]string{"--exclusive", "-o", "cpu-affinity=off", "--env-remove=*", "--env=" + envShellPath}

// ids are the numbers below n as Flux writes them.
func ids(n int) string {
	if n == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", n-1)
}

// brokerConfig is broker.toml off the HPC side. No value of it needs escaping: names are
// Kubernetes', and settings have been checked.
func (i instance) brokerConfig() string {
	return fmt.Sprintf(`[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://%s:%%p"
default_connect = "tcp://%%h.%s:%%p"
hosts = [{ host = "%s" }]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "%s"`, i.settings.device, i.domain, i.hosts(), i.settings.queuePolicy)
}

// init is the init container's script.
func (i instance) init() string {
	return script("hosts="+quote(i.hosts()), "broker="+quote(i.brokerConfig())) + initBody
}

// entrypoint is the training container's script.
func (i instance) entrypoint() string {
	common := []string{
		"hosts=" + quote(i.hosts()),
		"lead=" + quote(i.lead()),
		"tasks=" + array(i.runArgs()),
		fmt.Sprintf("arguments=%d", i.arguments),
	}
	if i.native {
		return script(append(common,
			"followers="+quote(i.followers()),
			fmt.Sprintf("processes=%d", i.tasks),
			fmt.Sprintf("gpus=%d", i.gpus),
			"device="+quote(i.settings.device),
			"policy="+quote(i.settings.queuePolicy))...) + nativeBody + entrypointBody
	}
	return script(append(common, "resources="+array(i.resources()))...) + viewBody + entrypointBody
}

// files are what the pods mount, by name.
func (i instance) files() map[string]string {
	if i.native {
		return map[string]string{entrypoint: i.entrypoint(), podScript: podPlugin}
	}
	return map[string]string{entrypoint: i.entrypoint(), initScript: i.init()}
}

// script is the beginning of a script that has these variables.
func script(variables ...string) string {
	return "#!/bin/bash\n" + strings.Join(variables, "\n") + "\n\n"
}

// array is bash's of these words.
func array(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if strings.ContainsAny(w, "*") {
			quoted[i] = quote(w)
		}
	}
	return "(" + strings.Join(quoted, " ") + ")"
}

// quote makes one word of bash of any text.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
