package flux_test

import (
	"context"
	"os"
	"testing"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/flux/fluxtest"
)

// The instance that is measured: the one that FLUX_URI names with the library of
// libraryVariable, else the doubles, which say what the bindings themselves cost.
func benchmarked(b *testing.B) *flux.Handle {
	library, uri := os.Getenv(libraryVariable), os.Getenv("FLUX_URI")
	if library == "" || uri == "" {
		dir, err := os.MkdirTemp("", "flux")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { os.RemoveAll(dir) })
		broker, err := fluxtest.Start(fluxtest.Config{Dir: dir, Nodes: []fluxtest.Node{{Name: "n0", Cores: 1}}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(broker.Close)
		if library, err = fluxtest.Library(b.TempDir()); err != nil {
			b.Fatal(err)
		}
		uri = broker.URI()
	}
	h, err := flux.Open(context.Background(), uri, flux.Options{Library: library})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(h.Close)
	return h
}

// The jobs are held, so that submission is all that is measured; they are cancelled
// after that.
func submitHeld(b *testing.B, submit func(h *flux.Handle, spec flux.Jobspec) []flux.Submitted) {
	h := benchmarked(b)
	b.ResetTimer()
	submitted := submit(h, shell(1, "true"))
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	for _, s := range submitted {
		if s.Err != nil {
			b.Fatal(s.Err)
		}
		if err := h.Cancel(context.Background(), s.ID, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSubmit(b *testing.B) {
	hold := flux.SubmitOptions{Hold: true}
	b.Run("one after the other", func(b *testing.B) {
		submitHeld(b, func(h *flux.Handle, spec flux.Jobspec) []flux.Submitted {
			all := make([]flux.Submitted, b.N)
			for i := range all {
				all[i].ID, all[i].Err = h.Submit(context.Background(), spec, hold)
			}
			return all
		})
	})
	b.Run("pipelined", func(b *testing.B) {
		submitHeld(b, func(h *flux.Handle, spec flux.Jobspec) []flux.Submitted {
			specs := make([]flux.Jobspec, b.N)
			for i := range specs {
				specs[i] = spec
			}
			return h.SubmitAll(context.Background(), specs, hold)
		})
	})
}

func BenchmarkCall(b *testing.B) {
	h := benchmarked(b)
	for b.Loop() {
		if _, err := h.Attribute(context.Background(), "size"); err != nil {
			b.Fatal(err)
		}
	}
}
