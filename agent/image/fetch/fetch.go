package fetch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/gangline/gangline/agent/image/registry"
	"github.com/gangline/gangline/agent/image/unpack"
)

// Job says what is to be done.
type Job struct {
	Registry  registry.Config `json:"registry"`
	Reference string          `json:"reference"`

	// Layout is where the OCI layout is made, or lies; empty: only resolve the name.
	// Otherwise the reference must have a digest.
	Layout string `json:"layout,omitempty"`
	// Tree is an empty directory in which the image is to be unpacked.
	Tree string `json:"tree,omitempty"`
	// Shared gives the group all rights to the tree that the owner has.
	Shared bool `json:"shared,omitempty"`
	// Tool is the site's own command for pulling.
	Tool []string `json:"tool,omitempty"`
}

// Result is what came of it.
type Result struct {
	Resolved registry.Resolved `json:"resolved"`
	// Config is the image's configuration, as the registry has it.
	Config *v1.ConfigFile `json:"config,omitempty"`
	// Size is that of the tree, in bytes.
	Size int64 `json:"size,omitempty"`
}

// Progress is how much of an image has come.
type Progress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// Run does a job. progress is called for each part that has come, by one goroutine at a
// time; it must be quick.
func Run(ctx context.Context, j Job, progress func(Progress)) (*Result, error) {
	if j.Layout == "" {
		client, err := registry.New(j.Registry)
		if err != nil {
			return nil, err
		}
		resolved, err := client.Resolve(ctx, j.Reference)
		return &Result{Resolved: resolved}, err
	}
	image, err := j.source(ctx)
	if err != nil {
		return nil, err
	}
	return j.bring(ctx, image, progress)
}

// source is where an image's layers come from.
type source interface {
	// Image is the manifest and the configuration.
	Image() (*v1.Manifest, *v1.ConfigFile)
	// Layers brings the layers into the layout and calls ready for each.
	Layers(ctx context.Context, ready func(index int)) error
	// Done is how many bytes of the layers are there.
	Done() int64
	// Seal completes the layout.
	Seal(reference string) error
}

// source is a layout that is complete, what the site's tool makes, or the registry.
func (j Job) source(ctx context.Context) (source, error) {
	if local, err := openLayout(j.Layout); err == nil {
		return local, nil
	}
	if len(j.Tool) > 0 {
		if err := j.runTool(ctx); err != nil {
			return nil, err
		}
		return openLayout(j.Layout)
	}
	client, err := registry.New(j.Registry)
	if err != nil {
		return nil, err
	}
	return client.Begin(ctx, j.Reference, j.Layout)
}

// bring unpacks each layer when it is there, while those after it are on their way.
func (j Job) bring(ctx context.Context, image source, progress func(Progress)) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	manifest, config := image.Image()
	result := &Result{Config: config}
	there := make([]chan struct{}, len(manifest.Layers))
	for i := range there {
		there[i] = make(chan struct{})
	}
	unpacked := make(chan error, 1)
	go func() {
		var err error
		if result.Size, err = j.unpack(ctx, manifest, config, there); err != nil {
			cancel(err)
		}
		unpacked <- err
	}()
	stop := report(func() { progress(Progress{Done: image.Done(), Total: total(manifest)}) })
	err := image.Layers(ctx, func(i int) { close(there[i]) })
	if err != nil {
		cancel(err)
	}
	err = errors.Join(err, <-unpacked)
	stop()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	return result, image.Seal(j.Reference)
}

func total(m *v1.Manifest) int64 {
	var sum int64
	for _, l := range m.Layers {
		sum += l.Size
	}
	return sum
}

// unpack makes the tree, layer by layer.
func (j Job) unpack(ctx context.Context, m *v1.Manifest, config *v1.ConfigFile, there []chan struct{}) (int64, error) {
	if len(config.RootFS.DiffIDs) != len(m.Layers) {
		return 0, fmt.Errorf("the image has %d layers, but its configuration names %d", len(m.Layers), len(config.RootFS.DiffIDs))
	}
	tree, err := unpack.Open(j.Tree, j.Shared)
	if err != nil {
		return 0, err
	}
	defer tree.Close() //nolint:errcheck // closed before, if all went well
	for i, layer := range m.Layers {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-there[i]:
		}
		if err := addLayer(ctx, tree, registry.BlobPath(j.Layout, layer.Digest), config.RootFS.DiffIDs[i]); err != nil {
			return 0, fmt.Errorf("layer %d of %d: %w", i+1, len(m.Layers), err)
		}
	}
	return tree.Bytes(), tree.Close()
}

func addLayer(ctx context.Context, tree *unpack.Tree, blob string, diffID v1.Hash) error {
	f, err := os.Open(blob)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	plain, err := decompress(f)
	if err != nil {
		return err
	}
	defer plain.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if err := tree.Layer(ctx, io.TeeReader(plain, sum)); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != diffID.Hex {
		return fmt.Errorf("it is not what the image's configuration says: sha256:%s, not %s", got, diffID)
	}
	return nil
}

// decompress judges by the first bytes: media types are often wrong.
func decompress(f io.Reader) (io.ReadCloser, error) {
	const window = 1 << 20
	r := bufio.NewReaderSize(f, window)
	magic, err := r.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		return gzip.NewReader(r)
	case string(magic) == "\x28\xb5\x2f\xfd":
		d, err := zstd.NewReader(r)
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// Clean removes what a job has left in a layout of an earlier, broken try, and keeps what
// is complete.
func Clean(layout string) error {
	parts, err := filepath.Glob(filepath.Join(layout, "blobs", "sha256", ".part-*"))
	for _, p := range parts {
		err = errors.Join(err, os.Remove(p))
	}
	return err
}
