package slurm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/site/sitetest"
	"github.com/gangline/gangline/provider/slurm/cli"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// own is the mode own for several users: each call is made by a process of the user's.
type own struct {
	wlm.Manager // has no other methods than these
	program     string
	conf        string
	users       []sitetest.Account
}

// ownCall is what such a process is to do: to cancel JobID or submit Request for User,
// or to list the jobs of the users.
type ownCall struct {
	Conf        string
	Users       []int
	User, JobID string
	Request     *translate.Request
}

type ownAnswer struct {
	ID    string
	Jobs  []wlm.Job
	Error string
}

func serveOwn(ctx context.Context, in io.Reader, out io.Writer) error {
	var c ownCall
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return fmt.Errorf("reading the call: %w", err)
	}
	a, err := c.do(ctx)
	if err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}

func (c ownCall) do(ctx context.Context) (a ownAnswer, err error) {
	users, err := sites.New(sites.Config{}, site.Local{}, nil)
	if err != nil {
		return a, err
	}
	m, err := cli.New(ctx, cli.Config{Conf: c.Conf, Sites: users, Users: func() []int { return c.Users }})
	switch {
	case err != nil:
	case c.Request != nil:
		a.ID, err = m.Submit(ctx, *c.Request)
	case c.JobID != "":
		err = m.Cancel(ctx, c.User, c.JobID)
	default:
		a.Jobs, err = m.List(ctx)
	}
	return a, err
}

// call runs a process as the user.
func (o own) call(ctx context.Context, as string, c ownCall) (a ownAnswer, err error) {
	c.Conf = o.conf
	cmd := exec.CommandContext(ctx, o.program, "own")
	for _, u := range o.users {
		c.Users = append(c.Users, u.UID)
		if u.Name == as {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}}
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return a, err
	}
	cmd.Dir, cmd.Stdin = "/", bytes.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		return a, fmt.Errorf("a provider as %s: %w", as, err)
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

func (o own) Submit(ctx context.Context, r translate.Request) (string, error) {
	a, err := o.call(ctx, r.User, ownCall{Request: &r})
	return a.ID, err
}

func (o own) Cancel(ctx context.Context, user, jobID string) error {
	_, err := o.call(ctx, user, ownCall{User: user, JobID: jobID})
	return err
}

func (o own) List(ctx context.Context) ([]wlm.Job, error) {
	a, err := o.call(ctx, o.users[0].Name, ownCall{})
	return a.Jobs, err
}
