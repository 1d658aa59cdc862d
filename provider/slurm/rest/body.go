package rest

import (
	"fmt"
	"strings"
)

// The variables that tell the batch script what to start. (The API has arguments for
// scripts, but slurmrestd of Slurm 22.05 dies of them, after the job was accepted.)
const (
	envLaunchAgent = "GANGLINE_LAUNCH_AGENT"
	envLaunchDir   = "GANGLINE_LAUNCH_DIR"
)

// script is the whole of every batch script. Nothing is ever written into it.
const script = `#!/bin/sh
agent=$` + envLaunchAgent + ` dir=$` + envLaunchDir + `
unset ` + envLaunchAgent + ` ` + envLaunchDir + `
exec "$agent" launch "$dir"
`

// order is sbatch's command line taken apart: what a job is asked for is decided in one
// place, translate.SbatchArgs, and only written in another form here.
type order struct {
	// components are the options of each component, by name; "" for those without a
	// value.
	components []map[string]string
	agent, dir string
}

// parseOrder reads the result of translate.SbatchArgs: options, a ":" between two
// components, the batch script and its two arguments. Every option is one argument.
func parseOrder(args []string) (order, error) {
	const afterOptions = 3
	if len(args) < afterOptions {
		return order{}, fmt.Errorf("reading sbatch's command line: it has %d arguments", len(args))
	}
	rest := args[len(args)-afterOptions:]
	o := order{agent: rest[1], dir: rest[2], components: []map[string]string{{}}}
	for _, arg := range args[:len(args)-afterOptions] {
		if arg == ":" {
			o.components = append(o.components, map[string]string{})
			continue
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || name == "" {
			return order{}, fmt.Errorf("reading sbatch's command line: %q is no long option", arg)
		}
		o.components[len(o.components)-1][name] = value
	}
	return o, nil
}

// body is what is sent to submit an order. Several components become one heterogeneous
// job. An error names the option that this version of the API has nothing for: to leave
// it out would be to run another job than was asked for.
func (v version) body(o order, base []string) (map[string]any, error) {
	jobs := make([]map[string]any, len(o.components))
	for i, options := range o.components {
		environment := base
		if i == 0 { // it runs the script
			environment = o.environment(base)
		}
		var err error
		if jobs[i], err = v.job(options, o.components[0], environment); err != nil {
			return nil, err
		}
	}
	body := map[string]any{}
	if v.scriptInJob {
		jobs[0]["script"] = script
	} else {
		body["script"] = script
	}
	if len(jobs) == 1 {
		body["job"] = jobs[0]
	} else {
		body["jobs"] = jobs
	}
	return body, nil
}

// job describes one component. What the first one says for all of them counts for it too.
func (v version) job(options, first map[string]string, environment []string) (map[string]any, error) {
	job := map[string]any{"environment": v.environment(environment)}
	table := v.options()
	for name, value := range options {
		if _, known := table[name]; !known {
			return nil, fmt.Errorf("version %s of slurmrestd's API cannot be asked for what sbatch calls --%s: "+
				"do without, or let gangline-node use Slurm's tools", v.name, name)
		}
		if err := table[name].write(job, value); err != nil {
			return nil, fmt.Errorf("sbatch's --%s=%s cannot be put in slurmrestd's words: %w", name, value, err)
		}
	}
	for name, option := range table {
		value, said := first[name]
		if _, own := options[name]; !option.forAll || !said || own {
			continue
		}
		if err := option.write(job, value); err != nil {
			return nil, fmt.Errorf("sbatch's --%s=%s cannot be put in slurmrestd's words: %w", name, value, err)
		}
	}
	return job, nil
}

func (v version) environment(list []string) any {
	if v.environmentList {
		return list
	}
	object := map[string]string{}
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		object[name] = value
	}
	return object
}

// environment is that of the batch script: the base, what the script is told, and what
// sbatch itself sets for the srun in a job and nobody else does. Source: sbatch(1), output
// environment variables, and sbatch of Slurm 22.05.8.
func (o order) environment(base []string) []string {
	env := append(base[:len(base):len(base)], envLaunchAgent+"="+o.agent, envLaunchDir+"="+o.dir)
	for i, options := range o.components {
		suffix := ""
		if len(o.components) > 1 {
			suffix = fmt.Sprintf("_HET_GROUP_%d", i)
		}
		for _, v := range []struct{ option, variable string }{
			{"ntasks", "SLURM_NTASKS"}, {"ntasks-per-node", "SLURM_NTASKS_PER_NODE"}, {"cpus-per-task", "SLURM_CPUS_PER_TASK"},
			{"gpus-per-task", "SLURM_GPUS_PER_TASK"}, {"distribution", "SLURM_DISTRIBUTION"},
			{"gpu-bind", "SLURM_GPU_BIND"}, {"gpu-freq", "SLURM_GPU_FREQ"}, {"threads-per-core", "SLURM_THREADS_PER_CORE"},
		} {
			if value := options[v.option]; value != "" {
				env = append(env, v.variable+suffix+"="+value)
			}
		}
		if value := options["hint"]; value != "" {
			env = append(env, "SLURM_HINT"+suffix+"="+value, "SLURM_THREADS_PER_CORE"+suffix+"=1")
		}
	}
	return env
}
