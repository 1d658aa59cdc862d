package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/exec"

	"github.com/gangline/gangline/plugin/gangs"
	"github.com/gangline/gangline/plugin/shell"
)

// sshCommand opens a shell in a pod.
func (e *env) sshCommand() *cobra.Command {
	var container string
	var rank int
	var force, never bool
	cmd := &cobra.Command{
		Use: "ssh POD|GANG [COMMAND [ARG...]]", Aliases: []string{"shell"},
		Short: "Open a shell in a pod, or run a command there",
		Long: `Opens a shell in a pod where it runs on its HPC node, by the API server's exec: with the
pod's environment, files and devices. The shell is $SHELL, bash, or sh.

Of a GANG it is the pod of a rank, the first if none is named. A command is run as it is,
without a shell, and its exit code is the plugin's. Flags of the plugin come before the POD.`,
		Example: `  kubectl gangline ssh pi-worker-0-1-x7k2p
  kubectl gangline ssh --rank 3 trainjob/pi nvidia-smi -L`,
		Args:              words(1, 0, "name a pod, or a gang as in trainjob/pi"),
		ValidArgsFunction: e.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := gangs.ParseRef(args[0])
			if err != nil {
				return err
			}
			c, err := e.connect(&e.connection)
			if err != nil {
				return err
			}
			pod, err := c.runningPod(cmd.Context(), ref, rank)
			if err != nil {
				return err
			}
			s := shell.Session{
				Namespace: pod.Namespace, Pod: pod.Name, Container: cmp.Or(container, defaultContainer(pod)),
				Command: commandOf(args[1:]), Stdin: cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
			}
			interactive := len(s.Command) == 0
			if interactive {
				s.Command = shell.Login()
			}
			s.Terminal = force || interactive && !never && shell.OnTerminal(s.Stdin, s.Stdout)
			return c.session(cmd.Context(), s)
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the pod is the command's
	cmd.Flags().StringVarP(&container, "container", "c", "", "The container; by default the pod's default or first one")
	cmd.Flags().IntVar(&rank, "rank", 0, "Which pod of a gang")
	cmd.Flags().BoolVarP(&force, "tty", "t", false, "Give a command a terminal too")
	cmd.Flags().BoolVarP(&never, "no-tty", "T", false, "Give a shell no terminal")
	cmd.MarkFlagsMutuallyExclusive("tty", "no-tty")
	return cmd
}

// commandOf is the command behind a pod, and behind the "--" that kubectl's users write.
func commandOf(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}

// session runs a session, and explains its failure.
func (c *clients) session(ctx context.Context, s shell.Session) error {
	err := shell.Run(ctx, c.rest, s)
	var exit exec.CodeExitError
	if err == nil || errors.As(err, &exit) || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("running a command in pod %s: %w", s.Pod, explained(err, "create", "pods/exec", s.Namespace))
}

// runningPod is the pod of this name, or a gang's pod of a rank. It must run.
func (c *clients) runningPod(ctx context.Context, ref gangs.Ref, rank int) (*corev1.Pod, error) {
	all, err := c.gangs(ctx, c.namespace, "")
	if err != nil {
		return nil, err
	}
	found := gangs.Select(all, ref)
	if len(found) == 0 {
		return nil, notFound(ref, c.namespace)
	}
	g := found[len(found)-1]
	p := choosePod(g, ref, rank)
	if g.State.Ended() && (p == nil || p.Name != ref.Name) {
		return nil, fmt.Errorf("gang %s has ended (%s), and no pod of it runs any more; \"kubectl gangline logs %s\" shows what is left of its output", g.Ref(), g.State, g.Ref())
	}
	if p == nil {
		return nil, fmt.Errorf("gang %s has no pod of rank %d: its pods have the ranks %s", g.Ref(), rank, ranksOf(g))
	}
	if p.State != gangs.Running && p.State != gangs.Stopping && p.State != gangs.Starting {
		return nil, fmt.Errorf("pod %s does not run: it is %s; \"kubectl gangline why pod/%s\" says why", p.Name, p.State, p.Name)
	}
	return p.Object, nil
}

// choosePod is the pod that a Ref names, or else the one of a rank.
func choosePod(g gangs.Gang, ref gangs.Ref, rank int) *gangs.Pod {
	for i, p := range g.Pods {
		if p.Name == ref.Name && (ref.Kind == "" || ref.Kind == "Pod") {
			return &g.Pods[i]
		}
	}
	for i, p := range g.Pods {
		if (p.Rank != nil && *p.Rank == rank || p.Rank == nil && i == rank) && !p.State.Ended() {
			return &g.Pods[i]
		}
	}
	for i, p := range g.Pods {
		if p.Rank != nil && *p.Rank == rank || p.Rank == nil && i == rank {
			return &g.Pods[i]
		}
	}
	return nil
}

// ranksOf are the ranks that a gang has pods of.
func ranksOf(g gangs.Gang) string {
	var ranks []string
	for i, p := range g.Pods {
		rank := i // until there is a job
		if p.Rank != nil {
			rank = *p.Rank
		}
		ranks = append(ranks, strconv.Itoa(rank))
	}
	const most = 8
	if n := len(ranks); n > most {
		return ranks[0] + " to " + ranks[n-1]
	}
	return strings.Join(ranks, ", ")
}

// defaultContainerAnnotation is kubectl's.
const defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

func defaultContainer(pod *corev1.Pod) string {
	if name := pod.Annotations[defaultContainerAnnotation]; hasContainer(pod, name) {
		return name
	}
	return pod.Spec.Containers[0].Name
}
