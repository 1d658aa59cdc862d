package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// Owners tells whose the jobs of a list are. What counts is a user's number: the name
// beside it is what the machine that made the list takes it for, and while that machine's
// user database is away it is none. A job without its user would look like one that has
// gone, so names that were seen before are remembered. The zero value is ready for use,
// and its methods may be called from several goroutines.
type Owners struct {
	mu    sync.Mutex
	names map[int]string
}

// Learn takes over a user's name from a source to be trusted.
func (o *Owners) Learn(uid int, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names == nil {
		o.names = map[int]string{}
	}
	o.names[uid] = name
}

// Name is the name of a user of whom a list tells both; empty if it is not known.
// Slurm's tools write "nobody" or the number itself for one they cannot look up, and
// slurmrestd writes nothing.
func (o *Owners) Name(uid int, told string) string {
	if told != "" && told != "nobody" && told != strconv.Itoa(uid) {
		o.Learn(uid, told)
		return told
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.names[uid]
}

// Among tells whether a job is of one of these users, and its user's name. An error says
// that the job counts and its user's name is not known: then the list is worth nothing.
func (o *Owners) Among(uids []int, uid int, told string) (name string, counts bool, err error) {
	if !slices.Contains(uids, uid) {
		return "", false, nil
	}
	if name = o.Name(uid, told); name == "" {
		return "", true, fmt.Errorf("a job is of user number %d, whom the machine that lists jobs has no name for: see that it knows the site's users (getent passwd %d)", uid, uid)
	}
	return name, true, nil
}
