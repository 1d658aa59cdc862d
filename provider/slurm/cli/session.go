package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/slurm"
)

// session is Slurm's tools as one user has them.
type session struct {
	site  site.Site
	user  site.User
	tools map[string]string // paths by name
	env   []string          // of every tool, and so of every job
}

// session finds the tools of a user, once.
func (m *Manager) session(ctx context.Context, user string) (*session, error) {
	m.mu.Lock()
	s := m.known[user]
	m.mu.Unlock()
	if s != nil {
		return s, nil
	}
	at := m.cfg.Asker
	if user != "" && m.cfg.Sites != nil {
		var err error
		if at, err = m.cfg.Sites.For(ctx, user); err != nil {
			return nil, err
		}
	}
	s, err := m.open(ctx, at)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[user] = s
	return s, nil
}

func (m *Manager) open(ctx context.Context, at site.Site) (*session, error) {
	s := &session{site: at, tools: map[string]string{}}
	var err error
	if s.user, err = at.User(ctx); err != nil {
		return nil, err
	}
	// The last two are of use only where there is a database, or a topology.
	names := []string{"sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol"}
	needed := names[:4]
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = name
		if m.cfg.Bin != "" {
			paths[i] = filepath.Join(m.cfg.Bin, name)
		}
	}
	found, err := at.Find(ctx, paths...)
	if err != nil {
		return nil, fmt.Errorf("looking for Slurm's tools: %w", err)
	}
	for i, name := range names {
		path, ok := found[paths[i]]
		if ok {
			s.tools[name] = path
		} else if i < len(needed) {
			return nil, fmt.Errorf("looking for Slurm's tools: %s has no %s for user %s: install Slurm's client there, or name its directory (slurm.bin)",
				s.user.Host, paths[i], s.user.Name)
		}
	}
	s.env = []string{
		"PATH=" + filepath.Dir(s.tools["sbatch"]) + ":" + slurm.SystemPath,
		"HOME=" + s.user.Home, "USER=" + s.user.Name, "LOGNAME=" + s.user.Name, "LANG=C",
	}
	if m.cfg.Conf != "" {
		s.env = append(s.env, "SLURM_CONF="+m.cfg.Conf)
	}
	return s, nil
}

// utcEnv is the environment of a tool that prints times.
func (s *session) utcEnv() []string {
	return append(s.env[:len(s.env):len(s.env)], "TZ=UTC", "SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S")
}

// users are those whose jobs are listed, as the tools take them.
func (m *Manager) users(asker *session) string {
	var ids []string
	if m.cfg.Users != nil {
		for _, id := range m.cfg.Users() {
			ids = append(ids, strconv.Itoa(id))
		}
	}
	if len(ids) == 0 {
		return strconv.Itoa(asker.user.UID)
	}
	return strings.Join(ids, ",")
}
