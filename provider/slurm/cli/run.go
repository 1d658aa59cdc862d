package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gangline/gangline/provider/site"
)

// call is one run of one of Slurm's tools.
type call struct {
	tool string
	env  []string
	args []string
	// locked has the tool hold the site's lock (see site.Command).
	locked bool
}

// answer is what a tool printed, and how it failed if it did.
type answer struct {
	tool           string
	stdout, stderr string
	// exit is the exit status, or -1 for a tool that did not end by itself.
	exit int
	err  error
}

func (m *Manager) run(ctx context.Context, at *session, c call) answer {
	r, err := at.site.Run(ctx, site.Command{
		Argv: append([]string{at.tools[c.tool]}, c.args...), Env: c.env, Timeout: m.cfg.Timeout, Locked: c.locked,
	})
	a := answer{
		tool:   c.tool,
		stdout: strings.ToValidUTF8(string(r.Stdout), "\uFFFD"),
		stderr: strings.ToValidUTF8(string(r.Stderr), "\uFFFD"),
		exit:   r.Exit,
	}
	switch {
	case errors.Is(err, site.ErrTimeout):
		a.err = fmt.Errorf("%s gave no answer within %s", c.tool, m.cfg.Timeout)
	case err != nil:
		a.err = err
	case r.Exit == 0:
	case a.words() != "":
		a.err = fmt.Errorf("%s failed (%s): %s", c.tool, r.Ended, a.words())
	default:
		a.err = fmt.Errorf("%s failed (%s) without a word", c.tool, r.Ended)
	}
	if err != nil {
		a.exit = -1
	}
	return a
}

// words is what the tool said on stderr, without the prefixes of its lines.
func (a answer) words() string {
	return a.joinLines(func(string) bool { return true })
}

// ownWords leaves out lines that are not the tool's own, such as a site's
// banner, unless there are no others.
func (a answer) ownWords() string {
	own := a.joinLines(func(line string) bool { return strings.HasPrefix(line, a.tool+": ") })
	if own == "" {
		return a.words()
	}
	return own
}

func (a answer) joinLines(keep func(line string) bool) string {
	var lines []string
	for line := range strings.Lines(a.stderr) {
		line = strings.TrimSpace(line)
		if line == "" || !keep(line) {
			continue
		}
		line = strings.TrimPrefix(line, a.tool+": ")
		lines = append(lines, strings.TrimPrefix(line, "error: "))
	}
	return strings.Join(lines, "; ")
}
