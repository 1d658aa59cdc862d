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
	//go:embed scripts/entrypoint.sh
	entrypointBody string
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
	// source is where Flux comes from.
	source   source
	settings settings
}

// source is where Flux comes from; the scripts know the words.
type source string

const (
	view    source = "view" // the init container's image
	nodeOwn source = "node" // the HPC node's own software
)

// hosts are the pods' host names, in Flux' short form.
func (i instance) hosts() string {
	return fmt.Sprintf("%s-[%s]", i.job, ids(i.nodes))
}

// lead is the host name of the pod of rank 0.
func (i instance) lead() string { return i.job + "-0" }

// resources are the arguments of "flux R encode" for one node. A core stands for
// a task; how many there really are only the pods know.
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
	switch {
	case i.gpus == 0:
	case i.gpus%i.tasks == 0:
		args = append(args, "-g", fmt.Sprint(i.gpus/i.tasks))
	default:
		args = append(args, "-o", "gpu-affinity=off")
	}
	return args
}

// ids are the numbers below n as Flux writes them.
func ids(n int) string {
	if n == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", n-1)
}

// brokerConfig is broker.toml. No value of it needs escaping: names are
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
	return script(initBody,
		"source="+string(i.source),
		"hosts="+quote(i.hosts()),
		"broker="+quote(i.brokerConfig()))
}

// entrypoint is the training container's script.
func (i instance) entrypoint() string {
	return script(entrypointBody,
		"source="+string(i.source),
		"hosts="+quote(i.hosts()),
		"lead="+quote(i.lead()),
		"resources="+array(i.resources()),
		"tasks="+array(i.runArgs()),
		fmt.Sprintf("arguments=%d", i.arguments))
}

func script(body string, variables ...string) string {
	return "#!/bin/bash\n" + strings.Join(variables, "\n") + "\n\n" + body
}

func array(words []string) string {
	return "(" + strings.Join(words, " ") + ")"
}

// quote makes one word of bash of any text.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
