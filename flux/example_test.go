package flux_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/gangline/gangline/flux"
)

// Submit a job to the instance that FLUX_URI names, show what it prints, and wait for
// its end.
func ExampleOpen() {
	ctx := context.Background()
	h, err := flux.Open(ctx, "", flux.Options{})
	if errors.Is(err, flux.ErrUnavailable) {
		log.Fatal("there is no Flux here: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
	defer h.Close()

	spec := flux.NewJobspec(flux.Slots{Count: 2, Cores: 1}, "hostname")
	spec.Attributes.System.Environment["PATH"] = os.Getenv("PATH")
	id, err := h.Submit(ctx, spec, flux.SubmitOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for o, err := range h.Output(ctx, id) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s", o.Ranks, o.Data)
	}
	r, err := h.Wait(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("job %s: %s, exit code %d\n", id, r.Outcome, r.Status.Code())
}

// Follow a job's events until it has its resources.
func ExampleHandle_Events() {
	follow := func(ctx context.Context, h *flux.Handle, id flux.JobID) error {
		for e, err := range h.Events(ctx, id) {
			if err != nil {
				return err
			}
			if e.Name == "alloc" {
				return nil // leaving ends the stream at the broker as well
			}
			if e.Name == "exception" {
				x, err := e.Exception()
				return errors.Join(err, fmt.Errorf("%s: %s", x.Type, x.Note))
			}
		}
		return errors.New("the job ended without resources")
	}
	_ = follow
}
