package image_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/image/fetch"
	"github.com/gangline/gangline/agent/image/lease"
)

// helper is the variable that makes this program another agent (or its child "pull").
const helper = "GANGLINE_TEST_AGENT"

// order is what another agent does.
type order struct {
	Options   image.Options
	Reference string
	Form      image.Form
}

// done is what it says of it.
type done struct {
	Path   string
	Events []image.Event
	Error  string
}

// The paces of tests: on a machine with much to do an agent may show no sign of life for
// long, and only where one is dead must the others not wait.
var (
	patient = lease.Pace{Beat: 20 * time.Millisecond, Dead: time.Minute}
	hasty   = lease.Pace{Beat: 20 * time.Millisecond, Dead: 500 * time.Millisecond}
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "pull" && os.Args[2] == "--job" {
		if err := fetch.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(helper); text != "" {
		os.Exit(act(text))
	}
	os.Exit(m.Run())
}

func act(text string) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var d done
	r := image.Request{Reference: o.Reference, Form: o.Form, Policy: corev1.PullIfNotPresent}
	r.Progress = func(e image.Event) { d.Events = append(d.Events, e) }
	store, err := image.Open(o.Options)
	if err == nil {
		store.SetPace(patient)
		var got *image.Image
		var release func()
		if got, release, err = store.Ensure(context.Background(), r); err == nil {
			d.Path = got.Path
			defer release()
		}
	}
	if err != nil {
		d.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return 1
	}
	return 0
}

// another is a command that is another agent.
func another(t *testing.T, o order) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), helper+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}
