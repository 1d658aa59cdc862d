package control

import (
	"fmt"
	"time"

	"github.com/gangline/gangline/mpi/launcher"
)

// Request is what a program asks for. Exactly one of its fields is set.
type Request struct {
	Launch *Launch `json:"launch,omitempty"`
	Rank   *Rank   `json:"rank,omitempty"`
	Taken  *Taken  `json:"taken,omitempty"`
}

// Taken tells that a port which the pod wants is another's on this node.
type Taken struct {
	// Run is the id of the container's run that wants it.
	Run string `json:"run"`
	// Program is what wants it, Address where, and Instead the address that it has now.
	Program string `json:"program"`
	Address string `json:"address"`
	Instead string `json:"instead"`
}

// Launch asks for the ranks of a command line.
type Launch struct {
	Request launcher.Request `json:"request"`
	// CheckOnly asks no more than whether the pods that the command line needs
	// can take ranks.
	CheckOnly bool `json:"checkOnly,omitempty"`
	// Hostfile holds the hosts of the file that the command line names, and
	// Default those of the launcher's default one, if there are any.
	Hostfile []launcher.Host `json:"hostfile,omitempty"`
	Default  []launcher.Host `json:"default,omitempty"`
	// PMI is the protocol that the ranks speak.
	PMI string `json:"pmi,omitempty"`
	// Patience is how long pods may be still to come; nil for the agent's own.
	Patience *time.Duration `json:"patience,omitempty"`
	// Programs are the command line's, with everything resolved.
	Programs []launcher.RankProgram `json:"programs,omitempty"`
}

// Rank asks for a rank to be started in the pod.
type Rank struct {
	// Step is the name of the rank's step.
	Step    string               `json:"step"`
	Program launcher.RankProgram `json:"program"`
	// Env are the variables of the workload manager.
	Env []string `json:"env,omitempty"`
	// Files names, for each file that is handed over after the first three, the
	// variable that is to hold its number.
	Files []string `json:"files,omitempty"`
	// PMI is the protocol of the step, Number the rank's and Size that of all.
	PMI    string `json:"pmi"`
	Number int    `json:"number"`
	Size   int    `json:"size"`
}

// SignalMessage passes on a signal, by its name without SIG.
type SignalMessage struct {
	Signal string `json:"signal"`
}

// Answer is what the agent says: lines for the user, and in the end the exit
// status or why there is none.
type Answer struct {
	Say   string `json:"say,omitempty"`
	Exit  *int   `json:"exit,omitempty"`
	Error string `json:"error,omitempty"`
}

// Name is the name of a slot's socket. instance is its agent's (see
// spool.Agent).
func Name(instance string, slot int) string {
	return fmt.Sprintf("@gangline/%s/%d", instance, slot)
}
