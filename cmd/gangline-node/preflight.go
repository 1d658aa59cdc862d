package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/preflight"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/wlm"
)

// preflightFlags are the flags of preflight.
type preflightFlags struct {
	config, kubeconfig, address string
	output, nodes, partition    string
	users                       []string
	gpus                        int
	timeout                     time.Duration
	noJob                       bool
}

func preflightCommand() *cobra.Command {
	var f preflightFlags
	cmd := &cobra.Command{
		Use:   "preflight --config FILE",
		Short: "Check everything that the virtual node needs, before it runs",
		Long: `Checks the API server and the node's rights there, the workload manager and its
partitions, the HPC site as each user of the identity map and, by a short job, the
HPC nodes: the spool, user namespaces, directories, clocks, GPUs, programs, and SSH
between the nodes and from here. Each line is ok, info, warn or fail, with what helps.

It may run beside the node. Its job and files are taken away when it ends, on Ctrl-C
too. The exit code is 1 if a line is fail.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPreflight(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration file")
	flags.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; empty for the pod's own ServiceAccount")
	addressFlag(cmd, &f.address)
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	flags.BoolVar(&f.noJob, "no-job", false, "submit nothing: the HPC nodes are not checked")
	flags.StringVar(&f.nodes, "nodes", "2", "HPC nodes of the job: a `number`, or all")
	flags.IntVar(&f.gpus, "gpus", -1, "GPUs on each node of the job; -1 for one where each node has one")
	flags.StringVar(&f.partition, "partition", "", "partition of the job, in place of the configured one")
	flags.StringSliceVar(&f.users, "user", nil, "HPC users as whom to check (default: those that the identity map names)")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait for the job's start")
	cobra.CheckErr(cmd.MarkFlagRequired("config"))
	return cmd
}

func runPreflight(cmd *cobra.Command, f preflightFlags) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output is text or json, not %q", f.output)
	}
	nodes := 0
	if f.nodes != "all" {
		var err error
		if nodes, err = strconv.Atoi(f.nodes); err != nil || nodes < 1 {
			return fmt.Errorf("--nodes is a number from 1 on, or all, not %q", f.nodes)
		}
	}
	config, err := loadConfig(f.config, f.address)
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return fmt.Errorf("looking up the own user: %w; it needs an entry in the user database", err)
	}
	who, unknown, err := whoIs(config, f)
	if err != nil {
		return err
	}
	o := preflight.Options{
		Version: version, Self: self(config, me), Remarks: config.Remarks(me.Username), Rights: rights(config), Ports: ports(config), Wanted: wanted(config, f.partition),
		Who: who, Unknown: unknown, Spool: config.Spool, Scratch: config.Volumes.Scratch, Directories: config.Directories(), Runtimes: config.Containers.Programs(), Agent: config.Agent, Kind: config.WorkloadManager, OneNode: config.WorkloadManager == kindLocal,
		NoJob: f.noJob, Nodes: nodes, GPUs: f.gpus, Timeout: f.timeout, Progress: cmd.ErrOrStderr(),
	}
	if rest, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig); err != nil {
		o.APIError = fmt.Errorf("reading the kubeconfig: %w", err)
	} else {
		o.API, o.APIError = preflight.NewAPI(rest)
	}
	ctx := cmd.Context()
	access := config.Sites()
	access.Lock = "" // it is the node's
	quiet := slog.New(slog.DiscardHandler)
	users, err := sites.New(access, site.Local{}, quiet)
	if err != nil {
		return err
	}
	defer users.Close() //nolint:errcheck // the process ends
	uids := &provider.UIDs{}
	o.Sites, o.Met = users, uids.Add
	var forget func()
	o.Manager, forget, o.ManagerError = preflightManager(context.WithoutCancel(ctx), config, users, uids)
	defer forget()
	report, err := preflight.Run(ctx, o)
	show := report.Text
	if f.output == "json" {
		show = report.JSON
	}
	if err := errors.Join(show(cmd.OutOrStdout()), err); err != nil {
		return err
	}
	if report.Failed() {
		return errors.New("preflight: see the lines that begin with fail")
	}
	return nil
}

// kindLocal is the workload manager that lives in gangline-node.
const kindLocal = "local"

// preflightManager makes the configured workload manager. One that lives in this process
// runs until it is forgotten, which an interrupt does not do: its job must be ended. It has
// a queue of its own, since a node that runs has the configured one.
func preflightManager(ctx context.Context, c provider.Config, users *sites.Sites, uids *provider.UIDs) (_ wlm.Manager, forget func(), err error) {
	if c.WorkloadManager != kindLocal {
		m, _, err := workloadManager(ctx, c, users, site.Local{}, uids)
		return m, func() {}, err
	}
	if err := preflight.Writable(c.Local.StateDir); err != nil {
		return nil, func() {}, fmt.Errorf("the state directory cannot be used: %w", err)
	}
	if c.Local.StateDir, err = os.MkdirTemp("", "gangline-preflight-"); err != nil {
		return nil, func() {}, fmt.Errorf("making a queue to try: %w", err)
	}
	remove := func() { _ = os.RemoveAll(c.Local.StateDir) }
	m, _, err := workloadManager(ctx, c, users, site.Local{}, uids)
	inside, ok := m.(interface {
		Run(context.Context) error
		Close() error
	})
	if err != nil || !ok {
		return m, remove, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = inside.Run(ctx) // its jobs tell
	}()
	return m, func() {
		cancel()
		<-ended
		_ = inside.Close() // what it has goes with its directory
		remove()
	}, nil
}

// self is who runs preflight, and what the configuration asks of the node's user.
func self(c provider.Config, me *user.User) preflight.Self {
	own := c.Access.Mode == "" || c.Access.Mode == sites.Own
	return preflight.Self{
		Name: me.Username, UID: os.Geteuid(),
		Root: c.Access.Mode == sites.Setuid, Ordinary: own && c.WorkloadManager != "local",
	}
}

// rights are those that the node needs with a configuration.
func rights(c provider.Config) []preflight.Right {
	all := preflight.Rights(c.Namespace, c.Kubelet.CertDir != "")
	if c.Volumes.Provision {
		all = append(all, preflight.ProvisionerRights()...)
	}
	return all
}

func ports(c provider.Config) []preflight.Port {
	var all []preflight.Port
	for _, k := range c.Ports() {
		all = append(all, preflight.Port{
			Address: k.Address, Port: k.Port, CertFile: k.CertFile, KeyFile: k.KeyFile, CertDir: k.CertDir, ClientCAFile: k.ClientCAFile,
		})
	}
	return all
}

// wanted are the partitions that the configuration names, the default one first.
func wanted(c provider.Config, asked string) []preflight.Wanted {
	var all []preflight.Wanted
	if asked != "" {
		all = append(all, preflight.Wanted{Partition: asked, By: "--partition"})
	}
	all = append(all, preflight.Wanted{Partition: c.Partition, By: "partition"})
	for _, p := range c.Partitions {
		all = append(all, preflight.Wanted{Partition: p, By: "partitions"})
	}
	for _, n := range c.Nodes {
		all = append(all, preflight.Wanted{Partition: n.Partition, By: "nodes: " + n.Name})
	}
	for i, rule := range c.Identity {
		for _, p := range append([]string{rule.Partition}, rule.Partitions...) {
			if p != "" {
				all = append(all, preflight.Wanted{Partition: p, By: fmt.Sprintf("identity[%d]", i)})
			}
		}
	}
	return all
}

// whoIs is as whom jobs are tried: each different user, account, partition and QOS of the
// identity map. unknown tells of rules that name users by what pods are.
func whoIs(c provider.Config, f preflightFlags) (all []preflight.Who, unknown []string, err error) {
	only, err := c.OnlyUser()
	if err != nil {
		return nil, nil, err
	}
	add := func(w preflight.Who) {
		if w.User == "" {
			w.User = only
		}
		if w.Partition == "" {
			w.Partition = c.Partition
		}
		if f.partition != "" {
			w.Partition = f.partition
		}
		if !slices.Contains(all, w) && (len(f.users) == 0 || slices.Contains(f.users, w.User)) {
			all = append(all, w)
		}
	}
	for i, rule := range c.Identity {
		if strings.Contains(rule.User+rule.Account, "{") {
			unknown = append(unknown, fmt.Sprintf("identity[%d] names users or accounts by namespaces (%s): check some by --user", i, rule.User))
			for _, name := range f.users {
				if slices.Contains(c.Identity.Users(), name) {
					continue // another rule names him outright
				}
				add(preflight.Who{User: name, Partition: rule.Partition, QOS: rule.QOS})
			}
			continue
		}
		add(preflight.Who{User: rule.User, Account: first(rule.Account, rule.Accounts), Partition: first(rule.Partition, rule.Partitions), QOS: first(rule.QOS, rule.QOSes)})
	}
	if len(c.Identity) == 0 {
		add(preflight.Who{})
	}
	return all, unknown, nil
}

// first is what pods get that name nothing.
func first(usual string, list []string) string {
	if usual == "" && len(list) > 0 {
		return list[0]
	}
	return usual
}
