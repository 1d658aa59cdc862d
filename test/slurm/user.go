package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gangline/gangline/test/slurm/internal/supervisor"
)

// ensureUser finds an ordinary user, or creates it with a home directory. Several programs
// may do so at once.
func ensureUser(ctx context.Context, name string, uid int) (account, error) {
	found, err := lookUp(name)
	if errors.As(err, new(user.UnknownUserError)) {
		if err := createUser(ctx, name, uid); err != nil {
			return account{}, err
		}
		found, err = lookUp(name)
	}
	if err != nil {
		return account{}, err
	}
	if found.uid == 0 {
		return account{}, fmt.Errorf("user %s is root; jobs run as an ordinary user", name)
	}
	if uid != 0 && found.uid != uid {
		return account{}, fmt.Errorf("user %s exists with uid %d, not %d", name, found.uid, uid)
	}
	return found, nil
}

// EnsureUser finds or creates an ordinary user, for those who need one without
// a cluster.
func EnsureUser(ctx context.Context, name string) (uid, gid int, home string, err error) {
	a, err := ensureUser(ctx, name, 0)
	return a.uid, a.gid, a.home, err
}

func createUser(ctx context.Context, name string, uid int) error {
	useradd, err := supervisor.FindProgram("useradd")
	if err != nil {
		return err
	}
	args := []string{"--create-home", "--shell", "/bin/bash"}
	if uid != 0 {
		args = append(args, "--uid", strconv.Itoa(uid))
	}
	const within, every = 20 * time.Second, 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, useradd, append(args, name)...).CombinedOutput()
		var exit *exec.ExitError
		const cannotLock, exists = 1, 9
		if err == nil || errors.As(err, &exit) && exit.ExitCode() == exists {
			return nil
		}
		if exit == nil || exit.ExitCode() != cannotLock {
			return fmt.Errorf("create user %s: %w: %s", name, err, strings.TrimSpace(string(out)))
		}
		select { // another useradd holds the password file
		case <-ctx.Done():
			return fmt.Errorf("create user %s: %w: %s", name, ctx.Err(), strings.TrimSpace(string(out)))
		case <-time.After(every):
		}
	}
}

// account is a user as processes need it.
type account struct {
	name, home string
	uid, gid   int
	groups     []uint32
}

func lookUp(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, fmt.Errorf("look up user: %w", err)
	}
	a := account{name: u.Username, home: u.HomeDir}
	if a.uid, err = strconv.Atoi(u.Uid); err != nil {
		return a, fmt.Errorf("uid of %s: %w", name, err)
	}
	if a.gid, err = strconv.Atoi(u.Gid); err != nil {
		return a, fmt.Errorf("gid of %s: %w", name, err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return a, fmt.Errorf("groups of %s: %w", name, err)
	}
	for _, group := range groups {
		id, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return a, fmt.Errorf("groups of %s: %w", name, err)
		}
		a.groups = append(a.groups, uint32(id))
	}
	return a, nil
}

func (a account) credential() *syscall.Credential {
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid), Groups: a.groups}
}

// environ is a login's environment with SLURM_CONF.
func (a account) environ(slurmConf string) []string {
	return []string{
		"PATH=" + supervisor.SystemPath, "HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name,
		"SHELL=/bin/bash", "LANG=C.UTF-8", "SLURM_CONF=" + slurmConf,
	}
}
