package launcher

// Request is what a command line asks for.
type Request struct {
	// Programs has one entry, or several for a command line with ":".
	Programs []Program `json:"programs"`
	// Hostfile is the file that the command line names, "" for none.
	Hostfile string `json:"hostfile,omitempty"`
	// PerHost is the number of ranks that each host takes, 0 if it is left to
	// the hosts' slots.
	PerHost int `json:"perHost,omitempty"`
	// Cyclic gives each host one rank after the other; otherwise a host is
	// filled before the next.
	Cyclic bool `json:"cyclic,omitempty"`
	// Oversubscribe allows more ranks than slots.
	Oversubscribe bool `json:"oversubscribe,omitempty"`
	// Label begins each line of output with its rank.
	Label bool `json:"label,omitempty"`
	// Verbose tells the user what is done.
	Verbose bool `json:"verbose,omitempty"`
	// Stdin is who reads standard input: "" for rank 0, "all" or "none".
	Stdin string `json:"stdin,omitempty"`
	// Informs tells that the command line asks for a version or for help, and
	// starts nothing.
	Informs bool `json:"-"`
	// Ignored are options that have no meaning here, each with the reason.
	Ignored []string `json:"ignored,omitempty"`
}

// Local tells that the command line names hosts, and none but the one that the
// launcher runs on, by its everyday names.
func (r Request) Local() bool {
	for _, p := range r.Programs {
		for _, h := range p.Hosts {
			if !isLocal(h.Name) {
				return false
			}
		}
		if len(p.Hosts) == 0 {
			return false
		}
	}
	return len(r.Programs) > 0
}

func isLocal(name string) bool { return name == "localhost" || name == "127.0.0.1" || name == "::1" }

// Program is one program and its ranks.
type Program struct {
	Argv []string `json:"argv"`
	// Ranks is 0 where the command line does not say.
	Ranks int `json:"ranks,omitempty"`
	// Dir is the working directory, "" for the launcher's.
	Dir string `json:"dir,omitempty"`
	// Exports are variables that the ranks get besides their pod's own.
	Exports []Export `json:"exports,omitempty"`
	// Hosts are those of --host; none: see Request.Hostfile.
	Hosts []Host `json:"hosts,omitempty"`
}

// Export is a variable that is passed on to the ranks.
type Export struct {
	// Name is empty for all of the launcher's variables.
	Name string `json:"name,omitempty"`
	// Value is given by the command line, or, where Given is false, the
	// launcher's own. A variable that the launcher does not have is left out.
	Value string `json:"value,omitempty"`
	Given bool   `json:"given,omitempty"`
}

// Host is a host as a command line or a hostfile names it.
type Host struct {
	Name string `json:"name"`
	// Slots is 0 where it is not said.
	Slots int `json:"slots,omitempty"`
}

// Environment resolves a program's exports with the launcher's own variables
// (NAME=value). Later entries win.
func (p Program) Environment(own []string) []string {
	var env []string
	for _, e := range p.Exports {
		switch {
		case e.Given:
			env = append(env, e.Name+"="+e.Value)
		case e.Name == "":
			env = append(env, ownVariables(own)...)
		default:
			for _, entry := range own {
				if nameOf(entry) == e.Name {
					env = append(env, entry)
				}
			}
		}
	}
	return env
}
