package plugin

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/exec"
)

// env is what the commands are given from outside.
type env struct {
	version string
	now     func() time.Time
	connect func(*connection) (*clients, error)
	connection
}

// New is the command line.
func New(version string) *cobra.Command {
	return newCommand(&env{version: version, now: time.Now, connect: (*connection).connect})
}

func newCommand(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-gangline",
		Short: "Gangs of pods on HPC clusters: where they are, why they wait, what they say",
		Long: `Shows the gangs of pods that Gangline runs on an HPC cluster, each as one job of its
workload manager. It needs no rights but those to read what it shows.

A GANG is named by its owner, with or without the kind: pi, trainjob/pi, jobset/pi,
mpijob/pi, pod/pi; or by one of its pods, or their Job.`,
		SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gangline"},
	}
	e.bind(root.PersistentFlags())
	for flag, complete := range e.connectionCompletions() {
		_ = root.RegisterFlagCompletionFunc(flag, complete) // it fails only for flags that are not there
	}
	root.AddCommand(e.gangsCommand(), e.whyCommand(), e.logsCommand(), e.sshCommand(), e.topCommand(), e.queueCommand(), e.versionCommand())
	return root
}

func (e *env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the plugin's version", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "kubectl-gangline %s (%s, %s/%s)\n", e.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// words takes so many words, most of 0 for any number, and says what is missing.
func words(least, most int, missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least {
			return errors.New(missing)
		}
		if most > 0 && len(args) > most {
			return fmt.Errorf("%q is too much: %s", args[most], missing)
		}
		return nil
	}
}

// completer is the name under which kubectl calls a plugin for completions of its arguments.
const completer = "kubectl_complete-gangline"

// Args are the arguments that a process was given. One that is called by kubectl for
// completions completes them.
func Args(argv []string) []string {
	if strings.TrimSuffix(filepath.Base(argv[0]), ".exe") == completer {
		return append([]string{cobra.ShellCompRequestCmd}, argv[1:]...)
	}
	return argv[1:]
}

// ExitCode is the exit code that an error stands for: that of a command that ran in a pod,
// or 1.
func ExitCode(err error) (code int, silent bool) {
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		return exit.Code, true
	}
	return 1, false
}
