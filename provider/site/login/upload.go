package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// The scripts. Their arguments are the agent's directory ("-" for the default), its
// file and its hash.
const (
	// probe tells the machine's architecture and where the agent goes.
	probe script = `d="$1"; [ "$d" = - ] && d="$HOME/.cache/gangline"; echo "` + mark + `$(uname -m)"; echo "` + mark + `$d"`
	// have tells whether the agent is there and whole.
	have script = `[ -x "$1" ] && set -- "$1" "$2" $(sha256sum <"$1") && [ "$3" = "$2" ] && echo "` + mark + `yes"; exit 0`
	// put writes the agent, checks it, and only then gives it its name.
	put script = `umask 077; mkdir -p "$1" && t=$(mktemp "$1/.new-XXXXXX") || exit 73; trap "rm -f $t" EXIT; ` +
		`cat >"$t" || exit 74; set -- "$1" "$2" "$3" $(sha256sum <"$t"); [ "$4" = "$3" ] || exit 65; ` +
		`chmod 700 "$t" && mv -f "$t" "$2" || exit 73; echo "` + mark + `done"`
)

// architectures are Go's names for uname's.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "riscv64": "riscv64"}

// Agent is the path of the agent on the login node, and so on the HPC nodes. It is
// put there if it is not.
func (l *Login) Agent(ctx context.Context) (string, error) {
	c, err := l.connected(ctx)
	if err != nil {
		return "", err
	}
	return l.ensureAgent(ctx, c)
}

func (l *Login) ensureAgent(ctx context.Context, c *connection) (string, error) {
	if err := l.hold(ctx); err != nil {
		return "", err
	}
	defer l.release()
	if c.agent != "" {
		return c.agent, nil
	}
	dir := l.config.AgentDir
	if dir == "" {
		dir = "-"
	}
	lines, err := c.run(ctx, nil, probe, dir)
	if err == nil && len(lines) != 2 {
		err = fmt.Errorf("it answers %q", lines)
	}
	if err != nil {
		return "", fmt.Errorf("asking the login node %s what it is: %w; /bin/sh must run there for %s", l.config.Address, err, l.config.User)
	}
	machine, dir := lines[0], lines[1]
	local := l.config.Agents[architectures[machine]]
	if local == "" {
		return "", fmt.Errorf("the login node %s is of the architecture %s, and there is no agent for it, only for %s",
			l.config.Address, machine, strings.Join(slices.Sorted(maps.Keys(l.config.Agents)), ", "))
	}
	if err := checkPath(dir); err != nil {
		return "", err
	}
	sum, err := l.hashes.of(local)
	if err != nil {
		return "", fmt.Errorf("reading the agent for the login node: %w", err)
	}
	file := path.Join(dir, AgentName(sum))
	lines, err = c.run(ctx, nil, have, file, sum)
	if err != nil {
		return "", fmt.Errorf("looking for the agent on the login node %s: %w", l.config.Address, err)
	}
	if len(lines) == 0 {
		if err := l.upload(ctx, c, local, dir, file, sum); err != nil {
			return "", err
		}
	}
	c.agent = file
	return file, nil
}

func (l *Login) upload(ctx context.Context, c *connection, local, dir, file, sum string) error {
	f, err := os.Open(local)
	if err != nil {
		return fmt.Errorf("reading the agent for the login node: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	began := time.Now()
	lines, err := c.run(ctx, f, put, dir, file, sum)
	if err == nil && len(lines) == 0 {
		err = errors.New("it does not say that it has it")
	}
	if err == nil {
		l.config.Log.Info("put the agent on the login node", "address", l.config.Address, "user", l.config.User, "file", file, "took", time.Since(began).String())
		return nil
	}
	cure := uploadCures[status(err)]
	if cure == "" {
		cure = "try again, or choose another agentDir"
	}
	return fmt.Errorf("putting the agent into %s on the login node %s as %s: %w; %s", dir, l.config.Address, l.config.User, err, cure)
}

// uploadCures are by put's exit statuses.
var uploadCures = map[int]string{
	65: "what arrived is not what was sent: the connection was cut, or the file was changed here meanwhile",
	73: "the user must be able to make files there, or choose another agentDir",
	74: "is the disk full, or the user's quota used up? Make room, or choose another agentDir",
}

// AgentName is the name of an agent's file on login nodes, by its content's SHA-256.
func AgentName(sum string) string { return agentPrefix + sum }

const agentPrefix = "agent-"

// hashes remembers the hashes of files.
type hashes struct {
	mu    sync.Mutex
	known map[string]hashed
}

type hashed struct {
	size     int64
	modified time.Time
	sum      string
}

func newHashes() *hashes { return &hashes{known: map[string]hashed{}} }

func (h *hashes) of(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if k, ok := h.known[file]; ok && k.size == info.Size() && k.modified.Equal(info.ModTime()) {
		return k.sum, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	k := hashed{info.Size(), info.ModTime(), hex.EncodeToString(sum.Sum(nil))}
	h.known[file] = k
	return k.sum, nil
}
