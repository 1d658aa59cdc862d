package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gangline/gangline/test/harness"
)

// The control plane, with the CRDs in it, and the administrator's client. TestMain
// sets them once, before any test runs.
var (
	control   *harness.ControlPlane
	apiServer client.Client
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	log.SetLogger(logr.Discard()) // the client's own; the tests say what they see
	dir, err := os.MkdirTemp("", "gangline-api.")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no directory for the control plane:", err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // only files of a cluster that has ended
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	control, err = harness.StartControlPlane(ctx, filepath.Join("..", "..", "bin"), dir, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "no control plane for the tests (make devcluster builds it):", err)
		return 1
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := control.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := errors.Join(connect(), install(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "no CRDs for the tests:", err)
		return 1
	}
	return m.Run()
}

func connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1 // a few hundred requests; nobody else is there to be fair to
	apiServer, err = client.New(config, client.Options{})
	return err
}

// install puts the CRDs in as users do: some create them, and the next version
// comes by a server-side apply.
func install(ctx context.Context) error {
	crds, err := crdFiles()
	if err != nil {
		return err
	}
	for _, command := range [][]string{{"create"}, {"apply", "--server-side"}} {
		if _, err := control.Kubectl(ctx, crds, append(command, "-f", "-")...); err != nil {
			return err
		}
	}
	_, err = control.Kubectl(ctx, crds, "wait", "--for=condition=Established", "--timeout=1m", "-f", "-")
	return err
}

// crdFiles is the text of all CRDs.
func crdFiles() (string, error) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "charts", "gangline", "crds", "*.yaml"))
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		return "", errors.New("there are none in charts/gangline/crds: run make generate")
	}
	var all bytes.Buffer
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}
