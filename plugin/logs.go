package plugin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/plugin/follow"
	"github.com/gangline/gangline/plugin/gangs"
)

// logOptions are the flags of logs.
type logOptions struct {
	follow, previous, timestamps, all bool
	container, color, sinceTime       string
	tail                              int64
	since                             time.Duration
	bare                              bool
}

// logsCommand shows the logs of all pods of a gang.
func (e *env) logsCommand() *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use: "logs GANG|POD", Aliases: []string{"log"},
		Short: "Print the logs of all pods of a gang, each line with its pod's name",
		Long: `Prints the logs of all pods of a gang, those of rank 0 first. With --follow the lines come
as they are written, each whole, until the gang has ended: over restarts of containers and
of JobSets, and when the connection breaks; each line once.`,
		Example: `  kubectl gangline logs trainjob/pi -f
  kubectl gangline logs pi --tail=20 --timestamps`,
		Args:              words(1, 1, "name a gang or pod, as in trainjob/pi"),
		ValidArgsFunction: e.completeGangs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := gangs.ParseRef(args[0])
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			c, err := e.connect(&e.connection)
			if err != nil {
				return err
			}
			l := logs{clients: c, ref: ref, o: o, errs: cmd.ErrOrStderr(), colored: o.colored(cmd.OutOrStdout())}
			l.settings, err = o.settings(e.now())
			if err != nil {
				return err
			}
			l.settings.Prefix = l.prefix
			l.settings.Trouble = func(pod *corev1.Pod, container string, err error) {
				fmt.Fprintf(l.errs, "The log of pod %s (container %s) cannot be read, and is tried again: %v\n", pod.Name, container, err)
			}
			l.lines = follow.NewLines(cmd.OutOrStdout())
			if o.follow {
				return l.stay(cmd.Context())
			}
			return l.once(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "Go on as lines are written, until the gang has ended")
	f.BoolVarP(&o.previous, "previous", "p", false, "The run of the containers before the current one")
	f.BoolVar(&o.timestamps, "timestamps", false, "Put its time before each line")
	f.BoolVar(&o.all, "all-containers", false, "All containers of the pods")
	f.StringVarP(&o.container, "container", "c", "", "The container; by default each pod's default or first one")
	f.Int64Var(&o.tail, "tail", -1, "How many of the lines that are there already, of each container; -1 for all")
	f.DurationVar(&o.since, "since", 0, "Only lines that are not older, as 5s, 2m or 3h")
	f.StringVar(&o.sinceTime, "since-time", "", "Only lines from this time (RFC 3339) on")
	f.StringVar(&o.color, "color", "auto", "Colours for the pods' names: auto, always or never")
	f.BoolVar(&o.bare, "no-prefix", false, "Leave out the pods' names")
	cmd.MarkFlagsMutuallyExclusive("follow", "previous")
	cmd.MarkFlagsMutuallyExclusive("since", "since-time")
	cmd.MarkFlagsMutuallyExclusive("container", "all-containers")
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o logOptions) check() error {
	if !slices.Contains([]string{"auto", "always", "never"}, o.color) {
		return fmt.Errorf("--color is %q: write auto, always or never", o.color)
	}
	if o.tail < -1 {
		return fmt.Errorf("--tail is %d: write a number of lines, or -1 for all", o.tail)
	}
	if o.since < 0 {
		return fmt.Errorf("--since is %s: write a duration above 0", o.since)
	}
	return nil
}

// colored tells whether the pods' names have colours. NO_COLOR is of https://no-color.org.
func (o logOptions) colored(out io.Writer) bool {
	_, terminal := onTerminal(out)
	return o.color == "always" || o.color == "auto" && terminal && os.Getenv("NO_COLOR") == ""
}

func (o logOptions) settings(now time.Time) (follow.Options, error) {
	s := follow.Options{Previous: o.previous, Timestamps: o.timestamps}
	if o.tail >= 0 {
		s.Tail = ptr.To(o.tail)
	}
	if o.since > 0 {
		s.Since = now.Add(-o.since)
	}
	if o.sinceTime != "" {
		at, err := time.Parse(time.RFC3339, o.sinceTime)
		if err != nil {
			return s, fmt.Errorf("--since-time is %q: write a time as 2026-01-31T08:00:00Z", o.sinceTime)
		}
		s.Since = at
	}
	return s, nil
}

// logs shows the logs of one gang, or of one pod.
type logs struct {
	*clients
	ref      gangs.Ref
	o        logOptions
	settings follow.Options
	lines    *follow.Lines
	errs     io.Writer
	colored  bool
}

// palette are the colours of pods' names: what terminals show well on dark and light.
var palette = []int{36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91}

// prefix begins each line of a container.
func (l *logs) prefix(pod *corev1.Pod, container string) string {
	if l.o.bare {
		return ""
	}
	name := pod.Name
	if l.o.all && len(pod.Spec.Containers)+len(pod.Spec.InitContainers) > 1 {
		name += "/" + container
	}
	if !l.colored {
		return "[" + name + "] "
	}
	return fmt.Sprintf("\x1b[%dm[%s]\x1b[0m ", palette[colorOf(pod)%len(palette)], name)
}

