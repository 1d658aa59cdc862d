// Command gangline-node is the virtual node: see package provider.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/gangline/gangline/agent/nodump"
	"github.com/gangline/gangline/cmd/internal/logs"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/leader"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/spool"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gangline-node:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "gangline-node",
		Short:         "A virtual node that runs gangs of pods as one HPC allocation each",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), configCommand(), preflightCommand(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	})
	return root
}

func runCommand() *cobra.Command {
	var p process
	var logFormat string
	cmd := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Run the virtual node until it is told to end",
		Long: `Registers the virtual node, takes the pods that the scheduler binds to it, and
runs each gang of them as one job of the workload manager. It may be stopped and
started, or killed, at any time: jobs go on, and nothing is submitted twice.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logger(cmd.ErrOrStderr(), logFormat)
			if err != nil {
				return err
			}
			if err := nodump.Apply(); err != nil {
				return err
			}
			return p.run(logr.NewContext(cmd.Context(), log))
		},
	}
	cmd.Flags().StringVar(&p.configFile, "config", "", "configuration file")
	cmd.Flags().StringVar(&p.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; empty for the pod's own ServiceAccount")
	addressFlag(cmd, &p.address)
	cmd.Flags().StringVar(&logFormat, "log-format", "text", "text or json")
	cobra.CheckErr(cmd.MarkFlagRequired("config"))
	return cmd
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with the configuration file"}
	var address string
	validate := &cobra.Command{
		Use: "validate FILE", Short: "Check a configuration file", Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(args[0], address)
			if err != nil {
				return err
			}
			me, err := user.Current()
			if err != nil {
				return fmt.Errorf("looking up the own user: %w", err)
			}
			for _, remark := range c.Remarks(me.Username) {
				fmt.Fprintln(cmd.OutOrStdout(), "take care:", remark)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return nil
		},
	}
	addressFlag(validate, &address)
	cmd.AddCommand(validate)
	return cmd
}

// addressFlag adds the flag for what processes of one configuration do not share.
func addressFlag(cmd *cobra.Command, address *string) {
	cmd.Flags().StringVar(address, "address", os.Getenv("GANGLINE_ADDRESS"), "IP at which the API server reaches this process, in place of the configuration's kubelet.address")
}

// loadConfig reads the configuration of a process with such an address, or none of its own.
func loadConfig(file, address string) (provider.Config, error) {
	return provider.LoadConfig(file, func(c *provider.Config) {
		if address != "" {
			c.Kubelet.Address = address
		}
	})
}

// oneFile takes the name of one file.
func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one configuration file, as in gangline-node config validate node.yaml")
	}
	return nil
}

// logger makes the log of this process, the libraries' included. What fails in a session is
// its client's to know, who is told.
func logger(w io.Writer, format string) (logr.Logger, error) {
	const unhandled = "Unhandled Error"
	log, err := logs.New(w, format, slog.LevelInfo,
		logs.Expected{Message: unhandled, Error: "error executing command in container", Says: "a client's command was not run"},
		logs.Expected{Message: unhandled, Error: "error attaching to container", Says: "a client was not attached"},
		logs.Expected{Message: unhandled, Error: "error forwarding port ", Says: "a client's port was not forwarded"},
	)
	if err == nil {
		klog.SetLogger(log)
	}
	return log, err
}

// process is what one process is told that others of the same configuration are not.
type process struct {
	configFile, kubeconfig, address string
}

func (p process) load() (provider.Config, error) { return loadConfig(p.configFile, p.address) }

func (p process) run(ctx context.Context) error {
	reloader, err := provider.NewReloader(p.load)
	if err != nil {
		return err
	}
	go reloader.Run(ctx)
	config := reloader.Config()
	rest, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if !config.LeaderElection.Enabled {
		return p.lead(ctx, reloader, rest, nil)
	}
	clientset, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("making the API server's client: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("asking for the own host name: %w", err)
	}
	lease := config.Lease(host + "_" + uuid.NewString())
	end, err := standBy(config.MetricsAddress, lease.Contact.Check)
	if err != nil {
		return err
	}
	defer end() //nolint:errcheck // the process ends
	certificates, err := provider.RequestCertificates(ctx, config, clientset)
	if err != nil {
		return err
	}
	return leader.Run(ctx, clientset, lease, func(ctx context.Context) error {
		if err := end(); err != nil {
			return fmt.Errorf("making room for the leader's metrics: %w", err)
		}
		return p.lead(ctx, reloader, rest, certificates)
	})
}

// lead is the life of the virtual nodes in this process. The certificates are those that it
// asked for while it stood by.
func (p process) lead(ctx context.Context, reloader *provider.Reloader, rest *rest.Config, certificates provider.Certificates) error {
	config := reloader.Config()
	only, err := config.OnlyUser()
	if err != nil {
		return err
	}
	var own site.Local
	if only != "" {
		lock, err := spool.Lock(ctx, config.Lock, func() {
			logr.FromContextOrDiscard(ctx).Info("another process holds this node's lock; waiting for it to end", "lock", config.Lock)
		})
		if err != nil {
			return err
		}
		defer lock.Close() //nolint:errcheck // the process ends
		own.Lock = lock
	}
	log := slog.New(logr.ToSlogHandler(logr.FromContextOrDiscard(ctx)))
	users, err := sites.New(config.Sites(), own, log)
	if err != nil {
		return err
	}
	defer users.Close() //nolint:errcheck // the process ends
	uids := &provider.UIDs{}
	manager, kind, err := workloadManager(ctx, config, users, own, uids)
	if err != nil {
		return err
	}
	return provider.Run(ctx, provider.Options{
		Config: config, Manager: manager, Kind: kind, REST: rest, Version: version,
		Sites: users, OnlyUser: only, UIDs: uids, Certificates: certificates, Reloader: reloader,
	})
}
