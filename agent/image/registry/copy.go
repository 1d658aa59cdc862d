package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/gangline/gangline/agent/image/dirs"
	"github.com/gangline/gangline/agent/image/jsonfile"
	"github.com/gangline/gangline/provider/spool/plain"
)

const (
	// parallel is how many blobs are downloaded at a time, as Docker does.
	parallel = 3
	// tries is how often a blob is asked for, each time from where it broke off.
	tries = 5
	// stall is how long a download may bring nothing.
	stall = time.Minute
)

var errStalled = errors.New("the download has brought nothing for a minute")

// Copy is an image on its way into an OCI layout.
type Copy struct {
	layout   string
	manifest *v1.Manifest
	image    *v1.ConfigFile
	done     atomic.Int64 // bytes of the layers

	raw     []byte
	media   types.MediaType
	stall   time.Duration
	session *session
	client  *http.Client
}

// Image is the manifest and the configuration.
func (c *Copy) Image() (*v1.Manifest, *v1.ConfigFile) { return c.manifest, c.image }

// Done is how many bytes of the layers are there.
func (c *Copy) Done() int64 { return c.done.Load() }

// Begin fetches an image's manifest and configuration into a layout, whose directory is
// made if need be. What is there of an earlier try is not fetched again.
func (c *Client) Begin(ctx context.Context, reference, layout string) (*Copy, error) {
	ref, err := c.Parse(reference)
	if err != nil {
		return nil, err
	}
	copied := &Copy{layout: layout, stall: stall}
	err = c.try(ctx, ref, func(s *session) error {
		descriptor, err := remote.Get(s.ref, append(s.options(ctx), remote.WithPlatform(c.config.Platform))...)
		if err != nil {
			return err
		}
		if err := copied.readManifest(s.ref.String(), descriptor, c.config.Platform); err != nil {
			return err
		}
		copied.session, copied.client = s, &http.Client{Transport: s.transport}
		return copied.readConfig(ctx, c.config.Platform)
	})
	if err != nil {
		return nil, err
	}
	return copied, nil
}

func (c *Copy) readManifest(image string, d *remote.Descriptor, platform v1.Platform) error {
	img, err := d.Image()
	if err != nil {
		if d.MediaType.IsIndex() {
			return &Error{NotFound: true, cause: err, message: fmt.Sprintf("%s has no image for %s/%s, which this node is", image, platform.OS, platform.Architecture)}
		}
		return err
	}
	if c.manifest, err = img.Manifest(); err != nil {
		return err
	}
	if c.raw, err = img.RawManifest(); err != nil {
		return err
	}
	c.media, err = img.MediaType()
	return err
}

func (c *Copy) readConfig(ctx context.Context, platform v1.Platform) error {
	if err := dirs.Make(filepath.Join(c.layout, "blobs", "sha256")); err != nil {
		return err
	}
	if size := c.manifest.Config.Size; size > jsonfile.Most {
		return fmt.Errorf("the image's configuration has %d bytes, and may have %d: it is none", size, jsonfile.Most)
	}
	if err := c.blob(ctx, c.manifest.Config); err != nil {
		return err
	}
	data, err := plain.Read(BlobPath(c.layout, c.manifest.Config.Digest), jsonfile.Most)
	if err != nil {
		return fmt.Errorf("reading the image's configuration: %w", err)
	}
	if c.image, err = v1.ParseConfigFile(bytes.NewReader(data)); err != nil {
		return fmt.Errorf("reading the image's configuration: %w", err)
	}
	if arch := c.image.Architecture; arch != "" && arch != platform.Architecture {
		return &Error{NotFound: true, message: fmt.Sprintf("the image is for %s, but this node is %s", arch, platform.Architecture)}
	}
	return nil
}

// Layers downloads the layers. ready is called for each as it is there, from several
// goroutines.
func (c *Copy) Layers(ctx context.Context, ready func(index int)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, layer := range c.manifest.Layers {
		group.Go(func() error {
			if err := c.blob(ctx, layer); err != nil {
				return explain(err, c.session.ref)
			}
			ready(i)
			return nil
		})
	}
	return group.Wait()
}

