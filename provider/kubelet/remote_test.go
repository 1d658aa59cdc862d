package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// runningPod is a node with one pod, whose container "main" runs.
type runningPod struct{ onePod }

func (p runningPod) Pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	pod, err := p.onePod.Pod(ctx, name)
	if err == nil {
		pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{mainRuns()}
	}
	return pod, err
}

func mainRuns() corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "main", ContainerID: "gangline://u-main-0", State: running()}
}

// serveFar serves the logs and streams of a pod that runs.
func serveFar(t *testing.T, place *Place, agent spool.Agent) *httptest.Server {
	t.Helper()
	place.Dir = spool.Dir(t.TempDir())
	require.NoError(t, place.Dir.Create(1))
	require.NoError(t, spool.Write(place.Dir.Status(0), spool.Status{
		Agent: agent, Pod: &spool.PodStatus{UID: "u", Containers: []corev1.ContainerStatus{mainRuns()}},
	}))
	pods := runningPod{onePod{place: place}}
	m := http.NewServeMux()
	m.Handle("/containerLogs/{namespace}/{pod}/{container}", &logs{pods: pods})
	m.Handle("/exec/{namespace}/{pod}/{container}", failing((&streams{pods: pods}).exec))
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return server
}

const mainLog = "/containerLogs/ns/pi/main"

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	answer, err := http.Get(address)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

var errLogin = errors.New("the login node login1: no route to host")

const unreachableText = "the HPC site cannot be reached: the login node login1: no route to host"

func TestALogOutlastsACutWhileItIsFollowed(t *testing.T) {
	f := newFar(t)
	place := &Place{Site: f}
	server := serveFar(t, place, spool.Agent{})
	log, err := crilog.Create(place.Dir.Log(0, "u", "main", 0), crilog.Limits{MaxBytes: 32 << 10, MaxFiles: 1000})
	require.NoError(t, err)
	out := log.Stream(crilog.Stdout)
	lines := 0
	write := func(n int) {
		for range n {
			_, _ = fmt.Fprintf(out, "line %d\n", lines)
			lines++
		}
	}
	write(3000) // of several parts
	answer, err := http.Get(server.URL + mainLog + "?follow=true")
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // only read
	require.Equal(t, http.StatusOK, answer.StatusCode)
	in, next := bufio.NewReader(answer.Body), 0
	expect := func(upTo int) {
		t.Helper()
		for ; next < upTo; next++ {
			line, err := in.ReadString('\n')
			require.NoError(t, err, next)
			require.Equal(t, fmt.Sprintf("line %d\n", next), line)
		}
	}
	expect(2900)
	for range 2 {
		f.cutOff(errLogin)
		write(2000)
		<-f.met // the follower has seen it
		f.lost(t, errLogin)
		code, text := get(t, server.URL+mainLog)
		assert.Equal(t, http.StatusInternalServerError, code)
		assert.Contains(t, text, unreachableText, "who comes now is told so")
		select {
		case <-f.met:
		default:
		}
		f.mend()
		write(10)
		expect(lines)
	}
	require.NoError(t, out.Close())
	require.NoError(t, log.Close())
	require.NoError(t, spool.Write(place.Dir.Ended(), spool.Ended{}))
	expect(lines)
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	assert.Empty(t, rest)
}

func TestALogThroughAGateway(t *testing.T) {
	place := &Place{Site: newFar(t)}
	server := serveFar(t, place, spool.Agent{})
	code, text := get(t, server.URL+mainLog)
	assert.Equal(t, http.StatusBadRequest, code)
	assert.Equal(t, "container \"main\" in pod \"pi\" has left no log\n", text)

	log, err := crilog.Create(place.Dir.Log(0, "u", "main", 0), crilog.Limits{})
	require.NoError(t, err)
	out := log.Stream(crilog.Stdout)
	long := strings.Repeat("more\n", 1<<18)
	_, err = io.WriteString(out, "first\n"+long+"last\n")
	require.NoError(t, err)
	require.NoError(t, log.Close())
	for query, want := range map[string]string{
		"":                          "first\n" + long + "last\n",
		"?tailLines=2":              "more\nlast\n",
		"?limitBytes=7":             "first\nm",
		"?tailLines=1&limitBytes=2": "la",
	} {
		code, text := get(t, server.URL+mainLog+query)
		assert.Equal(t, http.StatusOK, code, query)
		assert.True(t, want == text, query)
	}
}

// TestNothingElseIsShownAsALog: the allocation's directory is the pod's user's.
func TestNothingElseIsShownAsALog(t *testing.T) {
	outside := t.TempDir()
	line := []byte("2026-03-04T05:06:07Z stdout F secret\n")
	require.NoError(t, os.WriteFile(filepath.Join(outside, "0.log"), line, 0o600))
	for sentence, lay := range map[string]func(dir spool.Dir, container string) error{
		"a link to a log outside": func(_ spool.Dir, container string) error {
			return errors.Join(os.Mkdir(container, 0o700), os.Symlink(filepath.Join(outside, "0.log"), filepath.Join(container, "0.log")))
		},
		"a link to a directory outside": func(_ spool.Dir, container string) error { return os.Symlink(outside, container) },
		"a way up from the directory": func(dir spool.Dir, container string) error {
			up, err := filepath.Rel(filepath.Dir(container), outside)
			return errors.Join(err, os.Symlink(up, container))
		},
		"a link to a file of the allocation": func(dir spool.Dir, container string) error {
			return errors.Join(os.Mkdir(container, 0o700), os.WriteFile(dir.Gang(), line, 0o600),
				os.Symlink(dir.Gang(), filepath.Join(container, "0.log")))
		},
		"a directory": func(_ spool.Dir, container string) error {
			return os.MkdirAll(filepath.Join(container, "0.log"), 0o700)
		},
	} {
		for name, s := range map[string]site.Site{"here": site.Local{}, "through a gateway": newFar(t)} {
			t.Run(sentence+", "+name, func(t *testing.T) {
				place := &Place{Site: s}
				server := serveFar(t, place, spool.Agent{})
				logs := place.Dir.PodLogs(0, "u")
				require.NoError(t, os.MkdirAll(logs, 0o700))
				require.NoError(t, lay(place.Dir, filepath.Join(logs, "main")))
				code, text := get(t, server.URL+mainLog)
				assert.Equal(t, http.StatusInternalServerError, code)
				assert.NotContains(t, text, "secret")
			})
		}
	}
}

