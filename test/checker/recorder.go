package checker

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The annotations by which a pod tells where it is.
const (
	annotationAllocation = "gangline.dev/allocation"
	annotationJob        = "gangline.dev/job-id"
	annotationNode       = "gangline.dev/hpc-node"
)

// Recorder gathers a history. Several goroutines may tell it what they see.
type Recorder struct {
	mu        sync.Mutex
	pods      map[string]*Pod
	dirs      map[string]*Dir
	lastSeen  map[string]time.Time // by pod UID
	deeds     []Deed
	sightings int
	scans     int
}

// NewRecorder makes one that has seen nothing.
func NewRecorder() *Recorder {
	return &Recorder{pods: map[string]*Pod{}, dirs: map[string]*Dir{}, lastSeen: map[string]time.Time{}}
}

// Pod tells of a pod as the API's watch has it.
func (r *Recorder) Pod(pod *corev1.Pod, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[string(pod.UID)]
	if p == nil {
		p = &Pod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
		r.pods[p.UID] = p
	}
	if pod.DeletionTimestamp != nil && p.Deleting.IsZero() {
		p.Deleting = at
	}
	s := Sight{
		At: at, Phase: string(pod.Status.Phase), Reason: pod.Status.Reason, Message: pod.Status.Message,
		Allocation: pod.Annotations[annotationAllocation], Job: pod.Annotations[annotationJob], Node: pod.Annotations[annotationNode],
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			code := int(c.State.Terminated.ExitCode)
			s.Code = &code
			if s.Message == "" {
				s.Message = strings.TrimSpace(c.State.Terminated.Reason + " " + c.State.Terminated.Message)
			}
		}
	}
	if len(p.Seen) == 0 || !same(p.last(), s) {
		p.Seen = append(p.Seen, s)
	}
}

// same tells whether two sights differ in time and words alone.
func same(a, b Sight) bool {
	return a.Phase == b.Phase && a.Reason == b.Reason && codeOf(a) == codeOf(b) &&
		a.Allocation == b.Allocation && a.Job == b.Job && a.Node == b.Node
}

// PodGone tells that the API has a pod no more.
func (r *Recorder) PodGone(uid string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pods[uid]; p != nil && p.Gone.IsZero() {
		p.Gone = at
	}
}

// Did tells of a deed.
func (r *Recorder) Did(d Deed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deeds = append(r.deeds, d)
}

// Scan looks at the directories of a spool. What is not there or cannot be read was not
// seen: the file is written by renaming, and the next look will show it.
func (r *Recorder) Scan(spool string, at time.Time) {
	paths, _ := filepath.Glob(filepath.Join(spool, "gangs", "*")) // only a bad pattern is an error
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scans++
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, ".") {
			continue
		}
		var gang struct {
			Key                string
			Generation, Groups int
		}
		if !readJSON(filepath.Join(path, "gang.json"), &gang) {
			continue
		}
		d := r.dirs[name]
		if d == nil {
			d = &Dir{Allocation: name, Gang: gang.Key, Generation: gang.Generation, Groups: gang.Groups, FirstSeen: at}
			r.dirs[name] = d
		}
		d.LastSeen = at
		var claim struct {
			JobID    string
			Acquired time.Time
		}
		if readJSON(filepath.Join(path, "claim"), &claim) && !slices.Contains(d.Claims, claim.JobID) {
			if len(d.Claims) == 0 {
				d.Claimed = claim.Acquired
			}
			d.Claims = append(d.Claims, claim.JobID)
		}
		var ended struct{ Outcome string }
		if readJSON(filepath.Join(path, "ended.json"), &ended) && !slices.Contains(d.Outcomes, ended.Outcome) {
			if len(d.Outcomes) == 0 {
				d.Ended = at
			}
			d.Outcomes = append(d.Outcomes, ended.Outcome)
		}
	}
}

func readJSON(path string, v any) bool {
	data, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(data, v) == nil
}

// LookAtProcesses looks for the machine's processes that have a Script's variables or one
// of the programs below a directory, and returns them in words.
func (r *Recorder) LookAtProcesses(proc, programs string, at time.Time) (found []string) {
	dirs, _ := filepath.Glob(filepath.Join(proc, "[0-9]*")) // only a bad pattern is an error
	seen := map[string]bool{}
	for _, dir := range dirs {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // it may have ended by now
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		uid := variable(environ, UIDVariable)
		if uid != "" {
			seen[uid] = true
		}
		if uid != "" || strings.HasPrefix(exe, programs+"/") {
			found = append(found, filepath.Base(dir)+" "+exe+" "+uid)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sightings += len(seen)
	for uid := range seen {
		r.lastSeen[uid] = at
	}
	return found
}

func variable(environ []byte, name string) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, is := bytes.CutPrefix(entry, []byte(name+"=")); is {
			return string(value)
		}
	}
	return ""
}

// History is all that was seen, with what the processes noted and the jobs that ended.
func (r *Recorder) History(processes []Process, jobs []Job, left []string) History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := History{Jobs: jobs, Deeds: slices.Clone(r.deeds), Left: left, Sightings: r.sightings, Scans: r.scans}
	last := map[string]int{} // of several processes of a pod the last was seen
	for i, p := range processes {
		last[p.Pod] = i
	}
	for i, p := range processes {
		if last[p.Pod] == i {
			p.LastSeen = r.lastSeen[p.Pod]
		}
		h.Processes = append(h.Processes, p)
	}
	for _, p := range r.pods {
		h.Pods = append(h.Pods, *p)
	}
	for _, d := range r.dirs {
		h.Dirs = append(h.Dirs, *d)
	}
	slices.SortFunc(h.Pods, func(a, b Pod) int { return strings.Compare(a.UID, b.UID) })
	slices.SortFunc(h.Dirs, func(a, b Dir) int { return strings.Compare(a.Allocation, b.Allocation) })
	return h
}
