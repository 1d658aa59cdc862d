package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/flux"
	"github.com/gangline/gangline/provider/local"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/slurm/cli"
	slurmrest "github.com/gangline/gangline/provider/slurm/rest"
	"github.com/gangline/gangline/provider/wlm"
)

// surroundings are what a workload manager is made with beside the configuration.
type surroundings struct {
	users *sites.Sites
	own   site.Local
	uids  *provider.UIDs
	log   *slog.Logger
}

// workloadManager makes the configured one, which may run in this process, and names its
// kind for people.
func workloadManager(ctx context.Context, c provider.Config, users *sites.Sites, own site.Local, uids *provider.UIDs) (wlm.Manager, string, error) {
	s := surroundings{users: users, own: own, uids: uids, log: slog.New(logr.ToSlogHandler(logr.FromContextOrDiscard(ctx)))}
	known := map[string]struct {
		kind     string
		submits  bool // jobs are those of who submits
		assemble func(context.Context, provider.Config, surroundings) (wlm.Manager, error)
	}{
		"slurm": {"Slurm", true, newSlurm},
		"flux":  {"Flux", true, newFlux},
		"local": {"local", false, newLocal},
	}[c.WorkloadManager]
	if only, _ := c.OnlyUser(); known.submits && only != "" && os.Geteuid() == 0 {
		return nil, "", errors.New("gangline-node runs as root, and so would all jobs: run it as the ordinary user that the jobs are to run as, or choose another mode of access")
	}
	m, err := known.assemble(ctx, c, s)
	return m, known.kind, err
}

func newSlurm(ctx context.Context, c provider.Config, s surroundings) (wlm.Manager, error) {
	if r := c.Slurm.REST; r != nil {
		return slurmrest.New(slurmrest.Config{
			URL: r.URL, TokenFile: r.TokenFile, User: r.User, CAFile: r.CAFile, APIVersion: r.APIVersion,
			Asker: c.Asker(), Users: s.uids.List,
			Bin: c.Slurm.Bin, Conf: c.Slurm.Conf, Log: s.log,
		})
	}
	var asker site.Site = s.own
	if name := c.Asker(); name != "" {
		found, err := s.users.For(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("reaching the HPC side as %s: %w", name, err)
		}
		asker = found
	}
	if err := checkSlurmConf(ctx, asker, c.Slurm.Conf); err != nil {
		return nil, err
	}
	return cli.New(ctx, cli.Config{
		Bin: c.Slurm.Bin, Conf: c.Slurm.Conf, Log: s.log, CountUsed: c.CountOthers,
		Sites: s.users, Asker: asker, Users: s.uids.List,
	})
}

// checkSlurmConf looks for the configured file where Slurm's tools run: they try for a
// minute if it is not there. A site that cannot be reached, or a directory that cannot be
// listed, tells nothing of it.
func checkSlurmConf(ctx context.Context, at site.Site, conf string) error {
	if conf == "" {
		return nil
	}
	me, err := at.User(ctx)
	if err != nil {
		return nil //nolint:nilerr // what cannot be asked is no fault of the file's
	}
	entries, err := at.List(ctx, filepath.Dir(conf))
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	if !slices.ContainsFunc(entries, func(e site.Entry) bool { return e.Name == filepath.Base(conf) && !e.Dir }) {
		return fmt.Errorf("slurm.conf names %s, which is not there on %s: set it to the path of Slurm's configuration file, or leave it out for the default of Slurm's tools", conf, me.Host)
	}
	return nil
}

func newFlux(ctx context.Context, c provider.Config, _ surroundings) (wlm.Manager, error) {
	return flux.New(ctx, flux.Config{
		URI: c.Flux.URI, Library: c.Flux.Library, NodeMemoryMiB: c.Flux.NodeMemoryMiB, Timeout: c.Flux.Timeout.Duration,
	})
}

func newLocal(_ context.Context, c provider.Config, s surroundings) (wlm.Manager, error) {
	config := local.Config{StateDir: c.Local.StateDir, Log: s.log}
	for _, n := range c.Local.Nodes {
		config.Nodes = append(config.Nodes, local.NodeSpec{Name: n.Name, CPUs: n.CPUs, MemoryMiB: n.MemoryMiB, GPUs: n.GPUs})
	}
	return local.New(config)
}
