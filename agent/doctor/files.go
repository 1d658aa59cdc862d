package doctor

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/spool"
)

// Prefix begins the name of an allocation whose agents are doctors. It is part of the
// name and in no file, so that an agent knows even where it cannot read the spool.
const Prefix = "gangline-preflight-"

// Examines tells whether the agents of a directory are doctors.
func Examines(dir string) bool { return strings.HasPrefix(filepath.Base(dir), Prefix) }

// OrderFile, DoneFile and ReportFile are the paths of the files beside those of a gang:
// what is to be done, the sign that all have been heard, and what a task has found.
func OrderFile(d spool.Dir) string         { return filepath.Join(string(d), "doctor.json") }
func DoneFile(d spool.Dir) string          { return filepath.Join(string(d), "done.json") }
func ReportFile(d spool.Dir, t int) string { return filepath.Join(d.Slot(t), "report.json") }

// Order is doctor.json, which preflight writes.
type Order struct {
	// Tasks is how many doctors there are, one on a node.
	Tasks int `json:"tasks"`
	// GPUs is how many GPUs each was promised.
	GPUs int `json:"gpus,omitempty"`
	// Scratch is the site's rule for scratch volumes (see spool.Gang), Directories those
	// of the HPC nodes that the configuration names for volumes.
	Scratch     string   `json:"scratch,omitempty"`
	Directories []string `json:"directories,omitempty"`
	// Runtimes are the container runtimes that pods may choose, by their names, with their
	// programs; an empty one is the usual.
	Runtimes map[string]string `json:"runtimes,omitempty"`
	// Version is the node's version.
	Version string `json:"version"`
	// ClientKey is the public key of preflight's own SSH client (an authorized_keys
	// line).
	ClientKey []byte `json:"clientKey"`
	// PeerSeconds is how long doctors wait for each other, and LifeSeconds how long they
	// stay to be asked.
	PeerSeconds int `json:"peerSeconds"`
	LifeSeconds int `json:"lifeSeconds"`
}

// Hello is a task's status.json: a doctor is there, and this is where it can be asked.
// The keys' private halves never leave its memory.
type Hello struct {
	spool.Status
	HostKey   []byte `json:"hostKey"`
	ClientKey []byte `json:"clientKey"`
}

// Report is what a doctor has found.
type Report struct {
	Task     int       `json:"task"`
	Node     string    `json:"node"`
	Findings []Finding `json:"findings"`
	// Claimed tells that this one of all got the claim that all have tried to take.
	Claimed bool `json:"claimed,omitempty"`
	// LockHeld tells whether the lock that the first task holds was held for this one
	// too; nil for the first, and where it could not be tried.
	LockHeld *bool     `json:"lockHeld,omitempty"`
	Written  time.Time `json:"written"`
}

// Mark begins the line of the job's output that holds a report which could not be
// written into the spool.
const Mark = "gangline-doctor-report: "
