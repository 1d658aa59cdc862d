package near

import (
	"fmt"
	"os/user"
	"strconv"
	"syscall"
)

// systemPath is where programs are.
const systemPath = "/usr/local/bin:/usr/bin:/bin"

// account is a user as a process needs it.
type account struct {
	name, home string
	uid, gid   uint32
	groups     []uint32
}

// lookUp finds an ordinary user.
func lookUp(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, fmt.Errorf("looking up the user %s: %w; this machine must know the site's users", name, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return account{}, fmt.Errorf("looking up the groups of %s: %w", name, err)
	}
	a := account{name: u.Username, home: u.HomeDir}
	uid, err := number(u.Uid)
	if err == nil {
		a.gid, err = number(u.Gid)
	}
	if err != nil {
		return account{}, fmt.Errorf("looking up the user %s: %w", name, err)
	}
	a.uid = uid
	for _, text := range ids {
		id, err := number(text)
		if err != nil {
			return account{}, fmt.Errorf("looking up the groups of %s: %w", name, err)
		}
		a.groups = append(a.groups, id)
	}
	if a.uid == 0 {
		return account{}, fmt.Errorf("the user %s is root: jobs run as an ordinary user", name)
	}
	return a, nil
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return uint32(n), nil
}

func (a account) environ() []string {
	return []string{"PATH=" + systemPath, "HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "LANG=C"}
}

func (a account) credential() *syscall.Credential {
	return &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
}
