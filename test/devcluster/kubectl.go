package main

import (
	"os"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // as in kubectl's own main: sign-in plugins of cloud clusters
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

// runKubectl does what kubectl's own main does, with args in place of the program's arguments. It ends the process
// when kubectl fails.
func runKubectl(args []string) {
	// kubectl looks at these in several places: to find plugins, for its preferences, for completion.
	os.Args = args
	// As in kubectl's own main; an odd verbosity is reported when the flags are parsed for good.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

// newKubectlCommand stands for kubectl in the help. Calls of it are caught before, because kubectl must see the
// command line as a whole.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [COMMAND] [FLAGS]",
		Short:              "Run kubectl, of the same version as the cluster",
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { runKubectl(append([]string{"kubectl"}, args...)) },
	}
}
