package launcher

import (
	"fmt"
	"strings"
)

// option is one option: how many words follow it, and what becomes of them.
// Exactly one of read, ignored and refused is set.
type option struct {
	values int
	read   func(p *parser, values []string) error
	// ignored and refused say why.
	ignored, refused string
}

// Why options have no meaning here, or are not possible.
const (
	binding   = "the workload manager binds each pod to its CPUs, and ranks stay on those of their pod"
	starting  = "ranks are started by the workload manager, not by remote daemons"
	reporting = "there is nothing to report: see -v"
	placing   = "ranks are placed by slot, by node or by a number per node"
	files     = "options cannot come from a file"
	output    = "output goes to the launcher; redirect it there"
)

// options are all that are known, by their names without dashes.
func options() map[string]option {
	table := map[string]option{}
	add := func(o option, names ...string) {
		for _, name := range names {
			table[name] = o
		}
	}
	read := func(values int, read func(*parser, []string) error, names ...string) {
		add(option{values: values, read: read}, names...)
	}
	flag := func(set func(*parser), names ...string) {
		read(0, func(p *parser, _ []string) error { set(p); return nil }, names...)
	}
	ignored := func(values int, why string, names ...string) { add(option{values: values, ignored: why}, names...) }
	refused := func(values int, why string, names ...string) { add(option{values: values, refused: why}, names...) }

	// How many, and where.
	read(1, ranks, "n", "np", "c")
	read(1, perHost, "N", "npernode", "ppn", "perhost")
	flag(func(p *parser) { p.request.PerHost = 1 }, "pernode")
	read(1, mapBy, "map-by")
	flag(func(p *parser) { p.request.Cyclic = true }, "bynode", "rr")
	flag(func(p *parser) { p.request.Cyclic = false }, "byslot")
	read(1, func(p *parser, v []string) error { p.request.Hostfile = v[0]; return nil }, "hostfile", "machinefile", "f", "default-hostfile")
	read(1, hosts, "host", "H", "hosts")
	flag(func(p *parser) { p.request.Oversubscribe = true }, "oversubscribe")
	flag(func(p *parser) { p.request.Oversubscribe = false }, "nooversubscribe")

	// What the ranks get.
	read(1, export, "x")
	read(2, func(p *parser, v []string) error { p.global = append(p.global, Export{v[0], v[1], true}); return nil }, "genv")
	read(1, func(p *parser, v []string) error { p.global = append(p.global, list(v[0])...); return nil }, "genvlist")
	flag(func(p *parser) { p.global = append(p.global, Export{}) }, "genvall")
	read(2, func(p *parser, v []string) error {
		p.now.Exports = append(p.now.Exports, Export{v[0], v[1], true})
		return nil
	}, "env")
	read(1, func(p *parser, v []string) error { p.now.Exports = append(p.now.Exports, list(v[0])...); return nil }, "envlist")
	flag(func(p *parser) { p.now.Exports = append(p.now.Exports, Export{}) }, "envall")
	ignored(0, "ranks get their pod's environment and what is named", "genvnone", "envnone")
	read(1, func(p *parser, v []string) error { p.now.Dir = v[0]; return nil }, "wdir", "wd")
	read(1, func(p *parser, v []string) error { p.dir = v[0]; return nil }, "gwdir")
	read(2, mca, "mca", "gmca")
	ignored(2, starting, "prtemca", "pmixmca", "gpmixmca", "gprtemca")

	// Input and output.
	read(1, stdin, "stdin", "s")
	flag(func(p *parser) { p.request.Label = true }, "l", "prepend-rank", "tag-output", "label")
	flag(func(p *parser) { p.request.Verbose = true }, "v", "verbose")
	flag(func(p *parser) { p.request.Informs = true }, "V", "version", "h", "help", "info")

	// No meaning.
	ignored(1, binding, "bind-to", "cpus-per-proc", "cpus-per-rank", "membind", "cpu-bind")
	ignored(0, binding, "bind-to-none", "bind-to-core", "bind-to-socket", "use-hwthread-cpus", "nocpubind")
	ignored(1, starting, "launcher", "launcher-exec", "bootstrap", "bootstrap-exec", "rsh", "rmk", "prefix", "iface", "launch-agent", "tmpdir", "pmi-port")
	ignored(0, starting, "allow-run-as-root", "noprefix", "novm", "enable-x", "disable-x", "disable-hostname-propagation", "debug-daemons", "leave-session-attached", "no-ready-msg")
	ignored(0, reporting, "report-bindings", "display-map", "display-allocation", "display-devel-map", "display-topo", "print-rank-map", "print-all-exitcodes", "q", "quiet", "usize")
	ignored(1, reporting, "display")
	ignored(0, "the first rank that fails ends all", "disable-auto-cleanup", "enable-recovery")

	// Not possible.
	refused(1, placing, "rank-by", "rankfile", "rf", "npersocket", "cpu-set", "cpu-list", "slot-list", "add-host", "add-hostfile")
	refused(0, placing, "nolocal", "ranks-per-proc")
	refused(1, files, "tune", "am", "app", "configfile")
	refused(1, output, "output-filename", "outfile-pattern", "errfile-pattern", "output")
	refused(0, output, "merge-stderr-to-stdout", "timestamp-output")
	refused(1, "the pod's activeDeadlineSeconds bounds its time", "timeout")
	refused(0, "nothing would run", "do-not-launch")
	return table
}

