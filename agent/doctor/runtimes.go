package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
)

// runtimeTimeout bounds a runtime's test.
const runtimeTimeout = 20 * time.Second

// runtimes tries the container runtimes that the site lets pods choose, by their names
// with their programs.
func runtimes(ctx context.Context, wanted map[string]string) []Finding {
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	var findings []Finding
	for _, name := range names {
		findings = append(findings, tryRuntime(ctx, name, wanted[name]))
	}
	return findings
}

func tryRuntime(ctx context.Context, name, program string) Finding {
	r, known := container.Find(name)
	if !known {
		return Bad(CheckRuntimes, Fail, "update gangline-agent, or take it out of containers.allowed", "this gangline-agent does not know the runtime %s", name)
	}
	program = cmp.Or(program, r.Program)
	said, err := runAsPod(ctx, r.Test(program))
	if err != nil {
		return Bad(CheckRuntimes, Fail, "install "+name+" on the HPC nodes, name its file (containers.runtimes."+name+".program), or take it out of containers.allowed",
			"%s: %s does not work: %v", name, program, err)
	}
	if line := versionLine(said); line != "" {
		return Good(CheckRuntimes, OK, "%s works (%s)", name, line)
	}
	return Good(CheckRuntimes, OK, "%s works", name)
}

// runAsPod runs a program as pods' processes are started, and returns what it prints.
func runAsPod(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	table, err := process.NewTable()
	if err != nil {
		return "", err
	}
	// As with build: the table must have ended before programs are run in other ways.
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); table.Run(running) }()
	defer func() { end(); <-ended }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close() //nolint:errcheck // nothing was written
	out, theirs, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer out.Close() //nolint:errcheck // only read
	p, err := sandbox.Starter{Table: table, KillGroup: true}.Start(ctx,
		sandbox.Recipe{Argv: argv, Env: os.Environ()}, sandbox.Streams{Stdin: null, Stdout: theirs, Stderr: theirs})
	_ = theirs.Close()
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = p.Signal(unix.SIGKILL) })()
	const most = 4 << 10
	text, _ := io.ReadAll(io.LimitReader(out, most))
	<-p.Done()
	if code := process.ExitCode(p.Status()); code != 0 {
		return "", fmt.Errorf("it ended with code %d: %s", code, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
