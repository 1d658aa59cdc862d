package image_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/image/lease"
	"github.com/gangline/gangline/test/registry"
)

func TestWhichImagesAreRemoved(t *testing.T) {
	now := time.Now()
	entries := []image.Entry{
		{Digest: "new", Size: 10, LastUse: now.Add(-time.Hour)},
		{Digest: "oldest", Size: 10, LastUse: now.Add(-9 * time.Hour)},
		{Digest: "old", Size: 10, LastUse: now.Add(-5 * time.Hour)},
		{Digest: "used", Size: 10, LastUse: now.Add(-20 * time.Hour), Users: []string{"hpc1.1.0"}},
	}
	for sentence, tc := range map[string]struct {
		prune image.Prune
		want  []string
	}{
		"none without a bound":                          {image.Prune{}, nil},
		"none if the store is small enough":             {image.Prune{MaxBytes: 40}, nil},
		"the oldest until it is, and none that is used": {image.Prune{MaxBytes: 25}, []string{"oldest", "old"}},
		"none that was used a short time ago":           {image.Prune{MaxBytes: 1, MinAge: 2 * time.Hour}, []string{"oldest", "old"}},
		"all that nobody uses":                          {image.Prune{All: true}, []string{"oldest", "old", "new"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got []string
			for _, e := range image.Victims(entries, tc.prune, now) {
				got = append(got, e.Digest)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestWhatIsInUseStays(t *testing.T) {
	r := registry.Start(t)
	r.Push("used:1", app(t, "used"))
	r.Push("free:1", app(t, "free"))
	s := newSite(t, r)
	used, release, err := s.Ensure(t.Context(), image.Request{Reference: r.Image("used:1"), Form: image.FormTree})
	require.NoError(t, err)
	free, releaseFree, err := s.Ensure(t.Context(), image.Request{Reference: r.Image("free:1"), Form: image.FormTree})
	require.NoError(t, err)
	releaseFree()
	releaseFree() // twice does no harm

	entries, err := s.List()
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for _, e := range entries {
		assert.Len(t, e.References, 1)
		assert.Equal(t, []string{"tree"}, e.FormNames())
	}

	other := s.agent() // on another node
	report, err := other.Prune(t.Context(), image.Prune{All: true})
	require.NoError(t, err)
	require.Len(t, report.Removed, 1)
	assert.NoDirExists(t, free.Path)
	assert.DirExists(t, used.Path)
	assert.Equal(t, used.Size, report.Size)

	// An agent that died without releasing is believed for a while.
	marks, err := filepath.Glob(filepath.Join(filepath.Dir(used.Path), "used/*"))
	require.NoError(t, err)
	require.Len(t, marks, 1)
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(marks[0], long, long))
	require.NoError(t, os.Chtimes(filepath.Dir(marks[0]), long, long))
	report, err = other.Prune(t.Context(), image.Prune{All: true, MinAge: 30 * time.Minute})
	require.NoError(t, err)
	assert.Len(t, report.Removed, 1)
	assert.NoDirExists(t, used.Path)
	release()

	got, err := s.ensure(image.Request{Reference: r.Image("used:1")})
	require.NoError(t, err, "a removed image is pulled again")
	assert.Equal(t, "used", read(t, got.Path, "etc/text"))
}

func TestAStoreStaysBelowItsSize(t *testing.T) {
	r := registry.Start(t)
	s := newSite(t, r, func(o *image.Options) { o.MaxBytes = 40 })
	for _, name := range []string{"a:1", "b:1", "c:1"} {
		r.Push(name, app(t, name+" has some text"))
		_, release, err := s.Ensure(t.Context(), image.Request{Reference: r.Image(name), Form: image.FormTree})
		require.NoError(t, err)
		release()
		s.Shrunk()
	}
	entries, err := s.List()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, []string{r.Image("c:1")}, entries[0].References)
}

func TestARemovalThatWasKilledHoldsNobodyUp(t *testing.T) {
	r := registry.Start(t)
	r.Push("a:1", app(t, "a"))
	s := newSite(t, r)
	got, release, err := s.Ensure(t.Context(), image.Request{Reference: r.Image("a:1"), Form: image.FormTree})
	require.NoError(t, err)
	release()
	sign := filepath.Join(filepath.Dir(got.Path), "used/.removing")
	require.NoError(t, os.WriteFile(sign, nil, 0o600))
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(sign, long, long))
	_, err = s.ensure(image.Request{Reference: r.Image("a:1"), Policy: corev1.PullNever})
	require.NoError(t, err)
	assert.NoFileExists(t, sign)
}

func TestAMarkIsNeverLostToARemoval(t *testing.T) {
	s := newSite(t, nil)
	s.SetPace(lease.Pace{Beat: time.Millisecond, Dead: time.Minute})
	dir := filepath.Join(s.options.Dir, "images", goarch, "abc")
	ctx, end := context.WithCancel(t.Context())
	var remover sync.WaitGroup
	remover.Go(func() {
		for ctx.Err() == nil {
			_ = s.Remove(dir) // a mark may come into what is being removed, which is swept later
		}
	})
	for range 1000 {
		marked, release, err := s.Use(ctx, dir)
		if !assert.NoError(t, err) || !assert.True(t, marked) {
			break
		}
		release()
	}
	end()
	remover.Wait()
	// An agent that was stopped for long confirms a mark that is gone.
	mark := filepath.Join(dir, "used", "hpc1.1.0")
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, image.Touch(mark))
	assert.FileExists(t, mark)
}

func TestAnImageWaitsForTheRightsToItsMarks(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	s := newSite(t, nil)
	s.SetPace(lease.Pace{Beat: 50 * time.Millisecond, Dead: time.Minute})
	dir := filepath.Join(s.options.Dir, "images", goarch, "abc")
	used := filepath.Join(dir, "used")
	require.NoError(t, os.MkdirAll(used, 0o700))
	require.NoError(t, os.Chmod(used, 0o500)) // as it is for others before its maker gives them rights
	_, _, err := s.Use(t.Context(), dir)
	require.ErrorContains(t, err, "marking the image as used", "which is not taken for a store that nobody writes")
	time.AfterFunc(75*time.Millisecond, func() { _ = os.Chmod(used, 0o700) })
	marked, release, err := s.Use(t.Context(), dir)
	require.NoError(t, err)
	release()
	assert.True(t, marked)
	require.NoError(t, os.Chmod(s.options.Dir, 0o500))
	require.NoError(t, os.Chmod(used, 0o500))
	_, _, err = s.Use(t.Context(), dir)
	assert.NoError(t, err, "a store that its users cannot write")
	require.NoError(t, os.Chmod(s.options.Dir, 0o700))
}

// asNobody runs a test again as an ordinary user: rights mean nothing to root.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "gangline-image-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	data, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	self := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(self, data, 0o755))
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestWhatDeadProcessesLeaveIsSwept(t *testing.T) {
	r := registry.Start(t)
	r.Push("a:1", app(t, "a"))
	s := newSite(t, r) // without a bound of its size
	got, release, err := s.Ensure(t.Context(), image.Request{Reference: r.Image("a:1"), Form: image.FormTree})
	require.NoError(t, err)
	release()
	s.Shrunk()
	work := filepath.Join(s.options.Dir, "work")
	long := time.Now().Add(-48 * time.Hour).Truncate(time.Second)
	for name, at := range map[string]time.Time{"trash.x": long, "abc.amd64.x": long, "def.amd64.x": time.Now(), "ccc.amd64.x": long} {
		require.NoError(t, os.MkdirAll(filepath.Join(work, name, "tree"), 0o700))
		require.NoError(t, os.Chtimes(filepath.Join(work, name), at, at))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(s.options.Dir, "leases/ccc"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.options.Dir, "leases/ccc/1"), nil, 0o600))
	used, recent := filepath.Join(filepath.Dir(got.Path), "used"), time.Now().Add(-10*time.Minute).Truncate(time.Second)
	stamp := filepath.Join(s.options.Dir, ".now-1")
	for path, at := range map[string]time.Time{stamp: long, filepath.Join(used, "dead"): long, filepath.Join(used, "alive"): recent} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
	}
	require.NoError(t, os.Chtimes(used, long, long))

	r.Push("b:1", app(t, "b"))
	_, err = s.ensure(image.Request{Reference: r.Image("b:1")})
	require.NoError(t, err)
	s.Shrunk()
	assert.Equal(t, []string{"ccc.amd64.x", "def.amd64.x"}, names(t, work), "not what is young, or whose puller lives")
	assert.Equal(t, []string{"alive"}, names(t, used))
	assert.NoFileExists(t, stamp)
	info, err := os.Stat(used)
	require.NoError(t, err)
	assert.Equal(t, recent, info.ModTime(), "which is no use of the image")
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
