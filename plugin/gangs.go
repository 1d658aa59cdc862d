package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gangline/gangline/plugin/gangs"
)

// gangsCommand lists gangs.
func (e *env) gangsCommand() *cobra.Command {
	var all, watch, noHeaders bool
	var selector string
	var o output
	cmd := &cobra.Command{
		Use: "gangs [GANG...]", Aliases: []string{"gang", "get"},
		Short: "List gangs, their jobs and where they are",
		Example: `  kubectl gangline gangs            # those of the namespace
  kubectl gangline gangs -A -o wide # all that you may see, with more columns
  kubectl gangline gangs pi --watch`,
		ValidArgsFunction: e.completeGangs(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if watch && o.structured() {
				return fmt.Errorf("--watch has no output format %s: leave out one of both", o.format)
			}
			c, err := e.connect(&e.connection)
			if err != nil {
				return err
			}
			l := lister{env: e, clients: c, output: o, table: table{out: cmd.OutOrStdout()}, all: all, selector: selector, noHeaders: noHeaders}
			if l.refs, err = parseRefs(args); err != nil {
				return err
			}
			if watch {
				return l.watch(cmd.Context(), cmd.ErrOrStderr())
			}
			found, err := l.list(cmd.Context())
			if err != nil {
				return err
			}
			if len(found) == 0 && !o.structured() {
				fmt.Fprintln(cmd.ErrOrStderr(), "No gangs found"+l.where()+".")
				return nil
			}
			return l.print(found)
		},
	}
	o.bind(cmd, asWide, asName, asJSON, asYAML)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List the gangs of all namespaces")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "After listing, print each gang again when it changes")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "Selector of the pods' labels")
	cmd.Flags().BoolVar(&noHeaders, "no-headers", false, "Leave out the columns' titles")
	return cmd
}

func parseRefs(args []string) ([]gangs.Ref, error) {
	var refs []gangs.Ref
	for _, arg := range args {
		ref, err := gangs.ParseRef(arg)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// lister shows gangs.
type lister struct {
	*env
	*clients
	output
	table     table
	all       bool
	selector  string
	noHeaders bool
	refs      []gangs.Ref
	titled    bool
}

func (l *lister) in() string {
	if l.all {
		return metav1.NamespaceAll
	}
	return l.namespace
}

func (l *lister) where() string {
	if l.all {
		return ""
	}
	return fmt.Sprintf(" in namespace %s", l.namespace)
}

func (l *lister) list(ctx context.Context) ([]gangs.Gang, error) {
	found, err := l.clients.gangs(ctx, l.in(), l.selector)
	return l.wanted(found), err
}

// wanted are the gangs that were asked for, all if none was.
func (l *lister) wanted(found []gangs.Gang) []gangs.Gang {
	if len(l.refs) == 0 {
		return found
	}
	return slices.DeleteFunc(found, func(g gangs.Gang) bool {
		return !slices.ContainsFunc(l.refs, func(r gangs.Ref) bool { return r.Of(g) })
	})
}

func (l *lister) print(found []gangs.Gang) error {
	if l.structured() {
		return print(l.table.out, l.format, "GangList", found)
	}
	if l.format == asName {
		for _, g := range found {
			if _, err := fmt.Fprintln(l.table.out, g.Ref()); err != nil {
				return err
			}
		}
		return nil
	}
	return l.table.print(l.rows(found))
}

// column is one column of the table of gangs.
type column struct {
	title string
	wide  bool // it is shown with -o wide only
	cell  func(g gangs.Gang, now time.Time) string
}

func columns() []column {
	return []column{
		{"GANG", false, func(g gangs.Gang, _ time.Time) string { return g.Ref() }},
		{"PODS", false, func(g gangs.Gang, _ time.Time) string { return fmt.Sprintf("%d/%d", g.Ready, g.Size) }},
		{"JOB", false, func(g gangs.Gang, _ time.Time) string { return cmp.Or(g.JobID, none) }},
		{"STATE", false, func(g gangs.Gang, _ time.Time) string { return string(g.State) }},
		{"REASON", false, func(g gangs.Gang, _ time.Time) string { return cmp.Or(g.ShortReason(), none) }},
		{"NODES", false, func(g gangs.Gang, _ time.Time) string { return nodesOf(g) }},
		{"AGE", false, func(g gangs.Gang, now time.Time) string { return duration.HumanDuration(now.Sub(g.Created.Time)) }},
		{"QUEUED", true, func(g gangs.Gang, now time.Time) string { return away(g.Submitted, now) }},
		{"EXPECTED START", true, func(g gangs.Gang, now time.Time) string { return expectedStart(g, now) }},
		{"VIRTUAL NODE", true, func(g gangs.Gang, _ time.Time) string { return cmp.Or(g.VirtualNode, none) }},
		{"ALLOCATION", true, func(g gangs.Gang, _ time.Time) string { return cmp.Or(g.Allocation, none) }},
	}
}

// none is what a cell without a value shows, as kubectl has it.
const none = "<none>"

// nodesOf are the HPC nodes. Where pods of a gang that has ended were removed, it ran on others
// too, which nobody knows any more.
func nodesOf(g gangs.Gang) string {
	known := cmp.Or(gangs.Hostlist(g.HPCNodes), none)
	if known != none && g.Removed() > 0 {
		known += ",..."
	}
	return known
}

// away is how long ago something was.
func away(at *metav1.Time, now time.Time) string {
	if at == nil {
		return none
	}
	return duration.HumanDuration(now.Sub(at.Time)) + " ago"
}

// expectedStart is when a waiting gang is expected to start.
func expectedStart(g gangs.Gang, now time.Time) string {
	if g.State != gangs.Queued || g.ExpectedStart == nil {
		return none
	}
	if left := g.ExpectedStart.Sub(now); left > 0 {
		return "in " + duration.HumanDuration(left)
	}
	return "soon"
}

// rows are the gangs' rows, with the titles the first time.
func (l *lister) rows(found []gangs.Gang) [][]string {
	var rows [][]string
	var titles []string
	shown := slices.DeleteFunc(columns(), func(c column) bool { return c.wide && l.format != asWide })
	for _, c := range shown {
		titles = append(titles, c.title)
	}
	if l.all {
		titles = append([]string{"NAMESPACE"}, titles...)
	}
	if !l.titled && !l.noHeaders {
		rows, l.titled = append(rows, titles), true
	}
	for _, g := range found {
		var row []string
		if l.all {
			row = append(row, g.Namespace)
		}
		for _, c := range shown {
			row = append(row, c.cell(g, l.now()))
		}
		rows = append(rows, row)
	}
	return rows
}

// identity is what a gang is known by from one look to the next.
func identity(g gangs.Gang) string {
	return strings.Join([]string{g.Namespace, g.Ref(), g.Key}, " ")
}
