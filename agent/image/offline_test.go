package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image"
)

func TestAnImageOfTheOfflineMap(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(content), 0o644))
		return p
	}
	write("plain.tree/etc/hostname", "x")
	write("beside.tree/etc/hostname", "x")
	write("beside.tree.json", `{"architecture":"amd64","config":{"Entrypoint":["/a"],"Env":["B=c"]}}`)
	write("ch.tree/ch/metadata.json", `{"arch":"amd64","cwd":"/w","env":{"PATH":"/bin","B":"c"},"labels":{"l":"m"}}`)
	write("sandbox.tree/.singularity.d/env/10-docker2singularity.sh", "#!/bin/sh\nexport PATH=\"/bin:/x\"\nexport B=\"${B:-\"c d\"}\"\n")
	write("image.squashfs", "hsqs and more")
	write("image.sqsh.json", `not this one`)
	write("image.sif", strings.Repeat("x", 32)+"SIF_MAGIC\x00and more")
	write("image.sif.json", `{"Entrypoint":["/a"]}`)
	write("image.txt", "text")
	write("image.oci/oci-layout", "{}")
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "plain.tree", "ch")))
	s := newSite(t, nil, func(o *image.Options) {
		o.Offline = map[string]string{
			"nvcr.io/nvidia/pytorch:24.05-py3": filepath.Join(dir, "plain.tree"),
			"beside:*":                         filepath.Join(dir, "beside.tree"),
			"beside:special*":                  filepath.Join(dir, "ch.tree"),
			"index.docker.io/library/hub:1":    filepath.Join(dir, "sandbox.tree"),
			"squash":                           filepath.Join(dir, "image.squashfs"),
			"sif":                              filepath.Join(dir, "image.sif"),
			"text":                             filepath.Join(dir, "image.txt"),
			"layout":                           filepath.Join(dir, "image.oci"),
			"gone":                             filepath.Join(dir, "gone.tree"),
		}
	})
	for sentence, tc := range map[string]struct {
		name    string
		form    image.Form
		accepts []image.Form
		path    string
		env     []string
		err     string
	}{
		"by its name":                             {"nvcr.io/nvidia/pytorch:24.05-py3", image.FormTree, nil, "plain.tree", nil, ""},
		"with a configuration beside it":          {"beside:1", image.FormTree, nil, "beside.tree", []string{"B=c"}, ""},
		"by the longest pattern, of Charliecloud": {"beside:special1", image.FormTree, nil, "ch.tree", []string{"B=c", "PATH=/bin"}, ""},
		"by its full name, of Apptainer":          {"hub:1", image.FormTree, nil, "sandbox.tree", []string{"PATH=/bin:/x", "B=c d"}, ""},
		"as a squashfs":                           {"squash", image.FormSquashfs, nil, "image.squashfs", nil, ""},
		"as a SIF":                                {"sif", image.FormSIF, nil, "image.sif", nil, ""},
		"in another form that the runtime takes":  {"hub:1", image.FormSIF, []image.Form{image.FormTree}, "sandbox.tree", []string{"PATH=/bin:/x", "B=c d"}, ""},
		"in one that it does not take":            {"sif", image.FormTree, nil, "", nil, "has the form sif, and this runtime takes tree"},
		"as what is no image":                     {"text", image.FormTree, nil, "", nil, "no directory, SIF or squashfs"},
		"as a layout that is not unpacked":        {"layout", image.FormTree, nil, "", nil, "is an OCI layout, which no runtime takes"},
		"where there is nothing":                  {"gone", image.FormTree, nil, "", nil, "no such file"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := s.agent()
			got, err := s.ensure(image.Request{Reference: tc.name, Form: tc.form, Accepts: tc.accepts, Policy: corev1.PullAlways})
			if tc.err != "" {
				assert.Equal(t, image.ReasonErrImagePull, reason(t, err))
				assert.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(dir, tc.path), got.Path)
			assert.Equal(t, tc.env, got.Config.Env)
			assert.Equal(t, []string{"Normal Pulled"}, s.reasons())
		})
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*image.Options)
		want   string
	}{
		"no directory":             {func(o *image.Options) { o.Dir = "" }, "containers.store.dir"},
		"a pattern that is none":   {func(o *image.Options) { o.Offline = map[string]string{"[": "/x"} }, "pattern"},
		"a path that is relative":  {func(o *image.Options) { o.Offline = map[string]string{"a": "x"} }, "not absolute"},
		"a mirror that is no name": {func(o *image.Options) { o.Mirrors = map[string][]string{"a.b": {"https://c.d"}} }, "mirror"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := image.Options{Dir: t.TempDir()}
			tc.change(&o)
			_, err := image.Open(o)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
