package image_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/test/registry"
)

// site is a store and what it heard.
type site struct {
	*image.Store
	t       *testing.T
	options image.Options
	events  []image.Event
}

func newSite(t *testing.T, r *registry.Registry, change ...func(*image.Options)) *site {
	t.Helper()
	o := image.Options{Dir: filepath.Join(t.TempDir(), "store")}
	if r != nil {
		o.Insecure = []string{r.Host()}
	}
	for _, c := range change {
		c(&o)
	}
	s, err := image.Open(o)
	require.NoError(t, err)
	s.SetPace(patient)
	t.Cleanup(s.Shrunk) // it goes on after a pull
	return &site{Store: s, t: t, options: o}
}

// agent is another agent with the same store.
func (s *site) agent() *site {
	return newSite(s.t, nil, func(o *image.Options) { *o = s.options })
}

func (s *site) ensure(r image.Request) (*image.Image, error) {
	s.t.Helper()
	if r.Form == "" {
		r.Form = image.FormTree
	}
	if r.Policy == "" {
		r.Policy = corev1.PullIfNotPresent
	}
	s.events = nil
	r.Progress = func(e image.Event) { s.events = append(s.events, e) }
	got, release, err := s.Ensure(s.t.Context(), r)
	if err == nil {
		s.t.Cleanup(release)
	}
	return got, err
}

func (s *site) reasons() []string {
	var reasons []string
	for _, e := range s.events {
		reasons = append(reasons, e.Type+" "+e.Reason)
	}
	return reasons
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	require.NoError(t, err)
	return string(data)
}

// reason is that of an image's Error.
func reason(t *testing.T, err error) string {
	t.Helper()
	var e *image.Error
	require.ErrorAs(t, err, &e)
	return e.Reason
}

func app(t *testing.T, text string) v1.Image {
	return registry.Image(t, v1.Config{Entrypoint: []string{"/bin/app"}, Env: []string{"A=b"}, WorkingDir: "/w"},
		registry.Files(map[string]string{"bin/app": "#!/bin/sh\n", "etc/text": text}),
		registry.Files(map[string]string{"w/": ""}))
}

func TestAnImageIsPulledAsATreeWithItsConfiguration(t *testing.T) {
	r := registry.Start(t)
	digest := r.Push("team/app:1", app(t, "one"))
	s := newSite(t, r)

	got, err := s.ensure(image.Request{Reference: r.Image("team/app:1")})
	require.NoError(t, err)
	assert.Equal(t, "one", read(t, got.Path, "etc/text"))
	assert.Equal(t, []string{"/bin/app"}, got.Config.Entrypoint)
	assert.Equal(t, []string{"A=b"}, got.Config.Env)
	assert.Equal(t, digest, got.Digest)
	assert.Equal(t, r.Image("team/app@"+digest), got.ID)
	assert.Equal(t, int64(len("one")+len("#!/bin/sh\n")), got.Size)
	assert.Equal(t, []string{"Normal Pulling", "Normal Pulled"}, s.reasons())
	assert.Regexp(t, `^Successfully pulled image ".*" in .* \(.* including waiting\)\. Image size: 13 bytes\.$`, s.events[1].Message)
	left, err := os.ReadDir(filepath.Join(s.options.Dir, "work"))
	require.NoError(t, err)
	assert.Empty(t, left)

	got, err = s.agent().ensure(image.Request{Reference: r.Image("team/app@" + digest)})
	require.NoError(t, err, "and by its digest")
	assert.Equal(t, "one", read(t, got.Path, "etc/text"))
	for blob, n := range r.Blobs() {
		assert.Equal(t, 1, n, blob)
	}
}

