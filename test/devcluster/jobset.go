package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"
	jobsetmetrics "sigs.k8s.io/jobset/pkg/metrics"
	jobsetwebhooks "sigs.k8s.io/jobset/pkg/webhooks"
)

// runJobSet serves JobSet's controllers and webhooks until the context ends. The JobSet API must be there already.
//
// It does what the JobSet module's own main does. That one cannot be used: it wants to be a Deployment in the
// cluster, reached through a Service, with certificates in a Secret.
func runJobSet(ctx context.Context, l layout) error {
	ctrl.SetLogger(zap.New())
	jobsetmetrics.Register()
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(l.config("jobset"))
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config, err := clientConfig(kubeconfig)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	webhookServer := webhook.NewServer(webhook.Options{
		Host:     "127.0.0.1",
		Port:     port,
		CertDir:  l.pkiDir(),
		CertName: webhookCertificate + ".crt",
		KeyName:  webhookCertificate + ".key",
	})
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme:                 scheme,
		WebhookServer:          webhookServer,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := setUpJobSet(ctx, mgr); err != nil {
		return err
	}
	// The manager runs this once the caches are filled. The webhooks fail closed, so the API server must not know
	// of them before they answer.
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if err := waitWebhookServer(ctx, webhookServer); err != nil {
			return err
		}
		caBundle, err := os.ReadFile(l.certFile(clusterCA))
		if err != nil {
			return fmt.Errorf("read the cluster's CA: %w", err)
		}
		return installJobSetWebhooks(ctx, mgr.GetClient(), webhookEndpoint{port: port, caBundle: caBundle})
	}))
	if err != nil {
		return fmt.Errorf("add the installation of the webhooks: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, jobsetapi.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the API types: %w", err)
		}
	}
	return scheme, nil
}

func setUpJobSet(ctx context.Context, mgr ctrl.Manager) error {
	if err := jobsetcontrollers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("set up the JobSet indexes: %w", err)
	}
	if err := jobsetcontrollers.SetupPodIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("set up the pod indexes: %w", err)
	}
	jobSets := jobsetcontrollers.NewJobSetReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("jobset"))
	if err := jobSets.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the JobSet controller: %w", err)
	}
	pods := jobsetcontrollers.NewPodReconciler(mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("pod"))
	if err := pods.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the pod controller: %w", err)
	}
	if err := jobsetwebhooks.Setup(mgr); err != nil {
		return fmt.Errorf("set up the webhooks: %w", err)
	}
	return nil
}

func waitWebhookServer(ctx context.Context, server webhook.Server) error {
	return poll(ctx, "the webhook server to listen", func(context.Context) error {
		return server.StartedChecker()(nil)
	})
}
