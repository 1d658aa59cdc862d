package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/ulimit"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// siteEnvironment are the site's variables for the pod, with their fields filled in.
func (p *pod) siteEnvironment() []corev1.EnvVar {
	cfg := p.slot.cfg
	fields := strings.NewReplacer(
		spool.FieldUser, cfg.User, spool.FieldHome, cfg.Home, spool.FieldNamespace, p.orders.Namespace,
		spool.FieldJob, cfg.JobID, spool.FieldNode, cfg.Node,
	)
	var vars []corev1.EnvVar
	for _, v := range p.orders.Site.Environment {
		vars = append(vars, corev1.EnvVar{Name: v.Name, Value: fields.Replace(v.Value)})
	}
	return vars
}

// tellShortLimits tells of limits that are lower here than the site wants them.
func (p *pod) tellShortLimits() {
	for _, message := range ulimit.Short(p.orders.Site.Limits) {
		p.logger.Warn("a limit of the site's cannot be had", "message", message)
		p.life.TellPod(time.Now(), corev1.EventTypeWarning, wellknown.ReasonLimitTooLow, message)
	}
}

// own is the name of this user's directories.
func own() string { return "gangline-" + strconv.Itoa(os.Getuid()) }

// WithScratch is the configuration by a site's rule for scratch volumes (see spool.Gang);
// an empty one changes nothing.
func (c Config) WithScratch(rule string) Config {
	if c.ScratchRule = rule; rule != "" {
		c.Scratch = filepath.Join(strings.ReplaceAll(c.userScratch(), spool.FieldJob, c.JobID), own())
	}
	return c
}

// userScratch is the rule for this user's jobs.
func (c Config) userScratch() string {
	return strings.ReplaceAll(c.ScratchRule, spool.FieldUser, c.User)
}

// CheckScratch makes sure that the site's directory for scratch volumes is there: whoever
// made it first would be the only user who can make something in it.
func (c Config) CheckScratch() error {
	if c.ScratchRule == "" {
		return nil
	}
	dir := c.ScratchRule
	if fixed, _, found := strings.Cut(dir, "{"); found {
		dir = filepath.Clean(fixed[:strings.LastIndex(fixed, "/")+1])
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("the site's directory for scratch volumes, %s (volumes.scratch is %s), is not there on node %s: have the site make it, for all users to write to (mode 1777)",
			dir, c.ScratchRule, c.Node)
	}
	return nil
}

// bases are all directories of this user that agents on this node may have left
// something in: those of other jobs too.
func (c Config) bases() []string {
	bases := []string{c.Runtime, c.Scratch}
	rule := c.userScratch()
	if !strings.Contains(rule, spool.FieldJob) {
		return bases
	}
	// The rule has no other special characters of patterns; see translate.CheckScratch.
	others, err := filepath.Glob(filepath.Join(strings.ReplaceAll(rule, spool.FieldJob, "*"), own()))
	if err != nil {
		return bases
	}
	for _, other := range others {
		if other != c.Scratch {
			bases = append(bases, other)
		}
	}
	return bases
}

// RemoveScratch removes the directory for scratch volumes as far as it is this job's alone
// and nothing is in it.
func (c Config) RemoveScratch() { c.removeJobDir(c.Scratch) }

// removeJobDir removes a directory of one job's, and what was made above it for that job,
// as far as nothing is in it.
func (c Config) removeJobDir(base string) {
	fixed, _, ofJob := strings.Cut(c.userScratch(), spool.FieldJob)
	for dir := base; ofJob && len(dir) >= len(fixed); dir = filepath.Dir(dir) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // it is not empty, or the site's own
		}
	}
}

// CleanUp removes what an agent of this job left that was killed, and others before it.
func (c Config) CleanUp() {
	if g, _, err := readGang(c); err == nil {
		c = c.WithScratch(g.Scratch)
	}
	c.RemoveLeftovers()
	c.RemoveScratch()
}
