// Command gangline-controller reconciles TrainJobs: see package controller.
package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/gangline/gangline/controller/api/config/v1alpha1"
	"github.com/gangline/gangline/controller/config"
	"github.com/gangline/gangline/controller/manager"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gangline-controller:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "gangline-controller",
		Short:         "Runs TrainJobs of the Kubeflow Trainer API as JobSets",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), configCommand(), webhooksCommand(), &cobra.Command{
		Use: "version", Short: "Print the version, and the one of Kubeflow Trainer whose API is served", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s (Kubeflow Trainer API %s)\n", version, manager.WireVersion)
		},
	})
	return root
}

// configFlags are the flags that say what the configuration is.
type configFlags struct {
	file, features, namespace string
}

func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file; without one, the defaults")
	cmd.Flags().StringVar(&f.features, "feature-gates", "", "features as name=true,name=false; they win over the file's")
	cmd.Flags().StringVar(&f.namespace, "namespace", manager.Namespace(manager.ServiceAccountNamespace),
		"the controller's own namespace; by default POD_NAMESPACE, the pod's, or "+manager.DefaultNamespace)
}

func (f *configFlags) load() (configv1alpha1.Configuration, error) {
	return config.Load(f.file, f.features)
}

func runCommand() *cobra.Command {
	var flags configFlags
	var kubeconfig, logFormat, logLevel string
	o := manager.Options{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the controller until it is told to end",
		Long: `Serves the webhooks of the Kubeflow Trainer API, builds the JobSets of TrainJobs
and keeps their statuses. It may be stopped, started or killed at any time: all
that it knows is in the API server. Several may run; one of them reconciles.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logger(logFormat, logLevel)
			if err != nil {
				return err
			}
			if o.Config, err = flags.load(); err != nil {
				return err
			}
			if o.REST, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
				return fmt.Errorf("reading the kubeconfig: %w", err)
			}
			o.Namespace, o.Version = flags.namespace, version
			log.Info("starting gangline-controller", "version", version, "namespace", o.Namespace)
			return manager.Run(logr.NewContext(cmd.Context(), log), o)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; empty for the pod's own ServiceAccount")
	cmd.Flags().StringVar(&o.CertDir, "cert-dir", filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs"),
		"directory of tls.crt, tls.key and ca.crt; written by the controller itself unless certManagement is off")
	cmd.Flags().StringSliceVar(&o.DNSNames, "cert-dns-name", nil,
		"a name of the serving certificate besides the Service's; may be repeated")
	cmd.Flags().StringVar(&o.HPCStatusURL, "hpc-status-url", "",
		"where pods on the HPC side reach the status server, such as https://gateway.example.org:10443; by default its Service")
	cmd.Flags().StringVar(&logFormat, "log-format", "text", "text or json")
	cmd.Flags().StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func configCommand() *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration and print it with all defaults",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.load()
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(c)
			if err != nil {
				return fmt.Errorf("printing the configuration: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	flags.add(cmd)
	return cmd
}

func webhooksCommand() *cobra.Command {
	var flags configFlags
	var base string
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Print the webhook configurations",
		Long: `Prints what tells the API server to ask the controller at admission, for
kubectl apply. An API server outside the cluster's network reaches the controller
by a URL: then run it with --cert-dns-name and the URL's host, which must be a
name and not an address.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkURL(base); err != nil {
				return err
			}
			c, err := flags.load()
			if err != nil {
				return err
			}
			text, err := manager.WebhookManifest(c, flags.namespace, base)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&base, "url", "", "base URL of the controller's webhook server, such as https://localhost:9443, instead of its Service")
	return cmd
}

// checkURL checks where the API server is to reach the webhooks; "" is the Service.
func checkURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("--url is as https://controller.example.org:9443, not %q", text)
	case net.ParseIP(u.Hostname()) != nil:
		return fmt.Errorf("the host of --url is the address %s: the controller's certificate is made for names; write a name that the API server can look up", u.Hostname())
	}
	return nil
}
