package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layouts is the directory of the images as OCI layouts.
const layouts = "oci"

// The user that the programs run as.
const (
	userID   = 65532
	userName = "gangline"
	userHome = "/var/lib/gangline"
)

// images makes those whose programs were built: each an OCI layout, and the same as
// a tar archive, which podman, skopeo, ctr and others load.
func (r *release) images() error {
	for _, i := range r.wanted() {
		index, err := r.index(i)
		if err != nil {
			return fmt.Errorf("making the image %s: %w", i.name, err)
		}
		dir := filepath.Join(r.out, layouts, i.name)
		path, err := layout.Write(dir, empty.Index)
		if err == nil {
			err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version}))
		}
		if err == nil {
			err = r.packLayout(dir, filepath.Join(r.out, fmt.Sprintf("%s-%s.oci.tar", i.name, r.version)))
		}
		if err != nil {
			return fmt.Errorf("writing the image %s: %w", i.name, err)
		}
	}
	return nil
}

// wanted are the images of which all programs are built.
func (r *release) wanted() []image {
	var wanted []image
	for _, i := range allImages() {
		missing := slices.ContainsFunc(i.programs, func(name string) bool {
			return !slices.ContainsFunc(r.programs, func(p program) bool { return p.name == name })
		})
		if !missing {
			wanted = append(wanted, i)
		}
	}
	return wanted
}

// index is an image for each architecture.
func (r *release) index(i image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range r.architectures {
		img, err := r.image(i, architecture)
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index, nil
}

func (r *release) image(i image, architecture string) (v1.Image, error) {
	entries := []entry{
		{name: "etc/passwd", mode: 0o644, text: fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\n%s:x:%d:%d::%s:/sbin/nologin\n", userName, userID, userID, userHome)},
		{name: "etc/group", mode: 0o644, text: fmt.Sprintf("root:x:0:\n%s:x:%d:\n", userName, userID)},
		{name: "tmp/", mode: 0o1777},
		{name: "LICENSE", mode: 0o644, source: filepath.Join(r.root, "LICENSE")},
	}
	for _, p := range i.programs {
		entries = append(entries, entry{name: "usr/local/bin/" + p, mode: 0o755, source: r.binary(p, architecture)})
	}
	var content bytes.Buffer
	if err := pack(&content, entries, r.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make dist"}})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", architecture, v1.Time{Time: r.time}
	file.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", userID, userID),
		Env:        []string{"PATH=/usr/local/bin", "HOME=" + userHome},
		Entrypoint: []string{"/usr/local/bin/" + i.programs[0]},
		Labels: map[string]string{
			"org.opencontainers.image.title":    i.name,
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.revision,
			"org.opencontainers.image.created":  r.time.Format(time.RFC3339),
			"org.opencontainers.image.source":   "https://github.com/gangline/gangline",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, file)
}

func (r *release) packLayout(dir, file string) error {
	var entries []entry
	err := filepath.WalkDir(dir, func(source string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, source)
		entries = append(entries, entry{name: filepath.ToSlash(name), mode: 0o644, source: source})
		return err
	})
	if err != nil {
		return err
	}
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pack(to, entries, r.time), to.Close())
}

// push publishes the images that were made, as REGISTRY/NAME:VERSION.
func (r *release) push(ctx context.Context, registry string) error {
	for _, i := range r.wanted() {
		tag, err := name.NewTag(registry + "/" + i.name + ":" + r.version)
		if err != nil {
			return fmt.Errorf("--push: %w", err)
		}
		outer, err := layout.ImageIndexFromPath(filepath.Join(r.out, layouts, i.name))
		if err != nil {
			return fmt.Errorf("reading the image %s: %w", i.name, err)
		}
		manifest, err := outer.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			return fmt.Errorf("reading the image %s: its layout does not hold one image: %w", i.name, err)
		}
		index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
		if err != nil {
			return fmt.Errorf("reading the image %s: %w", i.name, err)
		}
		err = remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return fmt.Errorf("pushing %s: %w", tag, err)
		}
		fmt.Println("pushed", tag)
	}
	return nil
}
