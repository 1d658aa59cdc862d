package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
)

func main() {
	if args, ok := kubectlArgs(os.Args); ok {
		runKubectl(args)
		return
	}
	// The second signal is not caught: it ends this process at once, and with it everything it started.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errSilent) {
			fmt.Fprintln(os.Stderr, "devcluster:", err)
		}
		os.Exit(1)
	}
}

// errSilent makes the program fail without a further message, as everything was said already.
var errSilent = errors.New("failed")

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "A real Kubernetes control plane for development, without containers or root",
		Long: `devcluster runs a real Kubernetes control plane on the loopback interface: etcd, kube-apiserver,
kube-controller-manager, kube-scheduler and the JobSet controller, each a process of this one program.
There are no nodes; bring your own kubelets, real or virtual.

  devcluster up --dir /tmp/dev --detach
  export KUBECONFIG=/tmp/dev/kubeconfig
  devcluster kubectl get namespaces
  devcluster down --dir /tmp/dev

A symbolic link to this program named kubectl is kubectl.`,
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newUpCommand(),
		newDownCommand(),
		newStatusCommand(),
		newNodeCredentialsCommand(),
		newKubectlCommand(),
		newComponentCommand(),
	)
	// The Kubernetes packages register a --version of another type for all commands of a program. It does nothing
	// here, and cobra's own --version must be there first.
	root.Flags().Bool("version", false, "print the version of Kubernetes")
	root.InitDefaultHelpFlag()
	_ = root.PersistentFlags().MarkHidden("version")
	return root
}

func addDirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "the cluster's folder (required)")
	// Neither can fail for a flag that was just added.
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagDirname("dir")
}

// kubectlArgs tells whether this program was called as kubectl, by its own name or by a subcommand, and with what.
func kubectlArgs(args []string) ([]string, bool) {
	const name = "kubectl"
	switch {
	case len(args) > 0 && filepath.Base(args[0]) == name:
		return args, true
	case len(args) > 1 && args[1] == name:
		return args[1:], true
	case len(args) > 2 && args[2] == name &&
		(args[1] == cobra.ShellCompRequestCmd || args[1] == cobra.ShellCompNoDescRequestCmd):
		// The shell asks for a completion of `devcluster kubectl …`.
		return append([]string{name, args[1]}, args[3:]...), true
	default:
		return nil, false
	}
}
