package agent

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
)

// stay is a run of a container: what all of its processes have in common. It is made once,
// before the run's own process starts. A volume or an image may be on a shared filesystem
// that hangs, for which neither the slot nor a probe must wait; and what is made for the
// container is the container's to change from then on.
type stay struct {
	orders spool.ContainerOrders // with what the image says
	err    error                 // why the run cannot be

	root      *sandbox.Root     // nil without a private root
	relocated map[string]string // then: where what was promised is

	// In an image:

	image *image.Image
	who   who
	gpus  gpuLibraries
	place *sandbox.Place
}

// settle begins a run of a container outside of images. It looks at volumes and at the
// container's search path, and hangs as long as one of their filesystems does.
func (p *pod) settle(c spool.ContainerOrders, run int) (*stay, error) {
	s, id := &stay{orders: c}, lifecycle.RunID(p.orders.UID, c.Name, run)
	if err := p.offerLaunchers(c); err != nil {
		return nil, err
	}
	var err error
	if p.slot.cfg.PrivateRoot != nil {
		if c.SSHD != nil && !calledDirectly(c) {
			p.logger.Warn("without a private root a shell's line gets the node's own sshd; let the container's command be sshd itself", "container", c.Name)
		}
		s.relocated, err = p.files.relocations(id, c)
		return s, err
	}
	if s.root, err = p.files.privateRoot(p.orders.Hostname, id, c); err != nil {
		return nil, err
	}
	s.root.Mounts = append(s.root.Mounts, sshMounts(p.files.dirs, p.slot.cfg.Self, c)...)
	return s, nil
}

// settled notes what a run of a container has, or why it has it not, and returns what its
// own process is.
func (p *pod) settled(c spool.ContainerOrders, run int, s *stay, err error) (sandbox.Recipe, error) {
	if err != nil {
		s = &stay{err: err}
	}
	p.stays[lifecycle.RunID(p.orders.UID, c.Name, run)] = s
	p.slot.wakeSessions()
	return p.recipe(c, run)
}

// vacate gives up what a run of a container had. Processes that are still in it keep what
// they need.
func (p *pod) vacate(id string) {
	if s := p.stays[id]; s != nil && s.place != nil {
		s.place.Close()
	}
	delete(p.stays, id)
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

// moveIn begins a run of a container in its image. It looks at the image, too, see settle.
func (p *pod) moveIn(c spool.ContainerOrders, run int, img *image.Image) (*stay, error) {
	if err := p.offerImageLaunchers(c, img); err != nil {
		return nil, err
	}
	in := inImage{*c.InImage, img.Config, c.WorkingDir}
	c.Argv, c.WorkingDir = in.argv(), in.workingDir()
	id := lifecycle.RunID(p.orders.UID, c.Name, run)
	s := &stay{orders: c, image: img, who: p.whoIs(c, img), gpus: p.gpuLibraries(c)}
	var err error
	if s.root, err = p.imageRoot(c, img, id, s.who, s.gpus); err != nil {
		return nil, err
	}
	place := s.root
	if !p.box.runtime.Assembled() {
		place = &sandbox.Root{Hostname: place.Hostname, Scratch: place.Scratch} // the runtime mounts
	}
	s.place = sandbox.NewPlace(place)
	return s, nil
}

// mayVisit tells whether a session can begin in a container: in an image only while the
// container runs, as with kubelet; errNotYet if it is still to come.
func (p *pod) mayVisit(container string) error {
	if p.box == nil {
		return nil
	}
	switch e := p.current[container]; {
	case e != nil && e.process != nil:
		return nil
	case e == nil && p.box.left[container]:
		return fmt.Errorf("container %q is not running", container)
	}
	return errNotYet
}

// imageRecipe is a process of a run of a container in its image, without a command.
func (p *pod) imageRecipe(s *stay, around surroundings) sandbox.Recipe {
	around.image, around.home = s.image.Config.Env, s.who.home
	r := sandbox.Recipe{Dir: s.orders.WorkingDir, Env: environment(s.orders.Env, around), Limits: p.orders.Site.Limits, Place: s.place}
	r.Env = append(r.Env, sshVariables(around, s.orders)...)
	r.Env = s.who.variables(s.gpus.variables(r.Env))
	r.Runtime = p.runtimeOf(s, around.container)
	return r
}

// runtimeOf is the container runtime's part of a process.
func (p *pod) runtimeOf(s *stay, run string) *sandbox.Runtime {
	b, in := p.box, s.orders.InImage
	process := container.Process{
		Program: b.orders.Program, Options: b.orders.Options,
		Image: s.image.Path, Init: path.Join(runDir, sandbox.InitName),
		User: in.User, Group: in.Group, ReadOnly: in.ReadOnly,
		ID: fmt.Sprintf("%s-%d", run, b.count.Add(1)), State: b.state,
		UID: os.Getuid(), GID: os.Getgid(),
	}
	if b.runtime.Assembled() {
		process.Image, process.Twin = s.root.Image.View, s.root.Image.Twin
	} else {
		process.Mounts = asOptions(s.root.Mounts)
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

// asOptions are the mounts of a runtime that makes them itself, which may keep the first of
// two for one path (as Apptainer does), and makes them in their order: here the last one wins.
func asOptions(mounts []sandbox.Mount) []container.Mount {
	var options []container.Mount
	for i, m := range mounts {
		target := path.Clean(m.Target)
		covered := slices.ContainsFunc(mounts[i+1:], func(later sandbox.Mount) bool {
			return !later.IfMissing && path.Clean(later.Target) == target
		})
		if !m.IfMissing && !covered {
			options = append(options, container.Mount{Source: m.Source, Target: target, ReadOnly: m.ReadOnly})
		}
	}
	slices.SortStableFunc(options, func(a, b container.Mount) int {
		return cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/"))
	})
	return options
}

// override replaces entries of an environment.
func override(env, by []string) []string {
	for _, entry := range by {
		name, _, _ := strings.Cut(entry, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
	}
	return append(env, by...)
}

// leave gives up what a run of a container had of its image.
func (p *pod) leave(c spool.ContainerOrders, run int) {
	id := lifecycle.RunID(p.orders.UID, c.Name, run)
	p.vacate(id)
	p.box.left[c.Name] = true
	p.slot.wakeSessions()
	layers := p.files.dirs.layers(id)
	p.slot.background.Go(func() {
		if err := removeAll(layers); err != nil {
			p.logger.Warn("removing what a container has written to its image", "container", c.Name, "run", run, "error", err)
		}
	})
}