func TestWhenARunHasEnded(t *testing.T) {
	place := Place{Site: newFar(t), Dir: spool.Dir(t.TempDir())}
	require.NoError(t, place.Dir.Create(1))
	end := newRunEnd(place, "u", "main", 1)
	status := func(pod *spool.PodStatus, c corev1.ContainerStatus) {
		c.Name = "main"
		if pod != nil {
			pod.Containers = []corev1.ContainerStatus{c}
		}
		require.NoError(t, spool.Write(place.Dir.Status(0), spool.Status{Pod: pod}))
	}
	over := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "gangline://u-main-1"}}
	for _, step := range []struct {
		sentence string
		do       func()
		ended    bool
	}{
		{"nobody tells of it", func() {}, true},
		{"it runs", func() { status(&spool.PodStatus{UID: "u"}, corev1.ContainerStatus{RestartCount: 1, State: running()}) }, false},
		{"nothing has changed", func() {}, false},
		{"it has ended", func() { status(&spool.PodStatus{UID: "u"}, corev1.ContainerStatus{RestartCount: 1, State: over}) }, true},
		{"nothing has changed since", func() {}, true},
		{"the next waits", func() {
			status(&spool.PodStatus{UID: "u"}, corev1.ContainerStatus{
				RestartCount: 1, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: over,
			})
		}, true},
		{"the next runs", func() { status(&spool.PodStatus{UID: "u"}, corev1.ContainerStatus{RestartCount: 2, State: running()}) }, true},
		{"the file cannot be read", func() {
			require.NoError(t, os.WriteFile(place.Dir.Status(0), []byte("{"), 0o600))
		}, false},
		{"a link is in the file's place", func() {
			require.NoError(t, os.Remove(place.Dir.Status(0)))
			require.NoError(t, os.Symlink(place.Dir.Gang(), place.Dir.Status(0)))
		}, false},
		{"the link still is", func() {}, false},
		{"the file is gone", func() { require.NoError(t, os.Remove(place.Dir.Status(0))) }, true},
		{"another pod has the slot", func() { status(&spool.PodStatus{UID: "v"}, corev1.ContainerStatus{RestartCount: 1, State: running()}) }, true},
		{"it runs again", func() { status(&spool.PodStatus{UID: "u"}, corev1.ContainerStatus{RestartCount: 1, State: running()}) }, false},
		{"the allocation is over", func() { require.NoError(t, spool.Write(place.Dir.Ended(), spool.Ended{})) }, true},
	} {
		step.do()
		assert.Equal(t, step.ended, end.reached(t.Context()), step.sentence)
	}
}

func TestExecThroughAGateway(t *testing.T) {
	f := newFar(t)
	keys := sshdtest.Keys(t)
	address := sshdtest.Start(t, keys, sshdtest.Shell{})
	place := &Place{Site: f, Credentials: sshdtest.Credentials(keys)}
	server := serveFar(t, place, spool.Agent{Node: "n1", Address: address.IP.String(), SSHPort: address.Port})
	run := func(stdout io.Writer, argv ...string) error {
		t.Helper()
		query := url.Values{"output": {"1"}, "command": argv}
		where, err := url.Parse(server.URL + "/exec/ns/pi/main?" + query.Encode())
		require.NoError(t, err)
		executor, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: server.URL}, http.MethodPost, where)
		require.NoError(t, err)
		return executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: stdout})
	}
	var out bytes.Buffer
	require.NoError(t, run(&out, "/bin/echo", "hello"))
	assert.Equal(t, "hello\n", out.String())
	assert.ErrorContains(t, run(&out, "/bin/sh", "-c", "exit 3"), "exit code 3")

	began := writerFunc(func(p []byte) (int, error) { f.cutOff(errLogin); return len(p), nil })
	err := run(began, "/bin/sh", "-c", "echo started; exec sleep 300")
	assert.ErrorContains(t, err, "failed to exec in container: the connection ended before the command did")
	f.lost(t, errLogin)
	assert.ErrorContains(t, run(&out, "/bin/true"), unreachableText)

	f.mend()
	f.back(t)
	assert.NoError(t, run(&out, "/bin/true"))
}

func TestAnAgentThatCannotBeReachedThroughTheLoginNode(t *testing.T) {
	place := &Place{Site: dialless{site.Local{}}}
	server := serveFar(t, place, spool.Agent{Node: "n1", Address: "127.0.0.1", SSHPort: 1})
	answer, err := http.Post(server.URL+"/exec/ns/pi/main?output=1&command=true", "", nil)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	assert.Equal(t, "reaching pod ns/pi on n1: "+unreachableText+"\n", string(text))
}

// dialless is a site whose files can be read while its nodes cannot be reached.
type dialless struct{ site.Site }

func (dialless) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, fmt.Errorf("%w: %v", site.ErrUnreachable, errLogin)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
