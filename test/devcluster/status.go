package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
)

// status is what `status` reports.
type status struct {
	state

	Dir        string `json:"dir"`
	Running    bool   `json:"running"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Problem says why a running cluster does not answer.
	Problem string `json:"problem,omitempty"`
}

func newStatusCommand() *cobra.Command {
	var dir, output string
	cmd := &cobra.Command{
		Use:   "status --dir DIR",
		Short: "Show whether a cluster is running and ready",
		Long:  "Show whether the cluster in the given folder is running. The exit code is 0 only if it is ready.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(dir)
			if err != nil {
				return err
			}
			s, err := l.status(cmd.Context())
			if err != nil {
				return err
			}
			switch output {
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(s)
			case "text":
				err = s.print(cmd.OutOrStdout())
			default:
				err = fmt.Errorf("--output must be text or json, not %q", output)
			}
			if err != nil {
				return err
			}
			if !s.ready() {
				return errSilent
			}
			return nil
		},
	}
	addDirFlag(cmd, &dir)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func (s status) ready() bool { return s.Running && s.Phase == phaseReady && s.Problem == "" }

// status reads the state, and asks the API server if there should be one.
func (l layout) status(ctx context.Context) (status, error) {
	s := status{Dir: l.dir}
	recorded, err := l.readState()
	if errors.Is(err, os.ErrNotExist) {
		s.Phase = phaseStopped
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.state = recorded
	if s.Running, err = l.running(); err != nil {
		return s, err
	}
	switch {
	case !s.Running && (s.Phase == phaseReady || s.Phase == phaseStarting):
		s.Phase = phaseFailed
		s.Error = "the cluster was killed"
		s.Components = nil
	case s.Running && s.Phase == phaseReady:
		s.Kubeconfig = l.kubeconfig()
		if err := l.askAPIServer(ctx); err != nil {
			s.Problem = err.Error()
		}
	}
	return s, nil
}

func (l layout) askAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	kubeconfig, err := os.ReadFile(l.kubeconfig())
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config, err := clientConfig(kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("the API server is not ready: %w", err)
	}
	return nil
}

func (s status) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			// The table keeps the first error for Flush.
			_, _ = fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	row("Folder", s.Dir)
	row("Phase", string(s.Phase))
	row("Problem", s.Problem)
	row("Error", s.Error)
	if s.Running {
		row("Server", s.Server)
		row("Kubeconfig", s.Kubeconfig)
		row("Started", s.Started.Format(time.RFC3339))
		row("Ready after", s.ReadyAfter)
		row("Supervisor", fmt.Sprintf("process %d", s.Supervisor.PID))
	}
	for _, component := range s.Components {
		row(component.Name, fmt.Sprintf("process %d", component.PID))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}
