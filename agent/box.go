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

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// box is what a pod has whose containers run in their images. Its maps belong to the
// slot's goroutine.
type box struct {
	runtime container.Runtime
	orders  spool.Runtime
	store   *image.Store
	secrets []byte // for registries

	images map[string]*image.Image   // of containers that have had one
	places map[string]*sandbox.Place // of runs
	count  atomic.Int64              // of processes

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
	store, err := image.Open(image.Options{
		Dir: s.fill(i.Dir), Offline: i.Offline, Mirrors: i.Mirrors, Insecure: i.Insecure, CAFile: i.CAFile,
		CredentialsFile: s.fill(i.CredentialsFile), Tool: i.Tool, MaxBytes: i.MaxBytes, MinAge: time.Duration(i.MinAgeSeconds) * time.Second,
		Program: s.cfg.Self, Logger: s.logger,
	})
	if err != nil {
		return nil, err
	}
	state, err := s.shortState(o.UID)
	if err != nil {
		return nil, err
	}
	return &box{
		runtime: runtime, orders: *o.Runtime, store: store, secrets: secrets, state: state,
		images: map[string]*image.Image{}, places: map[string]*sandbox.Place{},
	}, nil
}

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

// bring gets a container's image. It stays in the store until release is called.
func (p *pod) bring(ctx context.Context, c spool.ContainerOrders) (*image.Image, func(), error) {
	b := p.box
	if c.InImage == nil {
		return nil, nil, errors.New("the orders do not say how the container's image is run")
	}
	request := image.Request{
		Reference: c.Image, Policy: c.InImage.PullPolicy, Credentials: b.secrets,
		Form: b.runtime.Form, Accepts: b.runtime.Accepts,
		Progress: func(e image.Event) {
			p.slot.post(func() { p.life.Tell(c.Name, time.Now(), e.Type, e.Reason, e.Message) })
		},
	}
	if b.runtime.Convert != nil {
		request.Convert = func(ctx context.Context, tree, dst string) error {
			return p.slot.runTool(ctx, b.runtime.Convert(cmp.Or(b.orders.Program, b.runtime.Program), tree, dst))
		}
	}
	return b.store.Ensure(ctx, request)
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

// argv is what a container runs, by the rule of container runtimes: its command or else
// the image's entrypoint, and its args or else, if it has no command either, the image's
// cmd.
func (in inImage) argv() []string {
	switch o := in.orders; {
	case len(o.Command) > 0:
		return slices.Concat(o.Command, o.Args)
	case len(o.Args) > 0:
		return slices.Concat(in.config.Entrypoint, o.Args)
	}
	return slices.Concat(in.config.Entrypoint, in.config.Cmd)
}

// inImage is a container with its image's configuration.
type inImage struct {
	orders spool.InImage
	config v1.Config
	dir    string // of the container
}

// workingDir is where the container's program begins.
func (in inImage) workingDir() string {
	if path.IsAbs(in.dir) {
		return path.Clean(in.dir)
	}
	return path.Join("/", in.config.WorkingDir, in.dir)
}

// within is a container with what its image says, errNotYet before it is there.
func (p *pod) within(c spool.ContainerOrders) (spool.ContainerOrders, *image.Image, error) {
	img := p.box.images[c.Name]
	if img == nil {
		return c, nil, errNotYet
	}
	in := inImage{*c.InImage, img.Config, c.WorkingDir}
	c.Argv, c.WorkingDir = in.argv(), in.workingDir()
	return c, img, nil
}

// imageRecipe is a process in a container's image, without a command.
func (p *pod) imageRecipe(c spool.ContainerOrders, run int) (sandbox.Recipe, error) {
	c, img, err := p.within(c)
	if err != nil {
		return sandbox.Recipe{}, err
	}
	around, err := p.surroundings(c, run)
	if err != nil {
		return sandbox.Recipe{}, err
	}
	who := p.whoIs(c, img)
	around.image = img.Config.Env
	around.home = who.home
	libraries := p.gpuLibraries(c)
	r := sandbox.Recipe{Dir: c.WorkingDir, Env: environment(c.Env, around), Limits: p.orders.Site.Limits}
	r.Env = append(r.Env, sshVariables(around, c)...)
	r.Env = who.variables(libraries.variables(r.Env))
	root, err := p.imageRoot(c, img, around.container, who, libraries)
	if err != nil {
		return sandbox.Recipe{}, err
	}
	r.Runtime = p.runtimeOf(c, img, root, around.container)
	place := p.box.places[around.container]
	if place == nil {
		if !p.box.runtime.Assembled() {
			root = &sandbox.Root{Hostname: root.Hostname, Scratch: root.Scratch} // the runtime mounts
		}
		place = sandbox.NewPlace(root)
		p.box.places[around.container] = place
	}
	r.Place = place
	return r, nil
}

// runtimeOf is the container runtime's part of a process.
func (p *pod) runtimeOf(c spool.ContainerOrders, img *image.Image, root *sandbox.Root, run string) *sandbox.Runtime {
	b := p.box
	process := container.Process{
		Program: b.orders.Program, Options: b.orders.Options,
		Image: img.Path, Init: path.Join(runDir, sandbox.InitName),
		User: c.InImage.User, Group: c.InImage.Group, ReadOnly: c.InImage.ReadOnly,
		ID: fmt.Sprintf("%s-%d", run, b.count.Add(1)), State: b.state,
		UID: os.Getuid(), GID: os.Getgid(),
	}
	if b.runtime.Assembled() {
		process.Image, process.Twin = root.Image.View, root.Image.Twin
	} else {
		for _, m := range root.Mounts {
			if !m.IfMissing {
				process.Mounts = append(process.Mounts, container.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
			}
		}
	}
	if p.slot.spec.GPUs > 0 {
		process.GPUs = container.Vendor(b.orders.GPUs)
	}
	r := &sandbox.Runtime{
		Argv: b.runtime.Command(process), Deaf: b.runtime.Deaf, OwnSession: b.runtime.OwnSession,
		Env: []string{"PATH=" + cmp.Or(os.Getenv("PATH"), defaultPath), "HOME=" + p.slot.cfg.Home, "USER=" + p.slot.cfg.User, cookie(run)},
	}
	if b.runtime.Variables != nil {
		r.Env = override(r.Env, b.runtime.Variables(process))
	}
	return r
}

// override replaces entries of an environment.
func override(env, by []string) []string {
	for _, entry := range by {
		name, _, _ := strings.Cut(entry, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
	}
	return append(env, by...)
}

// leave gives up what a run of a container had of its image. Processes that are still in
// it keep what they need.
func (p *pod) leave(c spool.ContainerOrders, run int) {
	id := lifecycle.RunID(p.orders.UID, c.Name, run)
	if place := p.box.places[id]; place != nil {
		place.Close()
		delete(p.box.places, id)
	}
	layers := p.files.dirs.layers(id)
	p.slot.background.Go(func() {
		if err := removeAll(layers); err != nil {
			p.logger.Warn("removing what a container has written to its image", "container", c.Name, "run", run, "error", err)
		}
	})
}

// close gives up all of it.
func (b *box) close() {
	if b == nil {
		return
	}
	_ = os.Remove(b.state)
	for id, place := range b.places {
		place.Close()
		delete(b.places, id)
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
