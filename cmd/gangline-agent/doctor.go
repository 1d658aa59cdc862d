package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gangline/gangline/agent"
	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
)

func doctorCommand() *cobra.Command {
	var output, dir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at this HPC node as an agent would find it",
		Long: `Check what an agent needs of the node that this runs on: user namespaces, a
directory in memory, scratch space, its address, the GPUs of this job, and what
programs there are. Run it in a job, as in "srun -N2 gangline-agent doctor", so
that it sees what pods will see. The exit code is 1 if a check has failed.

"gangline-node preflight" runs it on several nodes at once, where it also checks
the spool and that the nodes reach each other.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output is text or json, not %q", output)
			}
			entry := sandbox.Enter()
			if entry.Ended {
				return exit(entry.Code)
			}
			cfg, err := agent.FromEnvironment(dir, 0, envOfDoctor)
			cfg.PrivateRoot = entry.Unavailable
			findings := doctor.Examine(cmd.Context(), doctorConfig(cfg, err), dir)
			if err := printFindings(cmd, output, cfg.Node, findings); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == doctor.Fail {
					return exit(1)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().StringVar(&dir, "spool", "", "a `directory` of the spool's filesystem to try files in")
	return cmd
}

func doctorConfig(cfg agent.Config, err error) doctor.Config {
	return doctor.Config{Agent: cfg, AgentError: err, Version: version, Programs: doctor.Host{}}
}

// envOfDoctor is the environment, with a job's number where there is no job: a doctor
// needs none.
func envOfDoctor(name string) string {
	if value := os.Getenv(name); value != "" || name != "GANGLINE_JOB_ID" || os.Getenv("SLURM_JOB_ID")+os.Getenv("FLUX_JOB_ID") != "" {
		return value
	}
	return "none"
}

// examine is what a task of a preflight job does.
func examine(ctx context.Context, dir string, cfg agent.Config, err error) error {
	cfg.Dir = spool.Dir(dir)
	return doctor.Serve(ctx, doctorConfig(cfg, err), os.Stdout)
}

func printFindings(cmd *cobra.Command, output, node string, findings []doctor.Finding) error {
	out := cmd.OutOrStdout()
	if output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"node": node, "findings": findings})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		// srun mixes the lines of several nodes.
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", node, f.Status, f.Check, f.Message)
		if f.Cure != "" {
			fmt.Fprintf(table, "%s\t\t\tcure: %s\n", node, f.Cure)
		}
	}
	return table.Flush()
}
