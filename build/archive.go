package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file or, if it has no source and no text, a directory of an archive.
type entry struct {
	name         string
	mode         int64
	source, text string
}

// archive packs programs with what a site needs to run them.
func (r *release) archive(names []string, architecture string) error {
	base := fmt.Sprintf("gangline-%s-linux-%s", r.version, architecture)
	entries := []entry{
		{name: path.Join(base, "LICENSE"), mode: 0o644, source: filepath.Join(r.root, "LICENSE")},
		{name: path.Join(base, "gangline-node.service"), mode: 0o644, source: filepath.Join(r.root, "charts", "systemd", "gangline-node.service")},
	}
	for _, name := range names {
		entries = append(entries, entry{name: path.Join(base, name), mode: 0o755, source: r.binary(name, architecture)})
	}
	to, err := os.Create(filepath.Join(r.out, base+".tar.gz"))
	if err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	compressed := gzip.NewWriter(to)
	if err := errors.Join(pack(compressed, entries, r.time), compressed.Close(), to.Close()); err != nil {
		return fmt.Errorf("writing the archive %s: %w", base, err)
	}
	return nil
}

// pack writes a tar archive that depends on nothing but its entries and the time.
func pack(to io.Writer, entries []entry, at time.Time) error {
	archive := tar.NewWriter(to)
	for _, e := range entries {
		if err := e.pack(archive, at); err != nil {
			return fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	return archive.Close()
}

func (e entry) pack(archive *tar.Writer, at time.Time) error {
	header := tar.Header{Name: e.name, Mode: e.mode, ModTime: at, Format: tar.FormatPAX}
	if strings.HasSuffix(e.name, "/") {
		header.Typeflag = tar.TypeDir
		return archive.WriteHeader(&header)
	}
	var content io.Reader = strings.NewReader(e.text)
	header.Typeflag, header.Size = tar.TypeReg, int64(len(e.text))
	if e.source != "" {
		file, err := os.Open(e.source)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // it was only read
		info, err := file.Stat()
		if err != nil {
			return err
		}
		content, header.Size = file, info.Size()
	}
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

// checksums writes a file that sha256sum --check understands, of all files that are
// to be published.
func checksums(dir string) error {
	var lines strings.Builder
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == layouts):
			return filepath.SkipDir // the parts of the others
		case d.IsDir() || d.Name() == mark:
			return nil
		}
		sum, err := sum(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		fmt.Fprintf(&lines, "%x  %s\n", sum, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("adding up the files: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, mark), []byte(lines.String()), 0o644)
}

func sum(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