func ranks(p *parser, v []string) (err error) {
	p.now.Ranks, err = count(v[0])
	return err
}

func perHost(p *parser, v []string) (err error) {
	p.request.PerHost, err = count(v[0])
	return err
}

// export reads -x: NAME, or NAME=value, or several of them with commas between
// names as Open MPI 5 allows.
func export(p *parser, v []string) error {
	name, value, given := strings.Cut(v[0], "=")
	if given {
		p.now.Exports = append(p.now.Exports, Export{name, value, true})
		return nil
	}
	p.now.Exports = append(p.now.Exports, list(v[0])...)
	return nil
}

func list(names string) []Export {
	var out []Export
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			out = append(out, Export{Name: name})
		}
	}
	return out
}

// launchParameters are the prefixes of those MCA parameters that are about how
// Open MPI itself starts ranks.
func launchParameters() []string {
	return []string{"plm", "ras", "rmaps", "orte", "prte", "ess", "oob", "odls", "rml", "routed", "schizo", "iof", "hwloc_base_binding", "state", "errmgr", "filem", "grpcomm"}
}

// mca passes an MCA parameter on as the variable by which Open MPI reads it.
func mca(p *parser, v []string) error {
	for _, prefix := range launchParameters() {
		if v[0] == prefix || strings.HasPrefix(v[0], prefix+"_") {
			p.word += " " + v[0]
			p.ignore(starting)
			return nil
		}
	}
	p.now.Exports = append(p.now.Exports, Export{"OMPI_MCA_" + v[0], v[1], true})
	return nil
}

// mapBy reads --map-by: slot, node or ppr:N:node, and modifiers.
func mapBy(p *parser, v []string) error {
	words := strings.Split(strings.ToLower(v[0]), ":")
	if words[0] == "ppr" && len(words) >= 3 && words[2] == "node" {
		if err := perHost(p, words[1:]); err != nil {
			return err
		}
		words = words[2:]
	} else {
		switch words[0] {
		case "", "slot", "core", "hwthread":
			p.request.Cyclic = false
		case "node":
			p.request.Cyclic = true
		default:
			p.word += " " + v[0]
			return p.refuse(placing)
		}
	}
	for _, modifier := range words[1:] {
		switch {
		case modifier == "oversubscribe":
			p.request.Oversubscribe = true
		case modifier == "nooversubscribe":
			p.request.Oversubscribe = false
		case strings.HasPrefix(modifier, "pe="):
			p.ignore(binding)
		default:
			p.word += " " + v[0]
			return p.refuse(placing)
		}
	}
	return nil
}

func hosts(p *parser, v []string) error {
	named, err := ParseHosts(v[0])
	p.now.Hosts = append(p.now.Hosts, named...)
	return err
}

// stdin reads who gets standard input. srun serves one rank, all or none.
func stdin(p *parser, v []string) error {
	target, known := map[string]string{"0": "", "all": "all", "none": "none"}[v[0]]
	if !known && !p.lenient {
		return fmt.Errorf("standard input goes to 0, all or none")
	}
	p.request.Stdin = target
	return nil
}
