package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gangline/gangline/controller/config"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/plugins"
	"github.com/gangline/gangline/controller/plugins/trainjobstatus"
	"github.com/gangline/gangline/controller/podcheck"
	"github.com/gangline/gangline/controller/reconcile"
	"github.com/gangline/gangline/controller/statusserver"
	"github.com/gangline/gangline/controller/webhook"
)

// onTheLeader is run by the replica that reconciles.
type onTheLeader = ctrlmanager.RunnableFunc

// onEveryReplica is run by all replicas.
type onEveryReplica ctrlmanager.RunnableFunc

// Start runs it.
func (f onEveryReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false.
func (onEveryReplica) NeedLeaderElection() bool { return false }

// serveWhen registers webhooks, controllers and status server as soon as there
// are certificates: without them no webhook could be called, and TrainJobs would
// be reconciled that nobody has admitted.
func (p *process) serveWhen(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
	case <-ctx.Done():
		return nil
	}
	if err := p.certificate.load(p.mgr); err != nil {
		return err
	}
	pipe := pipeline.New(plugins.All(p.pluginOptions())...)
	pods := podcheck.New(p.mgr.GetClient())
	if err := webhook.Setup(p.mgr, pipe, pods); err != nil {
		return fmt.Errorf("registering the webhooks: %w", err)
	}
	err := reconcile.SetupWithManager(p.mgr, reconcile.Options{Pipeline: pipe, Pods: pods, Concurrency: p.concurrency()})
	if err != nil {
		return fmt.Errorf("registering the controllers: %w", err)
	}
	if err := p.addStatusServer(); err != nil {
		return fmt.Errorf("registering the status server: %w", err)
	}
	close(p.up)
	return nil
}

func (p *process) pluginOptions() plugins.Options {
	o := plugins.Options{Reader: p.mgr.GetClient()}
	if p.Config.FeatureGates[config.TrainJobStatus] {
		o.TrainJobStatus = &trainjobstatus.Options{
			URL: p.statusURL(), HPCURL: strings.TrimSuffix(p.HPCStatusURL, "/"), CA: p.certificate.authority,
		}
	}
	return o
}

func (p *process) concurrency() map[string]int {
	perKind := map[string]int{}
	for kind, n := range p.Config.Controller.GroupKindConcurrency {
		perKind[kind] = int(n)
	}
	return perKind
}

// statusServer is what the process needs of the status server.
type statusServer interface {
	Ready(*http.Request) error
}

func (p *process) addStatusServer() error {
	if !p.Config.FeatureGates[config.TrainJobStatus] {
		return nil
	}
	c, err := p.statusClient()
	if err != nil {
		return err
	}
	tlsConfig := &tls.Config{}
	p.tls(tlsConfig)
	server := statusserver.New(statusserver.Options{
		Address: p.statusAddress(), TLS: tlsConfig, Client: c, Log: p.mgr.GetLogger().WithName("statusserver"),
	})
	p.status = server
	return p.mgr.Add(server)
}

// ready is the readiness probe: an error until the servers answer.
func (p *process) ready(r *http.Request) error {
	select {
	case <-p.up:
	default:
		return errors.New("the certificates are not ready")
	}
	if err := p.mgr.GetWebhookServer().StartedChecker()(r); err != nil {
		return err
	}
	if p.status != nil {
		return p.status.Ready(r)
	}
	return nil
}
