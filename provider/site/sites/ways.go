package sites

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/login"
	"github.com/gangline/gangline/provider/site/near"
)

// way is what differs between the modes.
type way struct {
	// check checks the mode's part of the configuration.
	check func(Config) error
	// open prepares a user's gateway; nil for the own user's site.
	open func(c Config, user string, log *slog.Logger) (gatewayOf, error)
}

// gatewayOf is how one user's gateway is started, and the network reached.
type gatewayOf struct {
	start  gateway.Start
	dialer site.Dialer  // nil for this machine's network
	login  *login.Login // nil where there is no login node
}

func (g gatewayOf) close() error {
	if g.login == nil {
		return nil
	}
	return g.login.Close()
}

func ways() map[Mode]way {
	return map[Mode]way{
		Own:    {check: func(Config) error { return nil }},
		Setuid: {checkNear, nearby(near.Directly)},
		Sudo:   {checkNear, nearby(near.BySudo)},
		SSH:    {checkSSH, byLogin},
	}
}

func checkNear(c Config) error {
	if !filepath.IsAbs(c.Agent) {
		return errors.New("agent: the path of gangline-agent on this machine is missing")
	}
	return nil
}

func nearby(start func(near.Config) gateway.Start) func(Config, string, *slog.Logger) (gatewayOf, error) {
	return func(c Config, user string, log *slog.Logger) (gatewayOf, error) {
		return gatewayOf{start: start(near.Config{User: user, Agent: c.Agent, Sudo: c.Sudo, Log: log})}, nil
	}
}

func loginConfig(c Config, user string, log *slog.Logger) login.Config {
	return login.Config{
		Address: c.SSH.Address, User: user, KnownHosts: c.SSH.KnownHosts, Agents: c.SSH.Agents, Log: log,
		KeyFile: forUser(c.SSH.KeyFile, user), CertificateFile: forUser(c.SSH.CertificateFile, user), AgentDir: forUser(c.SSH.AgentDir, user),
	}
}

func checkSSH(c Config) error {
	if c.SSH.Address == "" {
		return errors.New("ssh.address: the login node is missing")
	}
	if _, err := login.New(loginConfig(c, "anybody", nil)); err != nil {
		return fmt.Errorf("ssh: %w", err)
	}
	return nil
}

func byLogin(c Config, user string, log *slog.Logger) (gatewayOf, error) {
	l, err := login.New(loginConfig(c, user, log))
	if err != nil {
		return gatewayOf{}, err
	}
	return gatewayOf{start: l.Start, dialer: l, login: l}, nil
}
