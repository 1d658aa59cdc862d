package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const version = "v9.8.7-test"

// TestRelease makes one in a short form, one program for this machine, and looks at
// all of it as a site would.
func TestRelease(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://") + "/gangline"
	out := t.TempDir()
	require.NoError(t, run(t.Context(), []string{
		"--root", "..", "--out", out, "--quick", "--version", version, "--platforms", "linux/amd64", "--programs", "gangline-agent", "--push", host,
	}))

	t.Run("the checksums are right and of all files", func(t *testing.T) {
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", mark)
		check.Dir = out
		words, err := check.CombinedOutput()
		require.NoError(t, err, string(words))
		assert.ElementsMatch(t, []string{
			"gangline-v9.8.7-test-linux-amd64.tar.gz: OK", "gangline-agent-v9.8.7-test-linux-amd64.cdx.json: OK",
			"gangline-9.8.7-test.tgz: OK", "gangline-agent-v9.8.7-test.oci.tar: OK",
		}, strings.Split(strings.TrimSpace(string(words)), "\n"))
	})

	t.Run("the archive holds the program, which says its version", func(t *testing.T) {
		files := unpack(t, filepath.Join(out, "gangline-v9.8.7-test-linux-amd64.tar.gz"))
		const base = "gangline-v9.8.7-test-linux-amd64/"
		assert.Contains(t, string(files[base+"LICENSE"]), "Apache License")
		assert.Contains(t, string(files[base+"gangline-node.service"]), "ExecStart=/usr/local/bin/gangline-node run")
		assert.Contains(t, says(t, files[base+"gangline-agent"], "version"), version)
	})

	t.Run("the bill of materials names the modules", func(t *testing.T) {
		file, err := os.Open(filepath.Join(out, "gangline-agent-v9.8.7-test-linux-amd64.cdx.json"))
		require.NoError(t, err)
		defer file.Close() //nolint:errcheck // it is only read
		var bill cdx.BOM
		require.NoError(t, cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&bill))
		assert.Equal(t, version, bill.Metadata.Component.Version)
		var names []string
		for _, c := range *bill.Components {
			assert.NotEmpty(t, c.Version, c.Name)
			names = append(names, c.Name)
		}
		assert.Subset(t, names, []string{"filippo.io/age", "golang.org/x/crypto", "github.com/spf13/cobra", "std"})
	})

	t.Run("the chart has the version", func(t *testing.T) {
		chart := string(unpack(t, filepath.Join(out, "gangline-9.8.7-test.tgz"))["gangline/Chart.yaml"])
		assert.Contains(t, chart, "\nversion: 9.8.7-test\n")
		assert.Contains(t, chart, "appVersion: "+version+"\n")
	})

	t.Run("the image that was pushed can be pulled, and holds the program", func(t *testing.T) {
		reference, err := name.ParseReference(host + "/gangline-agent:" + version)
		require.NoError(t, err)
		index, err := remote.Index(reference)
		require.NoError(t, err)
		require.NoError(t, validate.Index(index))
		img, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
		require.NoError(t, err)
		config, err := img.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, "65532:65532", config.Config.User)
		assert.Equal(t, []string{"/usr/local/bin/gangline-agent"}, config.Config.Entrypoint)
		assert.Equal(t, version, config.Config.Labels["org.opencontainers.image.version"])
		files := untar(t, mutate.Extract(img))
		assert.Contains(t, string(files["etc/passwd"]), "gangline:x:65532:65532:")
		assert.Contains(t, says(t, files["usr/local/bin/gangline-agent"], "version"), version)
	})

	t.Run("a second run makes the same", func(t *testing.T) {
		before, err := os.ReadFile(filepath.Join(out, mark))
		require.NoError(t, err)
		require.NoError(t, run(t.Context(), []string{
			"--root", "..", "--out", out, "--quick", "--version", version, "--platforms", "linux/amd64", "--programs", "gangline-agent",
		}))
		after, err := os.ReadFile(filepath.Join(out, mark))
		require.NoError(t, err)
		assert.Equal(t, without(string(before), ".tgz"), without(string(after), ".tgz"), "Helm notes the time in its archive")
	})
}

func TestRefusals(t *testing.T) {
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "thesis.tex"), nil, 0o600))
	for what, test := range map[string]struct {
		args    []string
		message string
	}{
		"a directory of somebody else":          {[]string{"--out", foreign}, "holds files of somebody else"},
		"a version that no registry would take": {[]string{"--version", "v1.2.3+dirty"}, `"v1.2.3+dirty" is no version like v1.2.3`},
		"a program that there is not":           {[]string{"--programs", "gangline-cloud"}, `there is no program "gangline-cloud"`},
		"another system":                        {[]string{"--platforms", "plan9/amd64"}, `"plan9/amd64" is not linux/ARCHITECTURE`},
	} {
		t.Run(what, func(t *testing.T) {
			args := append([]string{"--root", "..", "--out", t.TempDir(), "--version", version}, test.args...)
			assert.ErrorContains(t, run(t.Context(), args), test.message)
		})
	}
}

func without(lines, suffix string) string {
	var kept []string
	for line := range strings.Lines(lines) {
		if !strings.HasSuffix(strings.TrimSpace(line), suffix) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func unpack(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	compressed, err := gzip.NewReader(f)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it is only read
	return untar(t, compressed)
}

func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(from)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		data, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[header.Name] = data
	}
}

// says runs a program.
func says(t *testing.T, program []byte, args ...string) string {
	t.Helper()
	require.NotEmpty(t, program, "it is there")
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(file, program, 0o755))
	out, err := exec.CommandContext(t.Context(), file, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}
