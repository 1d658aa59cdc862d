package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/gangline/gangline/provider/observe/health"
	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/observe/tracing"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// stage is where the gang is in its life.
func (s *state) stage() metrics.Stage {
	a := s.alloc
	switch {
	case s.ending != nil:
		return metrics.StageDraining // until the end is written down
	case a == nil || !a.live():
		if slices.ContainsFunc(s.pods, func(p *podState) bool { return p.live() }) {
			return metrics.StageForming
		}
		return metrics.StageOver
	case a.gang.Release || s.releasing || s.abandon:
		return metrics.StageDraining
	case a.job == nil:
		return metrics.StageSubmitting
	case agentsMissing(s.reports) == 0:
		return metrics.StageRunning
	case s.job == nil || s.job.Phase == wlm.PhaseQueued:
		return metrics.StageQueued
	default:
		return metrics.StageStarting
	}
}

// sources are what is asked when somebody scrapes.
func sources(people func() *people, registry *registry, statuses *statusTable, node *virtualNode) metrics.Sources {
	return metrics.Sources{
		Sites: func() map[string]int { return people().states() },
		HPCNodes: func() map[string]int {
			return hpcNodes(partitionOf(node.facts.Config, node.stock()))
		},
		Agents: func() map[string]int {
			count := map[string]int{}
			for _, a := range registry.live() {
				agentStates(statuses.of(a), count, metrics.AgentIdle, metrics.AgentRunning)
			}
			return count
		},
		Programs: func() map[string]int {
			count := map[string]int{}
			for _, a := range registry.live() {
				agentPrograms(statuses.of(a), count)
			}
			return count
		},
	}
}

// programVersion is what a version of gangline-agent looks like. Users can write what
// agents report, and a label must not have values without end.
var programVersion = regexp.MustCompile(`^(dev|v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}[0-9A-Za-z.+-]{0,40})$`)

// mostPrograms is how many versions are told apart, unknownProgram what the others are.
const (
	mostPrograms   = 10
	unknownProgram = "unknown"
)

// agentPrograms counts the agents that have reported, by their program's version.
func agentPrograms(reports []spool.Status, count map[string]int) {
	for _, s := range reports {
		if s.Agent.Instance == "" {
			continue
		}
		version := s.Agent.Program
		if _, known := count[version]; !programVersion.MatchString(version) || !known && len(count) >= mostPrograms {
			version = unknownProgram
		}
		count[version]++
	}
}

// hpcNodes counts a partition's nodes; nil while it is not known.
func hpcNodes(p *wlm.Partition) map[string]int {
	if p == nil {
		return nil
	}
	count := map[string]int{}
	for _, n := range p.Nodes {
		state := metrics.NodeUnusable
		if n.Usable {
			state = metrics.NodeUsable
		}
		count[state]++
	}
	return count
}

// states counts the users' sites by state.
func (p *people) states() map[string]int {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	count := map[string]int{}
	for _, a := range p.all {
		state := metrics.SiteUp
		if a.err != nil {
			state = metrics.SiteUnread // and its site is being made
		} else if s, counted := a.user.site.(interface{ Down() bool }); counted && s.Down() {
			state = metrics.SiteDown
		}
		count[state]++
	}
	return count
}

// unread tells why no user's spool has been read yet, nil once one has, or where there is
// no user. One user's that cannot be read keeps nobody else from working:
// gangline_sites{state="unread"} counts them.
func (p *people) unread() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var reasons []string
	for _, a := range p.all {
		if a.err != nil {
			reasons = append(reasons, fmt.Sprintf("as user %s: %v", a.user.name, a.err))
		}
	}
	if len(reasons) == 0 || len(reasons) < len(p.all) {
		return nil
	}
	slices.Sort(reasons)
	return fmt.Errorf("the spool is not read yet; nothing is done for these users: %s", strings.Join(reasons, "; "))
}

// silent tells why the workload manager counts as away, nil while it does not.
func (v *virtualNode) silent() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil {
		return nil
	}
	return fmt.Errorf("it does not answer; pods keep their state until it does: %w", v.err)
}

// addReadiness has a virtual node's parts asked. What it returns is to run with it.
func addReadiness(ready *health.Readiness, node string, informers cache.Cache, v *virtualNode, p *people) func(context.Context) error {
	synced := health.NewOnce("its copies of the API server's objects are not complete yet")
	v.published = health.NewOnce("the API server does not have the node yet")
	ready.Add(node+"/cache", synced.Check)
	ready.Add(node+"/node", v.published.Check)
	ready.Add(node+"/spool", p.unread)
	ready.Add(node+"/workload-manager", v.silent)
	return func(ctx context.Context) error {
		if !informers.WaitForCacheSync(ctx) {
			if ctx.Err() != nil {
				return nil
			}
			return errors.New("the copies of the API server's objects could not be made")
		}
		synced.Done()
		return nil
	}
}

// The reasons of a virtual node's Events about its workload manager.
const (
	reasonManagerAway = "WorkloadManagerUnreachable"
	reasonManagerBack = "WorkloadManagerReachable"
)

// tellOutage tells that the workload manager counts as away from now on, or as back.
func (r *Reconciler) tellOutage(err error) {
	node := nodeReference(r.config.NodeName)
	if err != nil {
		r.recorder.Eventf(node, corev1.EventTypeWarning, reasonManagerAway, "%s does not answer; pods keep their state until it does: %v", r.kind, err)
		return
	}
	r.recorder.Eventf(node, corev1.EventTypeNormal, reasonManagerBack, "%s answers again", r.kind)
}

// newTracer makes the tracer that the environment asks for, and has it log what it cannot
// send.
func newTracer(ctx context.Context, version string) (*tracing.Tracer, error) {
	log := logr.FromContextOrDiscard(ctx)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Error(err, "traces could not be sent") }))
	return tracing.New(ctx, version, os.Getenv)
}

func closeTracer(ctx context.Context, t *tracing.Tracer) {
	if err := t.Close(); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "the last traces could not be sent")
	}
}
