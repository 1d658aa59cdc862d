package plugin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/plugin/explain"
	"github.com/gangline/gangline/plugin/gangs"
)

// whyCommand explains one gang, pod, TrainJob or JobSet.
func (e *env) whyCommand() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "why [KIND/]NAME", Aliases: []string{"explain"},
		Short: "Say in plain English what a pod, TrainJob, JobSet or Job waits for, or why it ended",
		Example: `  kubectl gangline why pi             # a gang, TrainJob, JobSet or pod
  kubectl gangline why trainjob/pi
  kubectl gangline why pod pi-worker-0-1-x7k2p`,
		Args:              words(1, 2, "name a gang, TrainJob, JobSet, Job or pod, as in pi, trainjob/pi or \"pod pi-worker-0-1-x7k2p\""),
		ValidArgsFunction: e.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			ref, err := gangs.ParseRef(args...)
			if err != nil {
				return err
			}
			c, err := e.connect(&e.connection)
			if err != nil {
				return err
			}
			q := inquiry{clients: c, ref: ref}
			found, err := q.answer(cmd.Context(), explain.Facts{Now: e.now()})
			for _, unread := range q.unread {
				fmt.Fprintln(cmd.ErrOrStderr(), "Not taken into account:", unread)
			}
			if err != nil {
				return err
			}
			if o.structured() {
				return print(cmd.OutOrStdout(), o.format, "ExplanationList", found)
			}
			var texts []string
			width, wrapped := onTerminal(cmd.OutOrStdout())
			for _, x := range found {
				if wrapped {
					x.Text = wrap(x.Text, min(width, widest))
				}
				texts = append(texts, x.Text)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(texts, "\n\n"))
			return err
		},
	}
	o.bind(cmd, asJSON, asYAML)
	return cmd
}

// inquiry gathers what can be read of one object.
type inquiry struct {
	*clients
	ref    gangs.Ref
	unread []error
}

// answer explains what the user asked for: one object, or all gangs of it.
func (q *inquiry) answer(ctx context.Context, f explain.Facts) ([]explain.Explanation, error) {
	pods, err := q.pods(ctx, q.namespace, "")
	q.note(err)
	found := gangs.Select(gangs.Group(pods), q.ref)
	name := q.ref.Name
	if len(found) > 0 {
		name = found[0].Name
	}
	if q.ownedBy(found, "TrainJob") {
		f.TrainJob = &v1alpha1.TrainJob{}
		if err := q.get(ctx, trainJobs, q.namespace, name, f.TrainJob); err != nil {
			f.TrainJob = nil
			q.note(err)
		}
	}
	if q.ownedBy(found, "JobSet", "TrainJob") {
		f.JobSet = &jobset.JobSet{}
		if err := q.get(ctx, jobSets, q.namespace, name, f.JobSet); err != nil {
			f.JobSet, f.JobSetUnread = nil, !apierrors.IsNotFound(err)
			q.note(err)
		}
	}
	if len(found) == 0 && f.TrainJob == nil && f.JobSet == nil {
		return nil, q.nothing(pods)
	}
	f.Events = q.warnings(ctx)
	if len(found) == 0 {
		return []explain.Explanation{explain.Explain(f)}, nil
	}
	var answers []explain.Explanation
	for _, g := range found {
		f.Gang, f.Pod = &g, q.pod(g)
		answers = append(answers, explain.Explain(f))
	}
	return answers, nil
}

// note keeps why something could not be read. That it does not exist is no trouble.
func (q *inquiry) note(err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		q.unread = append(q.unread, err)
	}
}

// ownedBy tells whether the object may be, or be owned by, one of these kinds.
func (q *inquiry) ownedBy(found []gangs.Gang, kinds ...string) bool {
	for _, kind := range kinds {
		if q.ref.Kind == kind || len(found) == 0 && (q.ref.Kind == "" || q.ref.Kind == "JobSet") || len(found) > 0 && found[0].Kind == kind {
			return true
		}
	}
	return false
}

// pod is the one that was asked for, nil if the whole gang was.
func (q *inquiry) pod(g gangs.Gang) *gangs.Pod {
	if q.ref.Kind != "Pod" && g.Name == q.ref.Name || q.ref.Kind != "" && q.ref.Kind != "Pod" && q.ref.Kind != "Gang" {
		return nil
	}
	for i, p := range g.Pods {
		if p.Name == q.ref.Name {
			return &g.Pods[i]
		}
	}
	return nil
}

// nothing says that there is no such object, or what it is instead.
func (q *inquiry) nothing(pods []*corev1.Pod) error {
	for _, pod := range pods {
		if pod.Name == q.ref.Name {
			return fmt.Errorf("pod %s is none of Gangline's: it does not tolerate the virtual node's taint, or runs on another node; \"kubectl describe pod %s\" says more of it",
				pod.Name, pod.Name)
		}
	}
	if q.ref.Kind == "Job" {
		return fmt.Errorf("no pod of Job %[1]s in namespace %[2]s is Gangline's: it has none, or they run on other nodes; \"kubectl describe job %[1]s -n %[2]s\" says more of it", q.ref.Name, q.namespace)
	}
	return notFound(q.ref, q.namespace)
}

// notFound says that there is no such gang.
func notFound(ref gangs.Ref, namespace string) error {
	return fmt.Errorf("there is no gang %s in namespace %s: \"kubectl gangline gangs -A\" shows all that you may see, and --namespace chooses one", ref, namespace)
}

// warnings are the namespace's.
func (q *inquiry) warnings(ctx context.Context) []corev1.Event {
	list, err := q.kube.CoreV1().Events(q.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("type", corev1.EventTypeWarning).String(),
	})
	if err != nil {
		q.note(explained(err, "list", "events", q.namespace))
		return nil
	}
	return list.Items
}
