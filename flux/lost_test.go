package flux_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/flux"
)

// libraries are those that the tests of a broker's death run with: they need a broker
// that can be killed.
func libraries(t *testing.T) map[string]string {
	found := map[string]string{"the double of the library": double(t)}
	if library := os.Getenv(libraryVariable); library != "" {
		found["a real library"] = library
	}
	return found
}

func TestWhenTheBrokerDies(t *testing.T) {
	for name, library := range libraries(t) {
		t.Run(name+", calls that wait fail, and all later ones", func(t *testing.T) {
			b := startBroker(t)
			h := place{library: library, uri: b.URI()}.open(t)
			id := submit(t, h, shell(1, "exec sleep 60"))
			ended := make(chan error, 2)
			seen := make(chan struct{})
			go func() {
				first := true
				for _, err := range h.Events(t.Context(), id) {
					if first {
						close(seen)
						first = false
					}
					if err != nil {
						ended <- err
					}
				}
			}()
			go func() { _, err := h.Wait(t.Context(), id); ended <- err }()
			<-seen
			b.Crash()
			for range 2 {
				assert.ErrorIs(t, <-ended, flux.ErrLost)
			}
			<-h.Lost()
			assert.ErrorIs(t, h.Err(), flux.ErrLost)
			_, err := h.Attribute(t.Context(), "size")
			assert.ErrorIs(t, err, flux.ErrLost)
			_, err = h.Submit(t.Context(), shell(1, "true"), flux.SubmitOptions{})
			assert.ErrorIs(t, err, flux.ErrLost)
		})
		t.Run(name+", a handle at rest finds out at its next call", func(t *testing.T) {
			b := startBroker(t)
			h := place{library: library, uri: b.URI()}.open(t)
			_, err := h.Attribute(t.Context(), "size")
			require.NoError(t, err)
			b.Crash()
			_, err = h.Attribute(t.Context(), "size")
			assert.ErrorIs(t, err, flux.ErrLost)
			<-h.Lost()
		})
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	for name, library := range libraries(t) {
		t.Run(name, func(t *testing.T) {
			// A broker that takes the connection and never answers.
			dir, err := os.MkdirTemp("", "flux")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			listener, err := net.Listen("unix", filepath.Join(dir, "local"))
			require.NoError(t, err)
			defer listener.Close()
			silent := make(chan net.Conn, 1)
			go func() {
				c, err := listener.Accept()
				if err == nil {
					_, _ = c.Write([]byte{0})
					silent <- c
				}
			}()
			h := place{library: library, uri: "local://" + filepath.Join(dir, "local")}.open(t)
			defer (<-silent).Close()
			ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("no more patience"))
			defer cancel()
			_, err = h.Attribute(ctx, "size")
			assert.ErrorContains(t, err, "attr.get: waiting for an answer: no more patience")
			for _, err := range h.Events(ctx, 1) {
				assert.ErrorContains(t, err, "no more patience")
			}
			ended := make(chan error)
			go func() { _, err := h.Attribute(t.Context(), "size"); ended <- err }()
			h.Close()
			err = <-ended
			assert.ErrorIs(t, err, flux.ErrClosed)
			h.Close() // again
		})
	}
}

func TestOpening(t *testing.T) {
	library := double(t)
	for name, c := range map[string]struct {
		library, uri string
		is           error
		words        string
	}{
		"without the library":             {"/no/such/libflux-core.so.2", "", flux.ErrUnavailable, "/no/such/libflux-core.so.2"},
		"with another library":            {"libc.so.6", "", flux.ErrUnavailable, "has no function flux_core_version_string"},
		"without a broker":                {library, "local:///no/such/socket", os.ErrNotExist, "/no/such/socket"},
		"with an address that means none": {library, "carrier-pigeon://", nil, "carrier-pigeon"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := flux.Open(t.Context(), c.uri, flux.Options{Library: c.library})
			require.ErrorContains(t, err, c.words)
			if c.is != nil {
				assert.ErrorIs(t, err, c.is)
			}
		})
	}
	t.Run("at a broker that does not take the connection", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "flux")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		listener, err := net.Listen("unix", filepath.Join(dir, "local"))
		require.NoError(t, err)
		defer listener.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = flux.Open(ctx, "local://"+filepath.Join(dir, "local"), flux.Options{Library: library})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAStreamThatIsLeftIsEndedAtTheBroker(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h := p.open(t)
		id := submit(t, h, shell(1, "exec sleep 60"))
		for range 3 {
			for e, err := range h.Events(t.Context(), id) {
				require.NoError(t, err)
				if e.Name == "submit" {
					break
				}
			}
		}
		if p.broker != nil {
			require.Eventually(t, func() bool { return p.broker.Requests("job-info.eventlog-watch-cancel") == 3 },
				10*time.Second, time.Millisecond)
		}
		require.NoError(t, h.Cancel(t.Context(), id, ""))
		_, err := h.Wait(t.Context(), id)
		require.NoError(t, err)
	})
}

func TestHandlesLeaveNothingBehind(t *testing.T) {
	b := startBroker(t)
	p := place{library: double(t), uri: b.URI()}
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return len(entries)
	}
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	once := func() {
		h, err := flux.Open(t.Context(), p.uri, flux.Options{Library: p.library})
		require.NoError(t, err)
		_, err = h.Attribute(t.Context(), "size")
		require.NoError(t, err)
		h.Close()
	}
	for range 20 {
		once()
	}
	goroutines, descriptors, tasks := runtime.NumGoroutine(), files(), threads()
	for range 100 {
		once()
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines+5)
	// The broker's ends of the connections are files of this process too.
	require.Eventually(t, func() bool { return files() <= descriptors }, 10*time.Second, 10*time.Millisecond)
	assert.LessOrEqual(t, threads(), tasks+10)
}

// The C side has no leak and no misuse of memory: a C program drives it, and the double
// of the library, with AddressSanitizer and LeakSanitizer in all of it.
func TestTheShimLeaksNothing(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "shim_test")
	out, err := exec.Command("cc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		"-I.", "-o", program, "testdata/shim_test.c", "shim.c", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, library := range libraries(t) {
		t.Run(name, func(t *testing.T) {
			b := startBroker(t)
			// The broker is ended where the program asks for it, by its last line.
			c := exec.CommandContext(t.Context(), program, library, b.URI())
			c.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=1:fast_unwind_on_malloc=0",
				"LSAN_OPTIONS=print_suppressions=0:suppressions=testdata/libflux.supp")
			c.Stderr = os.Stderr
			stdout, err := c.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			said := make([]byte, len("kill it\n"))
			_, err = stdout.Read(said)
			assert.NoError(t, err)
			b.Crash()
			assert.NoError(t, c.Wait(), "AddressSanitizer has found something")
			assert.Equal(t, "kill it\n", string(said))
		})
	}
}
