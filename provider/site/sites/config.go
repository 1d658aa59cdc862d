package sites

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/spool"
)

// Mode is a way to the site.
type Mode string

// The modes.
const (
	// Own does everything as the provider's own user.
	Own Mode = "own"
	// Setuid starts a gateway as the user: the provider is root on a machine of the
	// site's.
	Setuid Mode = "setuid"
	// Sudo starts it by sudo.
	Sudo Mode = "sudo"
	// SSH starts it on a login node, where the provider logs in as the user.
	SSH Mode = "ssh"
)

// Config is how the site's users are reached.
type Config struct {
	// Mode is "own" (the default), "setuid", "sudo" or "ssh".
	Mode Mode `json:"mode,omitempty"`
	// Agent is the path of gangline-agent on this machine, for setuid and sudo.
	Agent string `json:"agent,omitempty"`
	// Sudo is sudo's path; empty for the search path.
	Sudo string `json:"sudo,omitempty"`
	// Lock is the file that keeps two providers apart, one for each user: "{user}"
	// stands for the name. It is best on a filesystem of the machine where gateways run.
	Lock string `json:"-"`
	// Idle is how long a gateway is kept that has nothing to do. Default 10m.
	Idle metav1.Duration `json:"idle,omitempty"`
	SSH  SSHConfig       `json:"ssh,omitempty"`
}

// SSHConfig is a login node. See login.Config.
type SSHConfig struct {
	Address    string `json:"address,omitempty"`
	KnownHosts string `json:"knownHosts,omitempty"`
	// KeyFile, CertificateFile and AgentDir may hold "{user}".
	KeyFile         string `json:"keyFile,omitempty"`
	CertificateFile string `json:"certificateFile,omitempty"`
	AgentDir        string `json:"agentDir,omitempty"`
	// Agents are paths of gangline-agent on this machine, by architecture.
	Agents map[string]string `json:"agents,omitempty"`
}

// forUser puts a user's name into a path.
func forUser(path, user string) string { return strings.ReplaceAll(path, spool.FieldUser, user) }

func checkUser(name string) error {
	if name == "root" || !identity.IsLoginName(name) {
		return fmt.Errorf("%q is no name of an ordinary HPC user", name)
	}
	return nil
}

// Validate checks what can be checked without any file or host.
func (c Config) Validate() error {
	w, ok := ways()[c.mode()]
	if !ok {
		return fmt.Errorf("mode: %q is none of %s", c.Mode, strings.Join(modes(), ", "))
	}
	var errs []error
	if c.Idle.Duration < 0 {
		errs = append(errs, errors.New("idle: it must not be negative"))
	}
	if c.mode() != Own && c.Lock != "" && !(filepath.IsAbs(c.Lock) && strings.Contains(c.Lock, "{user}")) {
		errs = append(errs, errors.New("lock: it must be an absolute path that holds {user}"))
	}
	return errors.Join(append(errs, w.check(c))...)
}

func (c Config) mode() Mode {
	if c.Mode == "" {
		return Own
	}
	return c.Mode
}

func modes() []string {
	var all []string
	for _, m := range slices.Sorted(maps.Keys(ways())) {
		all = append(all, string(m))
	}
	return all
}
