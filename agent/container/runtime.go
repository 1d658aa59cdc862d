package container

import (
	"cmp"
	"slices"

	"github.com/gangline/gangline/agent/image"
)

// Runtime is a way to start processes in images.
type Runtime struct {
	// Name is what pods and sites call it; Program is the file that is run where the site
	// names none.
	Name, Program string
	// Form is what it takes, Accepts more that it can do with as it is.
	Form    image.Form
	Accepts []image.Form
	// Deaf tells that a process of the runtime waits for the program's end, and has to be
	// kept from the signals that are for the program.
	Deaf bool
	// Apart tells that each process has a user namespace of its own: processes that were
	// not started by one another cannot read each other's memory then, as MPI does.
	Apart bool
	// OwnSession tells that it makes each process the leader of a session.
	OwnSession bool
	// Twin tells that it needs the image's directory under a second path.
	Twin bool
	// Files are paths that have to be there in the image, or are to be made empty.
	Files []string
	// Root tells that the user is root in the image, whoever the pod wants to be.
	Root bool
	// Command is the command line of a process. Its first word is the program's.
	Command func(Process) []string
	// Variables are what its environment has beside PATH, HOME and USER; nil for none.
	Variables func(Process) []string
	// Test is the command line that tells whether the runtime works, without an image.
	Test func(program string) []string
}

// Assembled tells that the runtime takes a directory in which everything is mounted.
func (r Runtime) Assembled() bool { return r.Form == image.FormTree }

// Process is what a command line is made of.
type Process struct {
	// Program is the runtime's file.
	Program string
	// Image is the directory that is to be the root, or the image's file.
	Image string
	// Twin is another directory that shows the same as Image.
	Twin string
	// Init is what is started, by its path in the image, without arguments.
	Init string
	// Mounts are the pod's. A runtime that takes a directory needs few of them: what the
	// runtime would otherwise put over the image's own.
	Mounts []Mount
	// User and Group are who the process is to be, as the image sees it; nil for the HPC
	// user. On the host it is that user in any case.
	User, Group *int64
	// ReadOnly keeps the process from writing to the image.
	ReadOnly bool
	// GPUs is whose libraries the process needs; empty for nobody's.
	GPUs Vendor
	// ID names the process among all of the user's on the node, for runtimes that keep
	// books. State is a directory for those.
	ID, State string
	// UID and GID are the HPC user's.
	UID, GID int
	// Options are the site's, before all others.
	Options []string
}

// Mount shows a path of the host in the image.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Vendor makes GPUs.
type Vendor string

// The vendors whose libraries runtimes know.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
)

// runtimes are all that there are. Each has a file of its own.
func runtimes() []Runtime {
	return []Runtime{bubblewrap(), charliecloud(), podman(), apptainer(), singularity(), enroot()}
}

// Find returns the runtime of a name.
func Find(name string) (Runtime, bool) {
	all := runtimes()
	i := slices.IndexFunc(all, func(r Runtime) bool { return r.Name == name })
	if i < 0 {
		return Runtime{}, false
	}
	return all[i], true
}

// Names are those of all runtimes.
func Names() []string {
	var names []string
	for _, r := range runtimes() {
		names = append(names, r.Name)
	}
	return names
}

// program is the word that begins a command line.
func (p Process) program(usual string) string { return cmp.Or(p.Program, usual) }
