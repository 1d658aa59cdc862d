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
	const getent = "getent" // is the system's, and of use only to name who has cancelled a job
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = name
		if m.cfg.Bin != "" {
			paths[i] = filepath.Join(m.cfg.Bin, name)
		}
	}
	found, err := at.Find(ctx, append(paths, getent)...)
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
	if path, ok := found[getent]; ok {
		s.tools[getent] = path
	}
	m.owners.Learn(s.user.UID, s.user.Name)
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

// users are the numbers of those whose jobs are listed.
func (m *Manager) users(asker *session) []int {
	if m.cfg.Users != nil {
		if uids := m.cfg.Users(); len(uids) > 0 {
			return uids
		}
	}
	return []int{asker.user.UID}
}

// among picks the jobs of these users.
func (m *Manager) among(uids []int) owner {
	return func(uid int, told string) (string, bool, error) { return m.owners.Among(uids, uid, told) }
}

// aboutJobsOf runs a tool that lists jobs, of these users if it can. A number that its
// machine has no user for is no failure to squeue of Slurm 22.05, which leaves out that
// user's jobs, and sacct lists nobody's then. So everybody's jobs are asked for instead;
// the caller picks those that count.
func (m *Manager) aboutJobsOf(ctx context.Context, at *session, uids []int, c call) answer {
	numbers := make([]string, len(uids))
	for i, uid := range uids {
		numbers[i] = strconv.Itoa(uid)
	}
	some := c
	some.args = append(c.args[:len(c.args):len(c.args)], "--user="+strings.Join(numbers, ","))
	a := m.run(ctx, at, some)
	if !strings.Contains(a.stderr, "Invalid user") {
		return a
	}
	m.mu.Lock()
	news := m.unknown[c.tool] != a.words()
	m.unknown[c.tool] = a.words()
	m.mu.Unlock()
	if news {
		m.cfg.Log.Warn("the machine that lists jobs does not know all users; everybody's jobs are asked for instead",
			"tool", c.tool, "host", at.user.Host, "remark", a.words())
	}
	return m.run(ctx, at, c)
}
