package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/site/login/logintest"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/site/sitetest"
)

// LoginNode is a login node that a virtual node far away goes through, on a wire that
// can be cut.
type LoginNode struct {
	node *logintest.Node
	Wire *logintest.Wire
	dir  string
}

// StartLoginNode starts one, with its files in dir, which all users must be able to
// look into.
func StartLoginNode(ctx context.Context, dir string, log io.Writer) (*LoginNode, error) {
	const everybody = 0o755
	if err := os.MkdirAll(dir, everybody); err != nil {
		return nil, err
	}
	node, err := logintest.Start(ctx, dir, log)
	if err != nil {
		return nil, fmt.Errorf("starting the login node: %w", err)
	}
	wire, err := logintest.NewWire(node.Address)
	if err != nil {
		return nil, errors.Join(err, node.Stop())
	}
	return &LoginNode{node: node, Wire: wire, dir: dir}, nil
}

// Stop ends it and every connection to it.
func (l *LoginNode) Stop() error {
	l.Wire.Close()
	return l.node.Stop()
}

// Users are the ordinary users that jobs may be of.
func Users() []string { return []string{jobUser, "hpcother"} }

// farUser is whom a node runs as that is far from the site: a stranger to it.
const farUser = "hpcfar"

// useLogin has the node go through a login node.
func (e *Environment) useLogin(ctx context.Context, o Options, node *NodeOptions) (err error) {
	if e.Login, err = StartLoginNode(ctx, filepath.Join(o.Dir, "login"), o.Progress); err != nil {
		return err
	}
	far, err := sitetest.NewAccount(ctx, farUser)
	if err != nil {
		return err
	}
	node.UID, node.GID, node.Home = far.UID, far.GID, far.Home
	node.Spool = filepath.Join(node.Shared, "{user}", "spool", o.Name)
	keys := filepath.Join(e.Login.dir, "key.{user}")
	for _, name := range Users() {
		if err := e.Login.Admit(ctx, name, far.UID, strings.ReplaceAll(keys, "{user}", name)); err != nil {
			return err
		}
		if err := UserDir(ctx, node.Shared, name); err != nil {
			return err
		}
	}
	configure := node.Configure
	node.Configure = func(c *provider.Config) {
		c.Agent = ""
		c.Access.Mode, c.Access.Asker = sites.SSH, jobUser
		c.Access.SSH = sites.SSHConfig{
			Address: e.Login.Wire.Address, KnownHosts: e.Login.node.KnownHosts(), KeyFile: keys,
			AgentDir: filepath.Join(node.Shared, "{user}", "agents"),
			Agents:   map[string]string{runtime.GOARCH: filepath.Join(o.Root, "bin", "gangline-agent")},
		}
		configure(c)
	}
	return nil
}

// UserDir makes a user's own directory on the shared filesystem.
func UserDir(ctx context.Context, shared, name string) error {
	account, err := sitetest.NewAccount(ctx, name)
	if err != nil {
		return err
	}
	dir := filepath.Join(shared, name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chown(dir, account.UID, account.GID)); err != nil {
		return fmt.Errorf("making the directory of %s: %w", name, err)
	}
	return nil
}

// Admit lets an ordinary user in by a new key in a file, which belongs to owner.
func (l *LoginNode) Admit(ctx context.Context, name string, owner int, file string) error {
	if _, err := sitetest.NewAccount(ctx, name); err != nil {
		return err
	}
	public, err := logintest.NewKey(file)
	if err == nil {
		err = errors.Join(os.Chown(file, owner, -1), l.node.Authorize(name, logintest.Line(public)))
	}
	if err != nil {
		return fmt.Errorf("letting %s into the login node: %w", name, err)
	}
	return nil
}
