package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gangline/gangline/provider/site/login"
	"github.com/gangline/gangline/provider/site/login/logintest"
	"github.com/gangline/gangline/provider/site/sitetest"
)

// LoginNode is a login node that a virtual node far away goes through, on a wire that
// can be cut.
type LoginNode struct {
	node *logintest.Node
	Wire *logintest.Wire
	root string
	dir  string
}

// StartLoginNode starts one, with its files in dir, which all users must be able to
// look into. root is the repository, whose agent is put there.
func StartLoginNode(ctx context.Context, root, dir string, log io.Writer) (*LoginNode, error) {
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
	return &LoginNode{node: node, Wire: wire, root: root, dir: dir}, nil
}

// Stop ends it and every connection to it.
func (l *LoginNode) Stop() error {
	l.Wire.Close()
	return l.node.Stop()
}

// User lets an ordinary user in by a new key, which belongs to owner, and tells how
// the login node is reached as that user. agents is where the agent goes: a directory
// that the HPC nodes share.
func (l *LoginNode) User(ctx context.Context, name string, owner int, agents string) (login.Config, error) {
	if _, err := sitetest.NewAccount(ctx, name); err != nil {
		return login.Config{}, err
	}
	key := filepath.Join(l.dir, "key."+name)
	public, err := logintest.NewKey(key)
	if err == nil {
		err = errors.Join(os.Chown(key, owner, -1), l.node.Authorize(name, logintest.Line(public)))
	}
	if err != nil {
		return login.Config{}, fmt.Errorf("letting %s into the login node: %w", name, err)
	}
	return login.Config{
		Address: l.Wire.Address, User: name, KnownHosts: l.node.KnownHosts(), KeyFile: key, AgentDir: agents,
		Agents: map[string]string{runtime.GOARCH: filepath.Join(l.root, "bin", "gangline-agent")},
	}, nil
}
