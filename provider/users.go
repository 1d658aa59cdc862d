package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// Sites are the site as each HPC user sees it (see package sites).
type Sites interface {
	// For is a user's site. It waits for nothing: the site's first call does.
	For(ctx context.Context, user string) (site.Site, error)
	// Agent is the path of the agent for a user's jobs, or the fallback.
	Agent(ctx context.Context, user, fallback string) (string, error)
	// Forget ends the site of a user who has no work, and waits for nothing. Whoever asks
	// for it again gets another.
	Forget(user string)
}

// UIDs are the numbers of the users whose jobs the workload manager is asked for. Its
// methods may be called from several goroutines.
type UIDs struct {
	mu  sync.Mutex
	all []int
}

// List are those that are known so far.
func (u *UIDs) List() []int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.all)
}

// Add adds the number of a user that somebody else than Run acts for.
func (u *UIDs) Add(uid int) { u.add(uid) }

func (u *UIDs) add(uid int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.all, uid) {
		u.all = append(u.all, uid)
	}
}

// userMark stands for the user's name in the spool's path.
const userMark = "{user}"

// hpcUser is an HPC user that gangs are of.
type hpcUser struct {
	name string
	site site.Site
	root spool.Root
}

// people are the HPC users that a virtual node acts for. What the spool holds of a
// user's is read before anything is decided about his gangs: what is not read yet
// would look like nothing.
type people struct {
	sites Sites
	spool string // holds userMark where there are several
	// only is the one user that there is, where others cannot be acted for.
	only string
	uids *UIDs
	// load reads what the spool holds of a user's; read is told when that is done.
	load func(context.Context, *hpcUser) error
	read func()
	// named are those who are read though nobody asks for them: what their spools hold may
	// need to be given back.
	named func() []string
	// metrics count what is done with the sites; they may be nil.
	metrics *metrics.Process

	mu   sync.Mutex
	all  map[string]*acquaintance // by name
	life context.Context          //nolint:containedctx // the node's: loading outlives those who ask for it
}

// acquaintance is a user whose spool is being read, or has been.
type acquaintance struct {
	user  *hpcUser
	err   error     // why it is not read yet; nil once it is
	asked time.Time // when somebody last asked for the user
}

func newPeople(life context.Context, o Options, root string, counted *metrics.Process, load func(context.Context, *hpcUser) error, read func()) *people {
	return &people{
		sites: o.Sites, only: o.OnlyUser, uids: o.UIDs, spool: root, load: load, read: read,
		all: map[string]*acquaintance{}, life: life, metrics: counted,
	}
}

// ofUser are the jobs of a user's. Where there are several, another may have given a job
// of his own any name.
func (p *people) ofUser(jobs []wlm.Job, user string) []wlm.Job {
	if p.only != "" {
		return jobs
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j wlm.Job) bool { return j.User != user })
}

