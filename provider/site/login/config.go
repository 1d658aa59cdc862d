package login

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path"
	"regexp"
	"time"

	"github.com/gangline/gangline/mpi/sshclient"
)

// Config is a login node and a user of it.
type Config struct {
	// Address is host or host:port.
	Address string
	User    string
	// KnownHosts are lines as in OpenSSH's known_hosts (those that ssh-keyscan prints),
	// or bare public keys. All are this login node's: their host names are not looked
	// at. "@cert-authority" and "@revoked" are heeded.
	KnownHosts string
	// KeyFile is the user's private key, without a passphrase. CertificateFile, if not
	// empty, is its certificate (OpenSSH's ...-cert.pub). Both are read for each
	// connection, so a certificate may be renewed at any time.
	KeyFile, CertificateFile string
	// Agents are paths of gangline-agent here, by architecture as Go calls it
	// ("amd64", "arm64").
	Agents map[string]string
	// AgentDir is where the agent is put on the login node. Jobs start it there, so it
	// must be on a filesystem that the HPC nodes share and that allows programs. Empty
	// for .cache/gangline in the user's home.
	AgentDir string
	// Pace says how often the login node is asked whether it lives.
	// sshclient.DefaultPace if zero.
	Pace sshclient.Pace
	// ConnectTimeout bounds one connection's making; 30 s if zero.
	ConnectTimeout time.Duration
	// Log gets what is done. slog.Default if nil.
	Log *slog.Logger
}

// New checks a configuration. It reads no file and connects to nothing.
func New(c Config) (*Login, error) {
	c.Pace, c.Log = cmp.Or(c.Pace, sshclient.DefaultPace()), cmp.Or(c.Log, slog.Default())
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 30*time.Second)
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		c.Address = net.JoinHostPort(c.Address, "22")
	}
	var errs []error
	if c.User == "" || c.User == "root" {
		errs = append(errs, fmt.Errorf("user %q: jobs run as an ordinary user", c.User))
	}
	if c.KeyFile == "" {
		errs = append(errs, errors.New("keyFile is empty: the user is known by a key"))
	}
	if len(c.Agents) == 0 {
		errs = append(errs, errors.New("agents is empty: there is no program to run on the login node"))
	}
	if c.AgentDir != "" {
		errs = append(errs, checkPath(c.AgentDir))
	}
	pins, err := parsePins(c.KnownHosts)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("the login node %s: %w", c.Address, err)
	}
	return &Login{config: c, pins: pins, hashes: newHashes(), making: make(chan struct{}, 1)}, nil
}

// plainPath is a path in which no shell sees anything but a path.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9_./@+=:,-]*$`)

func checkPath(p string) error {
	if !plainPath.MatchString(p) || path.Clean(p) != p {
		return fmt.Errorf("the directory %q is no clean absolute path of letters, digits and _./@+=:,-; choose another agentDir", p)
	}
	return nil
}
