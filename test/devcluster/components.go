package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as in the components' own main
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric, as in the components' own main
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// The components' names: what they are called on the command line, in messages and in the names of their logs.
const (
	componentEtcd              = "etcd"
	componentAPIServer         = "kube-apiserver"
	componentControllerManager = "kube-controller-manager"
	componentScheduler         = "kube-scheduler"
	componentJobSet            = "jobset"
)

func componentNames() []string {
	return []string{
		componentEtcd, componentAPIServer, componentControllerManager, componentScheduler, componentJobSet,
	}
}

// newComponentCommand makes the hidden command that runs a single component. Each runs in a process of its own:
// the Kubernetes ones all want to be the one that handles signals and global flags.
func newComponentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "component NAME [FLAGS]",
		Short:  "Run one component in the foreground (started by `up`)",
		Hidden: true,
	}
	for name, newCommand := range map[string]func() *cobra.Command{
		componentAPIServer:         apiserver.NewAPIServerCommand,
		componentControllerManager: controllermanager.NewControllerManagerCommand,
		componentScheduler:         func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	} {
		cmd.AddCommand(&cobra.Command{
			Use:                name,
			DisableFlagParsing: true,
			Run: func(_ *cobra.Command, args []string) {
				component := newCommand()
				component.SetArgs(args)
				os.Exit(cli.Run(component))
			},
		})
	}
	for name, run := range map[string]func(context.Context, layout) error{
		componentEtcd:   runEtcd,
		componentJobSet: runJobSet,
	} {
		var dir string
		component := &cobra.Command{
			Use:  name,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				l, err := newLayout(dir)
				if err != nil {
					return err
				}
				if err := run(cmd.Context(), l); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			},
		}
		addDirFlag(component, &dir)
		cmd.AddCommand(component)
	}
	return cmd
}