// colorOf is the pod's rank, or a number made of its name.
func colorOf(pod *corev1.Pod) int {
	if g := gangs.Group([]*corev1.Pod{pod}); len(g) == 1 && g[0].Pods[0].Rank != nil {
		return *g[0].Pods[0].Rank
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.Name))
	return int(h.Sum32() % uint32(len(palette)))
}

// containers are those of a pod that are wanted.
func (l *logs) containers(pod *corev1.Pod) []string {
	if l.o.container != "" {
		if !hasContainer(pod, l.o.container) {
			return nil
		}
		return []string{l.o.container}
	}
	if !l.o.all {
		return []string{defaultContainer(pod)}
	}
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Name)
	}
	return names
}

func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// narrow turns a name that is a pod's, and no gang's, into that pod.
func (l *logs) narrow(all []gangs.Gang) []gangs.Gang {
	found := gangs.Select(all, l.ref)
	if l.ref.Kind == "" && len(found) > 0 {
		if l.ref.Kind = "Gang"; found[0].Name != l.ref.Name {
			l.ref.Kind = "Pod"
		}
	}
	return found
}

// means tells whether a pod's logs are wanted.
func (l *logs) means(pod *corev1.Pod) bool {
	g := gangs.Group([]*corev1.Pod{pod})
	switch {
	case len(g) == 0:
		return false
	case l.ref.Kind == "Pod":
		return pod.Name == l.ref.Name
	case l.ref.Kind == "Gang":
		return g[0].Name == l.ref.Name // and not a pod that has the name
	}
	return l.ref.Of(g[0])
}

// once prints what there is.
func (l *logs) once(ctx context.Context) error {
	all, err := l.gangs(ctx, l.namespace, "")
	if err != nil {
		return err
	}
	found := l.narrow(all)
	if len(found) == 0 {
		return notFound(l.ref, l.namespace)
	}
	f := follow.New(ctx, l.clients, l.lines, l.settings)
	read, failed := 0, 0
	var waiting []gangs.Pod
	for _, p := range podsOf(found) {
		if !l.means(p.Object) {
			continue
		}
		if !follow.Started(p.Object) {
			waiting = append(waiting, p)
			continue
		}
		for _, name := range l.containers(p.Object) {
			read++
			if err := f.Read(p.Object, name); err != nil {
				if follow.Fatal(ctx, err) {
					return explained(err, "get", "pods/log", l.namespace)
				}
				failed++
				fmt.Fprintf(l.errs, "The log of pod %s (container %s) cannot be read: %v\n", p.Name, name, err)
			}
		}
	}
	if n := len(waiting); n > 0 {
		fmt.Fprintf(l.errs, "%d of %d pods have not started, and have no log yet: %s is %s; \"kubectl gangline why %s\" says why.\n",
			n, len(podsOf(found)), waiting[0].Name, waiting[0].State, l.ref)
	}
	switch {
	case read == 0 && len(waiting) == 0:
		return fmt.Errorf("no pod of %s has a container %q: leave out --container, or name one that \"kubectl describe pod\" shows", l.ref.Name, l.o.container)
	case failed > 0:
		return fmt.Errorf("%d of %d logs could not be read", failed, read)
	}
	return nil
}

func podsOf(found []gangs.Gang) []gangs.Pod {
	var pods []gangs.Pod
	for _, g := range found {
		pods = append(pods, g.Pods...)
	}
	return pods
}

// stay follows the gang's pods until it has ended.
func (l *logs) stay(ctx context.Context) error {
	all, err := l.gangs(ctx, l.namespace, "")
	if err != nil {
		return err
	}
	found := l.narrow(all)
	if len(found) == 0 {
		if over, err := l.over(ctx); over {
			return errors.Join(notFound(l.ref, l.namespace), err)
		}
		fmt.Fprintf(l.errs, "%s has no pods yet: waiting for them.\n", l.ref)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := follow.New(ctx, l.clients, l.lines, l.settings)
	w, err := l.watch(ctx, podWatch{
		namespace: l.namespace, selector: selectorOf(found),
		see: func(pod *corev1.Pod) {
			if l.means(pod) {
				f.See(pod, l.containers(pod))
			}
		},
		gone:    func(pod *corev1.Pod) { f.Gone(pod.UID) },
		trouble: func(err error) { fmt.Fprintln(l.errs, "The watch of the pods was interrupted, and goes on:", err) },
	})
	if err != nil {
		return err
	}
	f.Late()
	return l.untilOver(ctx, f, w)
}

// overAgain is how often a gang without pods that run is looked at: whether its owner has
// ended too.
const overAgain = time.Second

func (l *logs) untilOver(ctx context.Context, f *follow.Follower, w *watched) error {
	var look <-chan time.Time
	for {
		if look = nil; f.Quiet() {
			// Its owner may bring more pods, or have none yet.
			if over, _ := l.over(ctx); over && f.Quiet() {
				return nil
			}
			look = time.After(overAgain)
		}
		select {
		case <-f.Done():
			return explained(f.Err(), "get", "pods/log", l.namespace)
		case <-w.done:
			return w.err
		case <-f.Idle():
		case <-look:
		}
	}
}