func TestThePolicyDecidesWhetherTheRegistryIsAsked(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", app(t, "one"))
	s := newSite(t, r)
	name := r.Image("app:1")

	_, err := s.ensure(image.Request{Reference: name, Policy: corev1.PullNever})
	assert.Equal(t, image.ReasonErrImageNeverPull, reason(t, err))
	assert.Equal(t, []string{"Warning ErrImageNeverPull"}, s.reasons())

	_, err = s.ensure(image.Request{Reference: name})
	require.NoError(t, err)
	_, err = s.ensure(image.Request{Reference: name, Policy: corev1.PullAlways})
	require.NoError(t, err)
	for blob, n := range r.Blobs() {
		assert.Equal(t, 1, n, "Always downloads nothing if the digest is the same: %s", blob)
	}
	assert.Equal(t, 1, r.Manifests())

	r.Push("app:1", app(t, "two"))
	got, err := s.ensure(image.Request{Reference: name})
	require.NoError(t, err)
	assert.Equal(t, "one", read(t, got.Path, "etc/text"), "IfNotPresent takes what is there")
	assert.Equal(t, []string{"Normal Pulled"}, s.reasons())
	assert.Equal(t, `Container image "`+name+`" already present on machine`, s.events[0].Message)
	got, err = s.ensure(image.Request{Reference: name, Policy: corev1.PullAlways})
	require.NoError(t, err)
	assert.Equal(t, "two", read(t, got.Path, "etc/text"), "Always sees that the tag has moved")

	r.Stop()
	for _, policy := range []corev1.PullPolicy{corev1.PullIfNotPresent, corev1.PullNever} {
		got, err = s.agent().ensure(image.Request{Reference: name, Policy: policy})
		require.NoError(t, err)
		assert.Equal(t, "two", read(t, got.Path, "etc/text"))
	}
	_, err = s.ensure(image.Request{Reference: name, Policy: corev1.PullAlways})
	assert.Equal(t, image.ReasonRegistryUnavailable, reason(t, err), "Always needs the registry: %v", err)
	assert.Equal(t, []string{"Normal Pulling", "Warning Failed"}, s.reasons())
}

func TestOneOfEightAgentsPullsTheImage(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", registry.Image(t, v1.Config{}, registry.Files(map[string]string{"a": noise(1 << 20)}), registry.Files(map[string]string{"b": "b"})))
	r.Slow(200 * time.Millisecond)
	s := newSite(t, r)
	o := order{Options: s.options, Reference: r.Image("app:1"), Form: image.FormSquashfs}
	var agents sync.WaitGroup
	results := make([]done, 8)
	for i := range results {
		agents.Go(func() {
			out, err := another(t, o).Output()
			if assert.NoError(t, err) {
				assert.NoError(t, json.Unmarshal(out, &results[i]))
			}
		})
	}
	agents.Wait()
	for _, d := range results {
		assert.Empty(t, d.Error)
		assert.Equal(t, results[0].Path, d.Path)
		assert.Equal(t, "Pulled", d.Events[len(d.Events)-1].Reason)
	}
	assert.Len(t, r.Blobs(), 3, "the configuration and two layers")
	for blob, n := range r.Blobs() {
		assert.Equal(t, 1, n, blob)
	}
	out, err := exec.CommandContext(t.Context(), "unsquashfs", "-ll", results[0].Path).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "root/root")
	left, err := os.ReadDir(filepath.Join(s.options.Dir, "work"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAnotherAgentGoesOnWhenThePullerIsKilled(t *testing.T) {
	r := registry.Start(t)
	img := registry.Image(t, v1.Config{},
		registry.Files(map[string]string{"first": "1"}), registry.Files(map[string]string{"second": "2"}))
	r.Push("app:1", img)
	layers, err := img.Layers()
	require.NoError(t, err)
	first, err := layers[0].Digest()
	require.NoError(t, err)
	second, err := layers[1].Digest()
	require.NoError(t, err)
	// The second layer never comes for the first puller.
	r.Fail(func(q *http.Request) int {
		if strings.HasSuffix(q.URL.Path, second.String()) {
			<-q.Context().Done()
		}
		return 0
	})
	s := newSite(t, r)
	puller := another(t, order{Options: s.options, Reference: r.Image("app:1"), Form: image.FormTree})
	require.NoError(t, puller.Start())
	require.Eventually(t, func() bool {
		there, err := filepath.Glob(filepath.Join(s.options.Dir, "work/*/oci/blobs/sha256", first.Hex))
		return err == nil && len(there) == 1 && r.Blobs()[second.String()] == 1
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, puller.Process.Kill())
	_ = puller.Wait() // it was killed
	s.SetPace(hasty)
	r.Fail(nil)

	got, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	require.NoError(t, err)
	assert.Equal(t, "1", read(t, got.Path, "first"))
	assert.Equal(t, "2", read(t, got.Path, "second"))
	assert.Equal(t, 1, r.Blobs()[first.String()], "what was whole is not downloaded again")
	assert.Equal(t, 2, r.Blobs()[second.String()])
	left, err := os.ReadDir(filepath.Join(s.options.Dir, "work"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAStoreThatAnotherHasMadeIsRefused(t *testing.T) {
	above := t.TempDir()
	require.NoError(t, os.Chmod(above, 0o1777))
	dir := filepath.Join(above, "alice")
	require.NoError(t, os.Mkdir(dir, 0o755))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 12345, 12345))
		_, err := image.Open(image.Options{Dir: dir})
		assert.ErrorContains(t, err, "it is another's (user 12345)")
		require.NoError(t, os.Chmod(above, 0o755))
	}
	_, err := image.Open(image.Options{Dir: dir})
	assert.NoError(t, err)
}

func TestAStoreThatEverybodyMayWriteIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o1777))
	_, err := image.Open(image.Options{Dir: dir})
	assert.ErrorContains(t, err, "{user}")
}

