package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/mpirun"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/provider/spool"
)

// controlled grants what launchers and ranks ask of a slot.
type controlled struct{ *slot }

var _ control.Handler = controlled{}

// Serve serves one request.
func (c controlled) Serve(ctx context.Context, r control.Request, by control.Caller) (int, error) {
	switch {
	case r.Taken != nil:
		return c.taken(ctx, *r.Taken)
	case len(by.Files) < 3:
		return 0, errors.New("a request comes with standard input, output and error")
	case r.Launch != nil:
		return c.launch(ctx, *r.Launch, by)
	case r.Rank != nil:
		return c.rank(ctx, *r.Rank, by)
	}
	return 0, errors.New("the request asks for nothing that this agent knows")
}

// serveControl opens the slot's socket and serves it as long as the slot lives.
func (s *slot) serveControl() error {
	l, err := control.Listen(s.socket())
	if err != nil {
		return err
	}
	s.background.Go(func() {
		if err := control.Serve(s.ctx, l, controlled{s}, s.logger); err != nil {
			s.post(func() { s.failure = err })
		}
	})
	return nil
}

func (s *slot) socket() string { return control.Name(s.status.Agent.Instance, s.index) }

// writeLaunchSettings tells the launchers in the pod what they are to do.
func (p *pod) writeLaunchSettings() error {
	return mpirun.WriteSettings(p.files.dirs.run(), mpirun.Settings{Socket: p.slot.socket(), Mode: p.launchMode(), PMI: p.orders.MPI.PMI})
}

// offerLaunchers puts those launchers on PATH that the node has on a container's own.
func (p *pod) offerLaunchers(c spool.ContainerOrders) error {
	search := defaultPath
	for _, e := range c.Env {
		if e.Name == "PATH" {
			search = e.Value
		}
	}
	return mpirun.Link(filepath.Join(p.files.dirs.run(), "bin"), p.slot.cfg.Self, p.launchMode(), []string{search})
}

func (p *pod) launchMode() string { return cmp.Or(p.orders.MPI.Launch, mpirun.ModeSSH) }

// offerImageLaunchers puts those launchers on PATH that a container's image has.
func (p *pod) offerImageLaunchers(c spool.ContainerOrders, img *image.Image) error {
	search := defaultPath
	for _, e := range append(slices.Clone(img.Config.Env), variables(c.Env)...) {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			search = value
		}
	}
	there := func(name string) bool {
		if img.Form != image.FormTree {
			return true // nobody has looked into it
		}
		return slices.ContainsFunc(filepath.SplitList(search), func(dir string) bool {
			return p.imageHas(img, filepath.Join(dir, name))
		})
	}
	return mpirun.Offer(filepath.Join(p.files.dirs.run(), "bin"), p.self(), p.launchMode(), there)
}

// imageHas tells whether an image has a path, or the site's binds give it one.
func (p *pod) imageHas(img *image.Image, path string) bool {
	dir, _, err := sandbox.ResolveIn(img.Path, filepath.Dir(path))
	if err != nil {
		return false
	}
	resolved := filepath.Join("/", strings.TrimPrefix(dir, img.Path), filepath.Base(path))
	places := []string{filepath.Join(img.Path, resolved)}
	for _, b := range p.box.orders.Binds {
		for _, seen := range []string{path, resolved} {
			if rest, ok := strings.CutPrefix(seen, cmp.Or(b.Target, b.Source)+"/"); ok {
				places = append(places, filepath.Join(b.Source, rest))
			}
		}
	}
	return slices.ContainsFunc(places, func(place string) bool {
		_, err := os.Lstat(place) // a link leads elsewhere from here than from the image
		return err == nil
	})
}

func variables(vars []corev1.EnvVar) []string {
	var entries []string
	for _, v := range vars {
		entries = append(entries, v.Name+"="+v.Value)
	}
	return entries
}

// ask has a question answered by the slot's goroutine.
func ask[T any](ctx context.Context, s *slot, question func() T) (T, error) {
	answers := make(chan T, 1)
	s.post(func() { answers <- question() })
	select {
	case a := <-answers:
		return a, nil
	case <-ctx.Done():
		return *new(T), ctx.Err()
	case <-s.ctx.Done():
		return *new(T), errors.New("the slot is being given back")
	}
}

// ganglook is the gang as a launcher in the slot's pod sees it.
type gangLook struct {
	gang launcher.Gang
	ssh  spool.SSH
}

func (s *slot) look(ctx context.Context) (gangLook, error) {
	look, err := ask(ctx, s, func() gangLook {
		l := gangLook{gang: launcher.Gang{Own: s.index}}
		if s.pod != nil {
			l.ssh = s.pod.orders.SSH
		}
		for k, spec := range s.slots {
			pod := launcher.Pod{Slot: k, Group: spec.Group, MPISlots: spec.MPISlots, Component: spec.Component}
			for _, n := range s.names {
				if n.Slot == k {
					pod.Address, pod.Node = n.Address, n.Node
					for _, h := range n.Hosts {
						pod.Names = append(pod.Names, strings.ToLower(h))
					}
				}
			}
			l.gang.Pods = append(l.gang.Pods, pod)
		}
		return l
	})
	if err == nil && len(look.ssh.ClientKey) == 0 {
		err = fmt.Errorf("the pod of slot %d has ended", s.index)
	}
	return look, err
}
