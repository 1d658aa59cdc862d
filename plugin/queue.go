package plugin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/plugin/gangs"
)

// queueCommand lists the gangs that wait, in the order in which they are expected to start.
func (e *env) queueCommand() *cobra.Command {
	var node string
	var here bool
	var o output
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List the gangs that wait for the workload manager, those that start first first",
		Long: `Lists the gangs that wait for the workload manager: of all namespaces, or, for those who
may not see these, of one.

The order is that of the starts that the workload manager expects; after these, that of
their submission. Jobs of others on the HPC cluster are before and between them.`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := e.connect(&e.connection)
			if err != nil {
				return err
			}
			in := metav1.NamespaceAll
			if here || e.overrides.Context.Namespace != "" {
				in = c.namespace
			}
			found, err := c.gangs(cmd.Context(), in, "")
			if apierrors.IsForbidden(err) && in == metav1.NamespaceAll {
				fmt.Fprintf(cmd.ErrOrStderr(), "You may not see the pods of all namespaces: this is namespace %s only.\n", c.namespace)
				in = c.namespace
				found, err = c.gangs(cmd.Context(), in, "")
			}
			if err != nil {
				return err
			}
			waiting := queueOf(found, node)
			if o.structured() {
				return print(cmd.OutOrStdout(), o.format, "GangList", waiting)
			}
			if len(waiting) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "No gang waits.")
				return nil
			}
			return (&table{out: cmd.OutOrStdout()}).print(e.queueRows(waiting))
		},
	}
	o.bind(cmd, asJSON, asYAML)
	cmd.Flags().StringVar(&node, "node", "", "Only the queue of this virtual node")
	cmd.Flags().BoolVar(&here, "this-namespace", false, "Only the gangs of the current namespace")
	return cmd
}

// queueOf are the gangs that wait for the workload manager, in their order, each virtual
// node's together.
func queueOf(found []gangs.Gang, node string) []gangs.Gang {
	waiting := slices.DeleteFunc(slices.Clone(found), func(g gangs.Gang) bool {
		return g.State != gangs.Queued && g.State != gangs.Submitting || node != "" && g.VirtualNode != node
	})
	slices.SortStableFunc(waiting, func(a, b gangs.Gang) int {
		return cmp.Or(
			cmp.Compare(a.VirtualNode, b.VirtualNode),
			earlier(a.ExpectedStart, b.ExpectedStart),
			earlier(a.Submitted, b.Submitted),
			a.Created.Compare(b.Created.Time),
		)
	})
	return waiting
}

// earlier compares two times; one that is not known is after all others.
func earlier(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(b.Time)
}

func (e *env) queueRows(waiting []gangs.Gang) [][]string {
	rows := [][]string{{"VIRTUAL NODE", "PLACE", "NAMESPACE", "GANG", "PODS", "JOB", "REASON", "QUEUED", "EXPECTED START"}}
	place, node := 0, ""
	for _, g := range waiting {
		if place++; g.VirtualNode != node {
			place, node = 1, g.VirtualNode
		}
		rows = append(rows, []string{
			g.VirtualNode, strconv.Itoa(place), g.Namespace, g.Ref(), strconv.Itoa(g.Size), cmp.Or(g.JobID, none),
			cmp.Or(g.ShortReason(), none), away(g.Submitted, e.now()), expectedStart(g, e.now()),
		})
	}
	return rows
}
