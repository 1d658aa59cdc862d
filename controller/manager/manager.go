package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/gangline/gangline/controller/api/config/v1alpha1"
	"github.com/gangline/gangline/controller/config"
)

// Options are what the process was started with.
type Options struct {
	// Config has been loaded by package config: with defaults, and valid.
	Config configv1alpha1.Configuration
	REST   *rest.Config
	// Version is the program's, for its metrics.
	Version string
	// Namespace is the controller's own (see Namespace).
	Namespace string
	// CertDir is the directory of tls.crt, tls.key and ca.crt. With
	// certManagement the controller writes them there.
	CertDir string
	// DNSNames are names of the certificate besides the Service's, for API
	// servers that reach the webhooks by another name. For certManagement only.
	DNSNames []string
	// HPCStatusURL is where pods on the HPC side reach the status server, without
	// a path. Empty: by its Service, as pods in the cluster do.
	HPCStatusURL string
}

// Run runs the controller until the context ends. The context's logger is the
// process's.
func Run(ctx context.Context, o Options) error {
	p := &process{Options: o, certificate: &servingCertificate{dir: o.CertDir}, up: make(chan struct{})}
	var err error
	if p.mgr, err = p.newManager(logr.FromContextOrDiscard(ctx)); err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := p.addProbes(); err != nil {
		return fmt.Errorf("registering the probes: %w", err)
	}
	if err := p.addMetrics(ctrlmetrics.Registry); err != nil {
		return err
	}
	certificatesReady, err := p.manageCertificates(ctx)
	if err != nil {
		return fmt.Errorf("preparing the certificates: %w", err)
	}
	for _, task := range []ctrlmanager.Runnable{
		onEveryReplica(func(ctx context.Context) error { return p.serveWhen(ctx, certificatesReady) }),
		onTheLeader(p.publishVersion),
	} {
		if err := p.mgr.Add(task); err != nil {
			return err
		}
	}
	return p.mgr.Start(ctx)
}

// process is one run.
type process struct {
	Options
	mgr         ctrl.Manager
	certificate *servingCertificate
	status      statusServer // nil unless the feature is on

	// up is closed when everything has been registered with the manager.
	up chan struct{}
}

func (p *process) newManager(log logr.Logger) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, l := p.Config, p.Config.LeaderElection
	restConfig := rest.CopyConfig(p.REST)
	restConfig.QPS, restConfig.Burst = *c.ClientConnection.QPS, int(*c.ClientConnection.Burst)
	leaderNamespace := l.ResourceNamespace
	if leaderNamespace == "" {
		leaderNamespace = p.Namespace
	}
	return ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:    scheme,
		Logger:    log,
		Cache:     cacheOptions(),
		NewClient: newClient,
		Metrics:   p.metrics(),
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: c.Webhook.Host, Port: int(*c.Webhook.Port), TLSOpts: []func(*tls.Config){p.tls},
		}),
		HealthProbeBindAddress:     c.Health.HealthProbeBindAddress,
		ReadinessEndpointName:      "/" + c.Health.ReadinessEndpointName,
		LivenessEndpointName:       "/" + c.Health.LivenessEndpointName,
		LeaderElection:             *l.LeaderElect,
		LeaderElectionResourceLock: l.ResourceLock,
		LeaderElectionNamespace:    leaderNamespace,
		LeaderElectionID:           l.ResourceName,
		LeaseDuration:              &l.LeaseDuration.Duration,
		RenewDeadline:              &l.RenewDeadline.Duration,
		RetryPeriod:                &l.RetryPeriod.Duration,
		// The process ends when Run returns, so the next leader need not wait.
		LeaderElectionReleaseOnCancel: true,
	})
}

// metrics asks who scrapes wherever the answer can be given in private.
func (p *process) metrics() metricsserver.Options {
	o := metricsserver.Options{BindAddress: p.Config.Metrics.BindAddress}
	if *p.Config.Metrics.SecureServing {
		o.SecureServing = true
		o.TLSOpts = []func(*tls.Config){p.tls}
		o.ExtraHandlers = profiles()
		o.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return o
}

// tls sets up each of the servers.
func (p *process) tls(c *tls.Config) {
	config.ApplyTLS(p.Config.TLS, c)
	c.GetCertificate = p.certificate.get
}

// statusClient has limits of its own, so that reports do not use up those of
// the controllers.
func (p *process) statusClient() (client.Client, error) {
	restConfig := rest.CopyConfig(p.REST)
	restConfig.QPS, restConfig.Burst = *p.Config.StatusServer.QPS, int(*p.Config.StatusServer.Burst)
	return client.New(restConfig, client.Options{Scheme: p.mgr.GetScheme(), Mapper: p.mgr.GetRESTMapper()})
}

func (p *process) statusAddress() string {
	return net.JoinHostPort("", strconv.Itoa(int(*p.Config.StatusServer.Port)))
}

// statusURL is the status server's for pods.
func (p *process) statusURL() string {
	return "https://" + net.JoinHostPort(p.serviceHost(), strconv.Itoa(int(*p.Config.StatusServer.Port)))
}

// serviceHost is the name that the certificate is for.
func (p *process) serviceHost() string {
	return p.Config.CertManagement.WebhookServiceName + "." + p.Namespace + ".svc"
}

func (p *process) addProbes() error {
	if err := p.mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return p.mgr.AddReadyzCheck("servers", p.ready)
}