// whose is the user whose job it is, if his spool has been read.
func (p *people) whose(j wlm.Job) (*hpcUser, bool) {
	name := p.only
	if name == "" {
		name = j.User
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.all[name]
	if !ok || a.err != nil {
		return nil, false
	}
	return a.user, true
}

// errBeingRead is the state of a user's spool until the first attempt has ended.
var errBeingRead = errors.New("the spool is being read")

// user is a user whose spool has been read. Otherwise the error says why it has not
// been; it is being tried until it is, and read is called then.
func (p *people) user(name string) (*hpcUser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, known := p.all[name]
	if !known {
		a = &acquaintance{user: &hpcUser{name: name}, err: errBeingRead}
		p.all[name] = a
		go p.get(a)
	}
	a.asked = time.Now()
	if a.err != nil {
		return nil, fmt.Errorf("as user %s: %w", name, a.err)
	}
	return a.user, nil
}

// knows tells whether a user's spool has been read, or is being read.
func (p *people) knows(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[name] != nil
}

// now reads a user's spool at once, or fails.
func (p *people) now(ctx context.Context, name string) error {
	a := &acquaintance{user: &hpcUser{name: name}}
	if err := p.meet(ctx, a.user); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[name] = a
	return nil
}

// The pauses between two attempts to read a user's spool.
const (
	readAgain        = time.Second
	readAgainLongest = 30 * time.Second
)

// unasked is how long a user's spool is tried to be read that nobody asks for: gangs that
// wait for it ask at least every readAgainLongest.
const unasked = 10 * readAgainLongest

// get tries until a user's spool is read, or nobody waits for it: a namespace may be mapped
// to a user who does not exist. The user is the one of this goroutine until then.
func (p *people) get(a *acquaintance) {
	log := logr.FromContextOrDiscard(p.life).WithValues("user", a.user.name)
	said := ""
	for pause := readAgain; ; pause = min(2*pause, readAgainLongest) {
		err := p.meet(p.life, a.user)
		p.mu.Lock()
		a.err = err
		p.mu.Unlock()
		if err == nil {
			log.Info("read the user's spool", "spool", a.user.root)
			p.read()
			return
		}
		if err.Error() != said {
			said = err.Error()
			log.Error(err, "could not read the user's spool; trying again. Nothing is changed of the user's gangs until then")
		}
		select {
		case <-p.life.Done():
			return
		case <-time.After(pause):
		}
		if p.giveUp(a) {
			log.Info("nobody asks for the user any more, whose spool could not be read")
			return
		}
	}
}

// giveUp forgets a user whose spool has not been read, if nobody needs it.
func (p *people) giveUp(a *acquaintance) bool {
	named := p.named()
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(named, a.user.name) || time.Since(a.asked) < unasked {
		return false
	}
	delete(p.all, a.user.name)
	p.sites.Forget(a.user.name) // under the lock: whoever meets the user from now on gets another
	return true
}

// firstUID is the least uid of ordinary users (UID_MIN in login.defs(5)): below are root
// and the accounts of the system's services.
const firstUID = 1000

func (p *people) meet(ctx context.Context, u *hpcUser) error {
	s, err := p.sites.For(ctx, u.name)
	if err != nil {
		return err
	}
	me, err := s.User(ctx)
	if err != nil {
		return err
	}
	if me.UID < firstUID && p.only == "" {
		return fmt.Errorf("user %s has the uid %d there, and gangs run as ordinary users, from %d on", u.name, me.UID, firstUID)
	}
	if me.Name != u.name && p.only == "" {
		return fmt.Errorf("the HPC side calls this user %s: map to that name", me.Name)
	}
	p.uids.add(me.UID)
	u.site, u.root = p.metrics.Site(s), spool.Root(strings.ReplaceAll(p.spool, userMark, u.name))
	return p.load(ctx, u)
}

// met are the users whose spools have been read, by their names.
func (p *people) met() []*hpcUser {
	p.mu.Lock()
	defer p.mu.Unlock()
	var met []*hpcUser
	for _, a := range p.all {
		if a.err == nil {
			met = append(met, a.user)
		}
	}
	slices.SortFunc(met, func(a, b *hpcUser) int { return strings.Compare(a.name, b.name) })
	return met
}

// regroup has pods that have their places be in the gangs of those. What was found out before
// about their gangs did not know of the places, or could not be found out: a pod that is in
// no gang would look as if it were gone.
func (r *Reconciler) regroup(ctx context.Context, pods []*corev1.Pod) error {
	for _, pod := range pods {
		key, placed := r.registry.gangOf(pod.UID)
		if m, known := r.owners.known(pod.UID); !placed || known && m.key == key {
			continue
		}
		if _, err := r.owners.again(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// meetPeople makes the node's table of users, and has the spools read of those that are
// known beforehand: what is there may need to be given back, though it has no pods.
func (r *Reconciler) meetPeople(ctx context.Context, o Options, counted *metrics.Process) error {
	seal := r.keys.seal
	if o.OnlyUser != "" {
		seal = nil
	}
	load := func(ctx context.Context, u *hpcUser) error {
		mine := func(types.UID, string) bool { return true }
		var pods []*corev1.Pod
		if o.OnlyUser == "" {
			var err error
			if pods, err = listPods(ctx, r.live, client.MatchingFields{"spec.nodeName": r.config.NodeName}); err != nil {
				return err
			}
			namespaces := make(map[types.UID]string, len(pods))
			for _, p := range pods {
				namespaces[p.UID] = p.Namespace
			}
			mine = func(pod types.UID, namespace string) bool { return namespaces[pod] == namespace }
		}
		if err := r.registry.load(ctx, u, seal, mine, time.Now()); err != nil {
			return err
		}
		if err := r.regroup(ctx, pods); err != nil {
			return err
		}
		// Before any gang is looked at: what is not read yet would look like silence.
		return r.statuses.scanAll(ctx, byUser(r.registry.live())[u.name])
	}
	r.people = newPeople(ctx, o, r.config.Spool, counted, load, r.lookAtAll)
	r.people.named = func() []string { return r.identities.get().Users() }
	if o.OnlyUser != "" {
		return r.people.now(ctx, o.OnlyUser)
	}
	for _, name := range r.identities.get().Users() {
		_, _ = r.people.user(name) // it is being read from now on
	}
	return nil
}
