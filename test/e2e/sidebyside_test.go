package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/test/harness"
)

// sideCase is one of many tests that mostly wait, each in a namespace of its own.
type sideCase struct {
	name string
	run  func(*world)
}

// sideBySide runs cases that mostly wait, so many at a time; -parallel bounds the groups
// that run at once.
func sideBySide(t *testing.T, env *harness.Environment, limit int, cases []sideCase) {
	var running sync.WaitGroup
	slots := make(chan struct{}, limit)
	for _, c := range cases {
		slots <- struct{}{} // in order
		running.Go(func() {
			defer func() { <-slots }()
			t.Run(c.name, func(t *testing.T) { c.run(newWorld(t, env)) })
		})
	}
	running.Wait()
}

// runAll runs cases a few at a time, and returns when all have ended: groups that wait for
// their turn with a workload manager and a node that idle would take what the others need.
func runAll(t *testing.T, env *harness.Environment, cases map[string]func(*world), prepare ...func(*world)) {
	const atATime = 2 // many of them compute
	var list []sideCase
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		list = append(list, sideCase{name, func(w *world) {
			for _, p := range prepare {
				p(w)
			}
			cases[name](w)
		}})
	}
	sideBySide(t, env, atATime, list)
}

// ownNode gives the test a virtual node of its own in its group's Slurm.
func (w *world) ownNode(name string, change func(*harness.NodeOptions)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	env, err := w.env.Another(ctx, name, change)
	require.NoError(w, err)
	w.env = env
	w.Cleanup(func() {
		if w.Failed() {
			showLog(w.T, env.Node.LogFile())
		}
		if err := env.Node.Stop(); err != nil {
			w.Errorf("ending the test's own node: %v", err)
		}
	})
}

// restartOnce starts the test's own node again when it has died, as an init system
// would. The function that it returns waits until that has happened.
func (w *world) restartOnce() (died func()) {
	done := make(chan error, 1)
	exited := w.env.Node.Exited()
	ctx := w.Context()
	go func() {
		select {
		case <-exited:
			done <- w.env.Node.Start(ctx)
		case <-ctx.Done():
			done <- ctx.Err()
		}
	}()
	return func() {
		w.Helper()
		select {
		case err := <-done:
			require.NoError(w, err)
		case <-time.After(patience):
			require.Fail(w, "the program never came to the point at which it was to die")
		}
	}
}

// waitEmpty waits until nothing is seen any more.
func (w *world) waitEmpty(what string, left func() ([]string, error)) {
	w.Helper()
	w.eventually("there is no "+what, func(context.Context) (bool, string) {
		seen, err := left()
		return err == nil && len(seen) == 0, fmt.Sprint(seen, err)
	})
}

// podsInWords are pods with what keeps them.
func podsInWords(pods []corev1.Pod) (words []string) {
	for _, p := range pods {
		words = append(words, fmt.Sprintf("%s %s %v %v %q", p.Name, p.Status.Phase, p.DeletionTimestamp, p.Finalizers, p.Status.Message))
	}
	return words
}
