package rest

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// option writes one of sbatch's options into the description of a job.
type option struct {
	write func(job map[string]any, value string) error
	// forAll marks what a heterogeneous job's first component says for all.
	forAll bool
}

// options is the table of sbatch's options in this version of the API, by name. Source:
// sbatch(1), and Slurm's OpenAPI documents (job_desc_msg).
func (v version) options() map[string]option {
	table := map[string]option{
		"parsable":  {write: nothing},
		"propagate": {write: nothing}, // no limits of this process reach a job over the API
		"export":    {write: nothing}, // the environment is always given

		"job-name":   {write: text("name")},
		"comment":    {write: text("comment")},
		"chdir":      {write: text("current_working_directory"), forAll: true},
		"output":     {write: text("standard_output"), forAll: true},
		"open-mode":  {write: constant(v.appending), forAll: true},
		"no-requeue": {write: constant(v.noRequeue), forAll: true},

		"partition":   {write: text("partition")},
		"account":     {write: text("account")},
		"qos":         {write: text("qos")},
		"constraint":  {write: text("constraints")},
		"reservation": {write: text("reservation")},
		"licenses":    {write: text("licenses")},
		"wckey":       {write: text("wckey")},
		"dependency":  {write: text("dependency")},
		"time":        {write: v.number("time_limit", "")}, // minutes
		"exclusive":   {write: constant(v.exclusive)},

		"nice":     {write: integer("nice")},
		"nodes":    {write: text("nodes")}, // a number or a range
		"switches": {write: v.switches},
		"signal":   {write: v.signal},

		"ntasks":          {write: integer("tasks")},
		"ntasks-per-node": {write: integer("tasks_per_node")},
		"cpus-per-task":   {write: integer("cpus_per_task")},
		"distribution":    {write: text("distribution")},
		"mem":             {write: v.number("memory_per_node", "M")},
		"mem-per-cpu":     {write: v.number("memory_per_cpu", "M")},
		"gpus-per-task": {write: func(job map[string]any, value string) error {
			job[v.gpusPerTask.key] = fmt.Sprintf(v.gpusPerTask.format, value)
			return nil
		}},
		"gres": {write: func(job map[string]any, value string) error {
			resources := strings.Split(value, ",")
			for i, r := range resources {
				resources[i] = fmt.Sprintf(v.gres.format, r)
			}
			job[v.gres.key] = strings.Join(resources, ",")
			return nil
		}},
	}
	if !v.wrapped { // v0.0.38 knows the field, and refuses it
		delete(table, "switches")
		maps.Copy(table, freeOptions())
	}
	return table
}

// freeOptions are those that sites may let pods write, as v0.0.38 takes them: each was
// seen to reach the job with Slurm 22.05.8. It has fields for others too, of which some come
// to nothing (cpu_binding_hint), some are shut (contiguous, excluded_nodes), and slurmrestd
// dies of one (batch_features).
func freeOptions() map[string]option {
	return map[string]option{
		"acctg-freq":       {write: text("account_gather_frequency")},
		"bb":               {write: text("burst_buffer")},
		"begin":            {write: text("begin_time")}, // in sbatch's own words
		"cores-per-socket": {write: integer("cores_per_socket")},
		"deadline":         {write: text("deadline")},
		"delay-boot":       {write: integer("delay_boot")}, // minutes
		"gpu-bind":         {write: text("gpu_binding")},
		"gpu-freq":         {write: text("gpu_frequency")},
		"gres-flags":       {write: text("gres_flags")},
		"hint":             {write: hint},
		"mcs-label":        {write: text("mcs_label")},
		"mincpus":          {write: integer("minimum_cpus_per_node")},
		"nodelist":         {write: text("nodelist")},
		"prefer":           {write: text("prefer")},
		"sockets-per-node": {write: integer("sockets_per_node")},
		"spread-job":       {write: constant(keyValue{key: "spread_job", value: true})},
		"threads-per-core": {write: integer("threads_per_core")},
	}
}

// hint writes the one hint that is about the allocation, as sbatch itself does.
func hint(job map[string]any, value string) error {
	if value != "nomultithread" {
		return errors.New("only nomultithread can be had")
	}
	job["threads_per_core"] = 1
	return nil
}

// switches writes COUNT or COUNT@MINUTES.
func (v version) switches(job map[string]any, value string) error {
	count, minutes, limited := strings.Cut(value, "@")
	if err := v.number("required_switches", "")(job, count); err != nil || !limited {
		return err
	}
	n, err := strconv.Atoi(minutes)
	job["wait_for_switch"] = n * 60 // seconds
	return err
}

// signal writes SIGNAL@SECONDS, with "B:" before it for the batch script alone.
func (v version) signal(job map[string]any, value string) error {
	if !v.wrapped {
		return text("signal")(job, value) // v0.0.38 reads sbatch's own form
	}
	value, batch := strings.CutPrefix(value, "B:")
	name, seconds, timed := strings.Cut(value, "@")
	if !timed || strings.Contains(name, ":") {
		return errors.New("it is not SIGNAL@SECONDS or B:SIGNAL@SECONDS")
	}
	job["kill_warning_signal"] = name
	if batch {
		job["kill_warning_flags"] = []string{"BATCH_JOB"}
	}
	return v.number("kill_warning_delay", "")(job, seconds)
}

func nothing(map[string]any, string) error { return nil }

func text(key string) func(map[string]any, string) error {
	return func(job map[string]any, value string) error {
		job[key] = value
		return nil
	}
}

// constant is for options with one value only; another is refused.
func constant(field keyValue) func(map[string]any, string) error {
	return func(job map[string]any, value string) error {
		if value != "" && value != field.option {
			return errors.New("only one value of it is known here")
		}
		job[field.key] = field.value
		return nil
	}
}

func integer(key string) func(map[string]any, string) error {
	return func(job map[string]any, value string) error {
		n, err := strconv.Atoi(value)
		job[key] = n
		return err
	}
}

// number writes a number that may be absent, as this version wants it. The unit is that
// which the API means.
func (v version) number(key, unit string) func(map[string]any, string) error {
	return func(job map[string]any, value string) error {
		n, err := strconv.ParseInt(strings.TrimSuffix(value, unit), 10, 64)
		job[key] = n
		if v.wrapped {
			job[key] = map[string]any{"set": true, "infinite": false, "number": n}
		}
		return err
	}
}