// Seal makes the layout one that others can read, when all of it is there.
func (c *Copy) Seal(reference string) error {
	sum := sha256.Sum256(c.raw)
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: c.media, Size: int64(len(c.raw)), Digest: digest,
		Annotations: map[string]string{"org.opencontainers.image.ref.name": reference},
	}}}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(BlobPath(c.layout, digest), c.raw, 0o644),
		os.WriteFile(filepath.Join(c.layout, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644),
		os.WriteFile(filepath.Join(c.layout, "index.json"), data, 0o644),
	)
}

// BlobPath is where a layout has a blob.
func BlobPath(layout string, digest v1.Hash) string {
	return filepath.Join(layout, "blobs", digest.Algorithm, digest.Hex)
}

// blob downloads one blob. It gets its name when its digest has been checked.
func (c *Copy) blob(ctx context.Context, d v1.Descriptor) error {
	if d.Digest.Algorithm != "sha256" {
		return fmt.Errorf("a digest of the kind %q cannot be checked", d.Digest.Algorithm)
	}
	path := BlobPath(c.layout, d.Digest)
	if info, err := os.Stat(path); err == nil && info.Size() == d.Size {
		c.count(d, d.Size)
		return nil
	}
	part, err := os.CreateTemp(filepath.Dir(path), ".part-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) //nolint:errcheck // gone if all went well
	defer part.Close()           //nolint:errcheck // synced before
	sum := sha256.New()
	for try, have := 1, int64(0); ; try++ {
		n, err := c.piece(ctx, d, have, part, sum)
		have += n
		if err == nil && have == d.Size {
			break
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		if try == tries || ctx.Err() != nil || !transient(err) {
			return fmt.Errorf("downloading %s: %w", d.Digest, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(try*try) * 500 * time.Millisecond):
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != d.Digest.Hex {
		return fmt.Errorf("%s came as sha256:%s: the registry, or something on the way, changes what it sends", d.Digest, got)
	}
	if err := errors.Join(part.Chmod(0o644), part.Sync()); err != nil {
		return err
	}
	return os.Rename(part.Name(), path)
}

// piece downloads what is missing of a blob, and returns how much of it came.
func (c *Copy) piece(ctx context.Context, d v1.Descriptor, have int64, to io.Writer, sum hash.Hash) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	repository := c.session.ref.Context()
	url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", repository.Scheme(), repository.RegistryStr(), repository.RepositoryStr(), d.Digest)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // what counts is what was read
	if err := transport.CheckError(response, http.StatusOK, http.StatusPartialContent); err != nil {
		return 0, err
	}
	watch := time.AfterFunc(c.stall, func() { cancel(errStalled) })
	defer watch.Stop()
	watched := readFunc(func(p []byte) (int, error) {
		n, err := response.Body.Read(p)
		watch.Reset(c.stall)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		return n, err
	})
	if response.StatusCode == http.StatusOK && have > 0 {
		// The registry knows no ranges: what is there already is read over.
		if _, err := io.CopyN(io.Discard, watched, have); err != nil {
			return 0, err
		}
	}
	body := io.LimitReader(watched, d.Size-have+1) // more than was promised is an error
	n, err := io.Copy(io.MultiWriter(to, sum), readFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		c.count(d, int64(n))
		return n, err
	}))
	if n > d.Size-have {
		err = fmt.Errorf("more came than the %d bytes that the manifest promises", d.Size)
	}
	return n, err
}

// count adds what came of a layer.
func (c *Copy) count(d v1.Descriptor, n int64) {
	if d.Digest != c.manifest.Config.Digest {
		c.done.Add(n)
	}
}

// transient says whether it is worth asking again for the rest of a blob.
func transient(err error) bool {
	var answer *transport.Error
	if errors.As(err, &answer) {
		return answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests
	}
	var file *os.PathError
	return !errors.As(err, &file) && !errors.Is(err, errNotAllowed) // a full disk, for one
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
