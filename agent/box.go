package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// box is what a pod has whose containers run in their images. What changes in it belongs
// to the slot's goroutine.
type box struct {
	runtime container.Runtime
	orders  spool.Runtime
	images  image.Options
	store   *image.Store // nil until it is open; it may be on a shared filesystem that hangs
	secrets []byte       // for registries

	left  map[string]bool // containers of which a run has ended
	count atomic.Int64    // of processes

	// state is a short path of the directory in which a runtime keeps books: podman takes
	// none of more than 50 characters.
	state string
}

// newBox makes the box of a pod, nil for one without a container runtime.
func (s *slot) newBox(o spool.PodOrders) (*box, error) {
	if o.Runtime == nil {
		return nil, nil
	}
	runtime, found := container.Find(o.Runtime.Name)
	if !found {
		return nil, &podError{wellknown.ReasonInvalidOrders, fmt.Errorf("this agent does not know the container runtime %q: update gangline-agent", o.Runtime.Name)}
	}
	if why := s.cfg.PrivateRoot; why != nil {
		return nil, &podError{wellknown.ReasonPrivateRootUnavailable, fmt.Errorf(
			"the container runtime %s needs user namespaces, and this node allows none: %w; have them allowed on the HPC nodes, or ask for the runtime host (gangline.dev/runtime)", runtime.Name, why)}
	}
	secrets, err := image.MergeCredentials(o.Runtime.PullSecrets...)
	if err != nil {
		return nil, &podError{wellknown.ReasonInvalidOrders, fmt.Errorf("the pod's imagePullSecrets: %w", err)}
	}
	i := o.Runtime.Images
	images := image.Options{
		Dir: s.fill(i.Dir), Offline: i.Offline, Mirrors: i.Mirrors, Insecure: i.Insecure, CAFile: i.CAFile,
		CredentialsFile: s.fill(i.CredentialsFile), Tool: i.Tool, MaxBytes: i.MaxBytes, MinAge: time.Duration(i.MinAgeSeconds) * time.Second,
		Program: s.cfg.Self, Run: s.runTool, Logger: s.logger,
		Converters: map[image.Form]string{image.FormSIF: cmp.Or(o.Runtime.Program, runtime.Program)},
	}
	state, err := s.shortState(o.UID)
	if err != nil {
		return nil, err
	}
	return &box{
		runtime: runtime, orders: *o.Runtime, images: images, secrets: secrets, state: state,
		left: map[string]bool{},
	}, nil
}

// closed tells that the image store is still to be opened.
func (b *box) closed() bool { return b != nil && b.store == nil }

// statePrefix begins the names of links to runtimes' books.
const statePrefix = "books-"

// shortState makes a link to where a pod's runtime keeps books, and takes away those that
// dead agents left.
func (s *slot) shortState(uid string) (string, error) {
	const most, sum32 = 40, 8
	prefix := filepath.Join(s.cfg.Runtime, statePrefix)
	if len(prefix)+sum32 > most {
		prefix = filepath.Join("/tmp", own()+"-"+statePrefix) // where nobody can put another in a link's place
	}
	links, err := filepath.Glob(prefix + "*")
	if err != nil {
		return "", fmt.Errorf("making the container runtime's directory: %w", err)
	}
	for _, link := range links {
		if _, err := os.Stat(link); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(link)
		}
	}
	sum := fnv.New32a()
	_, _ = fmt.Fprint(sum, s.dirName(), uid)
	link, dir := fmt.Sprintf("%s%0*x", prefix, sum32, sum.Sum32()), filepath.Join(s.dirs(uid).memory, "runtime")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the container runtime's directory: %w", err)
	}
	if err := os.Symlink(dir, link); err != nil {
		return "", fmt.Errorf("making the container runtime's directory: %w", err)
	}
	return link, nil
}

// fill puts the user in a path's place for it.
func (s *slot) fill(path string) string {
	return strings.NewReplacer(spool.FieldUser, s.cfg.User, spool.FieldHome, s.cfg.Home).Replace(path)
}

// held is an image in the store, which stays there until release is called.
type held struct {
	*image.Image
	release func()
}

// bring gets a container's image.
func (p *pod) bring(ctx context.Context, c spool.ContainerOrders) (held, error) {
	b := p.box
	if c.InImage == nil {
		return held{}, errors.New("the orders do not say how the container's image is run")
	}
	request := image.Request{
		Reference: c.Image, Policy: c.InImage.PullPolicy, Credentials: b.secrets,
		Form: b.runtime.Form, Accepts: b.runtime.Accepts,
		Progress: func(e image.Event) {
			p.slot.post(func() { p.life.Tell(c.Name, time.Now(), e.Type, e.Reason, e.Message) })
		},
	}
	return leaveBehind(ctx, p.slot, func() (held, error) {
		img, release, err := b.store.Ensure(ctx, request)
		return held{img, release}, err
	}, func(h held) { h.release() })
}

// unpulled notes that a container has no image.
func (p *pod) unpulled(c spool.ContainerOrders, err error) {
	reason, message := image.ReasonErrImagePull, err.Error()
	var known *image.Error
	switch {
	case errors.As(err, &known):
		reason, message = known.Reason, known.Message
	case errors.Is(err, context.Canceled):
		reason = ""
	}
	if reason != "" {
		p.logger.Warn("a container has no image", "container", c.Name, "reason", reason, "error", message)
	}
	p.life.Unpulled(c.Name, time.Now(), c.Image, reason, message)
}

// close gives up what the pod's runs had, and ends the sessions that are about to begin.
func (p *pod) close() {
	p.cancel(errPodEnded)
	for id := range p.stays {
		p.vacate(id)
	}
	if p.box != nil {
		_ = os.Remove(p.box.state)
	}
}

// who is the process's user as its image sees it.
type who struct {
	uid, gid int64
	home     string
}

// variables adds what a program has to know of its user.
func (w who) variables(env []string) []string {
	if w.uid != 0 {
		return env
	}
	// Root of the image alone: what launchers refuse to root does no harm.
	for _, name := range []string{"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"} {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env = append(env, name+"=1")
		}
	}
	return env
}

// whoIs tells who a container's processes are.
func (p *pod) whoIs(c spool.ContainerOrders, img *image.Image) who {
	w := who{uid: int64(os.Getuid()), gid: int64(os.Getgid()), home: p.privateHome()}
	if p.box.orders.HomeOfUser {
		w.home = p.slot.cfg.Home
	}
	if p.box.runtime.Root {
		w.uid, w.gid = 0, 0
	}
	if c.InImage.Group != nil {
		w.gid = *c.InImage.Group
	}
	if c.InImage.User == nil && !p.box.runtime.Root {
		return w
	}
	if c.InImage.User != nil {
		w.uid = *c.InImage.User
	}
	if !p.box.orders.HomeOfUser && img.Form == image.FormTree {
		if home := homeIn(readIn(img.Path, passwdFile), w.uid); home != "" && home != "/" {
			w.home = home
		}
	}
	return w
}

// privateHome is the home directory that a pod has for itself.
func (p *pod) privateHome() string {
	return path.Join("/home", cmp.Or(p.slot.cfg.User, strconv.Itoa(os.Getuid())))
}