func TestAGroupsStoreCanBeWrittenByItsMembers(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", app(t, "one"))
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o2770|os.ModeSetgid))
	s := newSite(t, r, func(o *image.Options) { o.Dir = dir })
	for _, form := range []image.Form{image.FormTree, image.FormSquashfs} {
		_, err := s.ensure(image.Request{Reference: r.Image("app:1"), Form: form})
		require.NoError(t, err)
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			info, err := d.Info()
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o070), info.Mode().Perm()&0o070, path)
		}
		return err
	}))
}

func TestAFullDiskIsToldOfAndLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", dir).CombinedOutput(); err != nil {
		require.Fail(t, "this test makes a small filesystem, for which it needs root", "%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	r := registry.Start(t)
	r.Push("big:1", registry.Image(t, v1.Config{}, registry.Files(map[string]string{"big": noise(3 << 20)})))
	s := newSite(t, r, func(o *image.Options) { o.Dir = filepath.Join(dir, "store") })
	_, err := s.ensure(image.Request{Reference: r.Image("big:1")})
	assert.Equal(t, image.ReasonErrImagePull, reason(t, err))
	assert.ErrorContains(t, err, "is full")
	assert.ErrorContains(t, err, "images prune")
	left, err := os.ReadDir(filepath.Join(s.options.Dir, "work"))
	require.NoError(t, err)
	assert.Empty(t, left)

	// What nobody uses makes room.
	r.Push("small:1", registry.Image(t, v1.Config{}, registry.Files(map[string]string{"small": strings.Repeat("x", 2<<20)})))
	r.Push("fits:1", registry.Image(t, v1.Config{}, registry.Files(map[string]string{"fits": strings.Repeat("y", 3<<20)})))
	_, release, err := s.Ensure(t.Context(), image.Request{Reference: r.Image("small:1"), Form: image.FormTree})
	require.NoError(t, err)
	release()
	_, err = s.ensure(image.Request{Reference: r.Image("fits:1")})
	require.NoError(t, err)
	entries, err := s.List()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, []string{r.Image("fits:1")}, entries[0].References)
}

func TestAStoreThatItsUsersCannotWriteServesThem(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", app(t, "one"))
	full := newSite(t, r)
	_, release, err := full.Ensure(t.Context(), image.Request{Reference: r.Image("app:1"), Form: image.FormTree})
	require.NoError(t, err)
	release()
	full.Shrunk()
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.Mkdir(dir, 0o755))
	mount := func(words ...string) {
		out, err := exec.CommandContext(t.Context(), "mount", words...).CombinedOutput()
		require.NoError(t, err, "this test mounts, for which it needs root: %s", out)
	}
	mount("--bind", full.options.Dir, dir)
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	mount("-o", "remount,bind,ro", dir)
	s := newSite(t, r, func(o *image.Options) { o.Dir = dir })
	for _, policy := range []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever} {
		got, err := s.ensure(image.Request{Reference: r.Image("app:1"), Policy: policy})
		require.NoError(t, err, policy)
		assert.Equal(t, "one", read(t, got.Path, "etc/text"))
	}
	r.Push("app:1", app(t, "two"))
	_, err = s.ensure(image.Request{Reference: r.Image("app:1"), Policy: corev1.PullAlways})
	assert.ErrorContains(t, err, "read-only file system", "what is not there cannot be pulled")
}
