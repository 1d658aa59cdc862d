package provider

import (
	"errors"
	"sync"
	"time"
)

// workersPerUser is how many gangs of one HPC user are looked at side by side where there
// are several users. A gateway is its user's own process: one that the user has stopped
// answers nothing until it is given up, and must not hold all workers for as long.
const workersPerUser = workers / 4

// errNotItsTurn says that as many gangs of the user are being looked at as may be.
var errNotItsTurn = errors.New("it is not the gang's turn")

// turnAgain is how soon a gang that waits for its turn is looked at in any case: one that is
// named may be over and take no turn, and then it names nobody after it.
const turnAgain = 30 * time.Second

// turns share the workers among users. The zero value is ready for use.
type turns struct {
	mu    sync.Mutex
	users map[string]*queued
}

// queued are the gangs of one user.
type queued struct {
	busy    int
	waiting []string // keys, in the order in which they came
}

// take gives a gang its turn, or has it wait: then next will name it.
func (t *turns) take(user, gang string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users == nil {
		t.users = map[string]*queued{}
	}
	q := t.users[user]
	if q == nil {
		q = &queued{}
		t.users[user] = q
	}
	if q.busy < workersPerUser {
		q.busy++
		return true
	}
	for _, known := range q.waiting {
		if known == gang {
			return false
		}
	}
	q.waiting = append(q.waiting, gang)
	return false
}

// done ends a turn. It names the gang that has waited longest, if there is one: it is to be
// looked at now.
func (t *turns) done(user string) (next string, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.users[user]
	q.busy--
	if len(q.waiting) > 0 {
		next, q.waiting = q.waiting[0], q.waiting[1:]
		return next, true
	}
	if q.busy == 0 {
		delete(t.users, user)
	}
	return "", false
}

// takeTurn takes a turn of the user of whom something may be asked in this look at a gang.
func (r *Reconciler) takeTurn(s *state) error {
	user := ""
	switch {
	case r.people.only != "":
	case s.user != nil:
		user = s.user.name
	case s.alloc != nil:
		user = s.alloc.gang.User
	}
	if user == "" {
		return nil
	}
	if !r.turns.take(user, s.key) {
		return errNotItsTurn
	}
	s.turn = user
	return nil
}

// endTurn has the next of the user's gangs looked at.
func (r *Reconciler) endTurn(user string) {
	if next, waits := r.turns.done(user); waits {
		r.look(next)
	}
}
