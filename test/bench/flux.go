package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/flux/fluxtest"
	"github.com/gangline/gangline/test/harness"
)

// How many jobs are submitted in a round: one after the other, pipelined, and one after the
// other by Flux's own program, which is slower.
const (
	fluxOneByOne  = 100
	fluxPipelined = 1000
	fluxByProgram = 10
)

// measureFlux reports how many jobs a second are submitted by the bindings, next to Flux's
// own program where there is a real instance; else with the doubles, which shows what the
// bindings themselves cost. The jobs are held, so that nothing else is measured.
func (b *bench) measureFlux(ctx context.Context) (err error) {
	uri, library, stop, err := fluxInstance()
	if err != nil {
		return err
	}
	defer stop()
	h, err := flux.Open(ctx, uri, flux.Options{Library: library})
	if err != nil {
		return err
	}
	defer h.Close()
	version, err := h.Attribute(ctx, "version")
	if err != nil {
		return err
	}
	methods := bindings(h)
	if program, err := exec.LookPath("flux"); err == nil && version != fluxtest.Version {
		methods = append(methods, fluxProgram(program, uri)...)
	}
	rates := make([][]float64, len(methods))
	for round := range b.rounds + 1 {
		for i, m := range methods {
			began := time.Now()
			if err := m.submit(ctx); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			took := time.Since(began).Seconds()
			if round > 0 { // the first warms up
				rates[i] = append(rates[i], float64(m.jobs)/took)
			}
			if err := cancelAll(ctx, h); err != nil {
				return err
			}
		}
	}
	for i, m := range methods {
		b.report.add("flux "+version+", submissions", figure{What: m.name, Unit: "jobs/s", Ours: rates[i]})
	}
	return nil
}

// fluxInstance is the real instance that the variables name, or the doubles.
func fluxInstance() (uri, library string, stop func(), err error) {
	uri, library = os.Getenv(harness.FluxURIVariable), os.Getenv(harness.FluxLibraryVariable)
	if uri != "" && library != "" {
		return uri, library, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "flux")
	if err != nil {
		return "", "", nil, fmt.Errorf("making the double's directory: %w", err)
	}
	if library, err = fluxtest.Library(dir); err != nil {
		return "", "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	broker, err := fluxtest.Start(fluxtest.Config{Dir: dir, Nodes: []fluxtest.Node{{Name: "n0", Cores: 1}}})
	if err != nil {
		return "", "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return broker.URI(), library, func() { broker.Close(); _ = os.RemoveAll(dir) }, nil
}

// submission is a way to submit so many jobs.
type submission struct {
	name   string
	jobs   int
	submit func(context.Context) error
}

func bindings(h *flux.Handle) []submission {
	spec := flux.NewJobspec(flux.Slots{Count: 1, Cores: 1}, "true")
	held := flux.SubmitOptions{Hold: true}
	return []submission{
		{"Submit, one after the other", fluxOneByOne, func(ctx context.Context) error {
			for range fluxOneByOne {
				if _, err := h.Submit(ctx, spec, held); err != nil {
					return err
				}
			}
			return nil
		}},
		{"SubmitAll, pipelined", fluxPipelined, func(ctx context.Context) error {
			specs := make([]flux.Jobspec, fluxPipelined)
			for i := range specs {
				specs[i] = spec
			}
			for _, s := range h.SubmitAll(ctx, specs, held) {
				if s.Err != nil {
					return s.Err
				}
			}
			return nil
		}},
	}
}

// fluxProgram is what Flux's users do.
func fluxProgram(program, uri string) []submission {
	run := func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, program, append([]string{"submit", "--urgency=0"}, args...)...)
		cmd.Env = append(os.Environ(), "FLUX_URI="+uri)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	return []submission{
		{"flux submit, one after the other", fluxByProgram, func(ctx context.Context) error {
			for range fluxByProgram {
				if err := run(ctx, "true"); err != nil {
					return err
				}
			}
			return nil
		}},
		{"flux submit --cc, pipelined", fluxPipelined, func(ctx context.Context) error {
			return run(ctx, fmt.Sprintf("--cc=1-%d", fluxPipelined), "true")
		}},
	}
}

// cancelAll cancels what is held.
func cancelAll(ctx context.Context, h *flux.Handle) error {
	jobs, err := h.Jobs(ctx, flux.Query{Constraint: flux.And(flux.Users(os.Getuid()), flux.InStates(flux.StatesActive)), Attributes: []string{"state"}})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if err := h.Cancel(ctx, j.ID, "measured"); err != nil {
			return err
		}
	}
	return nil
}
