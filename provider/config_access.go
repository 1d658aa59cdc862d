package provider

import (
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/gangline/gangline/provider/site/sites"
)

// AccessConfig is how the HPC side is reached.
type AccessConfig struct {
	sites.Config `json:",inline"`
	// Asker is the user as whom the workload manager is asked about all jobs and nodes,
	// by way of a login node or slurmrestd. Elsewhere this process asks. Default: the user
	// of the map, if it names one only.
	Asker string `json:"asker,omitempty"`
}

// others tells whether gangs run as others than this process's user.
func (c Config) others() bool { return c.Access.Mode != "" && c.Access.Mode != sites.Own }

// OnlyUser is the user that all gangs are of, or empty where there are several.
func (c Config) OnlyUser() (string, error) {
	if c.others() {
		return "", nil
	}
	me, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("looking up the own user: %w; it needs an entry in the user database", err)
	}
	return me.Username, nil
}

// Sites are how the HPC users are reached.
func (c Config) Sites() sites.Config {
	s := c.Access.Config
	if c.others() {
		s.Lock = c.Lock
		if s.Mode != sites.SSH && s.Agent == "" {
			s.Agent = c.Agent // the same on this machine
		}
	}
	return s
}

// Asker is the user who asks about all jobs and nodes, empty for this process's.
func (c Config) Asker() string {
	far := c.Access.Mode == sites.SSH || c.Slurm.REST != nil && c.others()
	if !far {
		return c.Access.Asker
	}
	if users := c.Identity.Users(); c.Access.Asker == "" && len(users) == 1 {
		return users[0]
	}
	return c.Access.Asker
}

// validateAccess checks how the HPC side is reached, and as whom.
func (c Config) validateAccess() error {
	var errs []error
	reached := c.Sites()
	if c.Lock == c.usualLock() {
		reached.Lock = "" // it is as the spool is, of which there is a word below
	}
	if err := reached.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("access: %w", err))
	}
	if err := c.Identity.Validate(); err != nil {
		errs = append(errs, err)
	}
	if !c.others() {
		if strings.Contains(c.Spool+c.Lock, userMark) {
			errs = append(errs, errors.New("access: the spool has {user} in it, and the mode own acts as one user only: choose setuid, sudo or ssh"))
		}
		return errors.Join(errs...)
	}
	if len(c.Identity) == 0 {
		errs = append(errs, fmt.Errorf("access: the mode %s acts as users that identity names, and it names none", c.Access.Mode))
	}
	for i, rule := range c.Identity {
		if rule.User == "" {
			errs = append(errs, fmt.Errorf("identity[%d].user is missing: the mode %s acts as users that rules name", i, c.Access.Mode))
		}
	}
	if rest := c.Slurm.REST; rest != nil && !strings.Contains(rest.TokenFile, userMark) {
		errs = append(errs, errors.New("slurm.rest.tokenFile must have {user} in it where gangs are of several users: each has a token of his own"))
	}
	if !strings.Contains(c.Spool, userMark) {
		errs = append(errs, errors.New("spool must have {user} in it where gangs are of several users, as in /scratch/{user}/gangline"))
	}
	if (c.Access.Mode == sites.SSH || c.Slurm.REST != nil) && c.Asker() == "" {
		errs = append(errs, errors.New("access.asker is missing: the user as whom the workload manager is asked about all jobs and nodes"))
	}
	if c.WorkloadManager == "local" {
		errs = append(errs, errors.New("access: the local workload manager runs all as its own user: choose the mode own"))
	}
	return errors.Join(errs...)
}
