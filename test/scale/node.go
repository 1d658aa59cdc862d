package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/simulator"
)

// envSocket names the simulator's socket.
const envSocket = "GANGLINE_SCALE_SOCKET"

// runNode is gangline-node with the simulator for its workload manager. What the
// configuration says of one is not used.
func runNode(ctx context.Context) error {
	var configFile, kubeconfig string
	cmd := &cobra.Command{Use: "gangline-node", SilenceUsage: true, SilenceErrors: true}
	run := &cobra.Command{
		Use: "run", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveNode(cmd.Context(), configFile, kubeconfig) },
	}
	run.Flags().StringVar(&configFile, "config", "", "configuration file")
	run.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	cmd.AddCommand(run)
	return cmd.ExecuteContext(ctx)
}

func serveNode(ctx context.Context, configFile, kubeconfig string) error {
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	klog.SetLogger(log)
	ctx = logr.NewContext(ctx, log)
	config, err := provider.LoadConfig(configFile)
	if err != nil {
		return err
	}
	rest, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	only, err := config.OnlyUser()
	if err != nil {
		return err
	}
	lock, err := spool.Lock(ctx, config.Lock, nil)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the process ends
	users, err := sites.New(config.Sites(), site.Local{Lock: lock}, slog.New(logr.ToSlogHandler(log)))
	if err != nil {
		return err
	}
	defer users.Close() //nolint:errcheck // the process ends
	return provider.Run(ctx, provider.Options{
		Config: config, Manager: simulator.Client{Socket: os.Getenv(envSocket)}, Kind: "Simulator", REST: rest, Version: "scale",
		Sites: users, OnlyUser: only, UIDs: &provider.UIDs{},
	})
}
