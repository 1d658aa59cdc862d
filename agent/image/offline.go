package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// offline looks an image up in the site's map: by its name as it is written, by its full
// name, and by patterns, of which the longest counts.
func (s *Store) offline(reference string, ref name.Reference) (at string, found bool) {
	names := []string{reference, ref.Name()}
	for _, n := range names {
		if at, found = s.options.Offline[n]; found {
			return at, true
		}
	}
	longest := ""
	for pattern, p := range s.options.Offline {
		fits := slices.ContainsFunc(names, func(n string) bool {
			ok, err := path.Match(pattern, n)
			return err == nil && ok
		})
		if fits && (len(pattern) > len(longest) || len(pattern) == len(longest) && pattern < longest) {
			longest, at, found = pattern, p, true
		}
	}
	return at, found
}

func takeOffline(r Request, at string) (*Image, error) {
	fail := func(err error) (*Image, error) {
		return nil, &Error{ReasonErrImagePull, fmt.Sprintf("image %q is in the site's offline map, but cannot be used: %v", r.Reference, err)}
	}
	form, size, err := formOf(at)
	if err != nil {
		return fail(err)
	}
	if form != r.Form && !slices.Contains(r.Accepts, form) {
		return fail(fmt.Errorf("%s has the form %s, and this runtime takes %s: the site names another path, or the pod another runtime", at, form, r.Form))
	}
	config, err := offlineConfig(at, form)
	if err != nil {
		return fail(err)
	}
	return &Image{Reference: r.Reference, ID: at, Form: form, Path: at, Config: config, Size: size}, nil
}

// formOf looks what lies at a path.
func formOf(at string) (Form, int64, error) {
	info, err := os.Stat(at)
	if err != nil {
		return "", 0, err
	}
	if info.IsDir() {
		if exists(filepath.Join(at, "oci-layout")) {
			return "", 0, fmt.Errorf("%s is an OCI layout, which no runtime takes as it is: unpack it (umoci unpack --rootless), and name its rootfs", at)
		}
		return FormTree, 0, nil
	}
	f, err := os.Open(at)
	if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", 0, err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("hsqs")):
		return FormSquashfs, info.Size(), nil
	// A SIF begins with 32 bytes that make it a program.
	case len(head) > 32 && bytes.HasPrefix(head[32:], []byte("SIF_MAGIC")):
		return FormSIF, info.Size(), nil
	}
	return "", 0, fmt.Errorf("%s is no directory, SIF or squashfs", at)
}

// offlineConfig is the configuration of an image of the offline map: of the file beside
// it, PATH.json, which is an OCI configuration ("skopeo inspect --config") or its
// "config" alone; else what the program that made the image has left in it; else empty.
func offlineConfig(at string, form Form) (v1.Config, error) {
	data, err := os.ReadFile(at + ".json")
	if err == nil {
		return parseConfig(at+".json", data)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return v1.Config{}, err
	}
	if form == FormTree {
		return treeConfig(at)
	}
	return v1.Config{}, nil
}

func parseConfig(path string, data []byte) (v1.Config, error) {
	var file struct {
		Config *v1.Config `json:"config"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return v1.Config{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if file.Config != nil {
		return *file.Config, nil
	}
	var alone v1.Config
	if err := json.Unmarshal(data, &alone); err != nil {
		return v1.Config{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return alone, nil
}

// treeConfig reads what Charliecloud (ch/metadata.json) and Apptainer's sandboxes
// (.singularity.d/env) keep of an image's environment and working directory. Neither
// keeps entrypoint and command in a form that can be read back.
func treeConfig(tree string) (v1.Config, error) {
	root, err := os.OpenRoot(tree) // links in an image lead nowhere
	if err != nil {
		return v1.Config{}, err
	}
	defer root.Close() //nolint:errcheck // only read
	var config v1.Config
	if data, err := root.ReadFile("ch/metadata.json"); err == nil {
		var charliecloud struct {
			Cwd    string            `json:"cwd"`
			Env    map[string]string `json:"env"`
			Labels map[string]string `json:"labels"`
		}
		if err := json.Unmarshal(data, &charliecloud); err != nil {
			return config, fmt.Errorf("reading ch/metadata.json of %s: %w", tree, err)
		}
		config.WorkingDir, config.Labels = charliecloud.Cwd, charliecloud.Labels
		for name, value := range charliecloud.Env {
			config.Env = append(config.Env, name+"="+value)
		}
		slices.Sort(config.Env)
		return config, nil
	}
	if data, err := root.ReadFile(".singularity.d/env/10-docker2singularity.sh"); err == nil {
		config.Env = apptainerEnv(data)
	}
	return config, nil
}

// apptainerEnv reads lines as
//
//	export NAME="${NAME:-"value"}"
//	export NAME="value"
func apptainerEnv(script []byte) []string {
	var env []string
	for line := range strings.Lines(string(script)) {
		assignment, found := strings.CutPrefix(strings.TrimSpace(line), "export ")
		name, value, found2 := strings.Cut(assignment, "=")
		if !found || !found2 || name == "" {
			continue
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
		if inner, ok := strings.CutPrefix(value, "${"+name+":-"); ok {
			value = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(inner, `"`), "}"), `"`)
		}
		env = append(env, name+"="+strings.NewReplacer(`\"`, `"`, `\$`, `$`, `\\`, `\`, "\\`", "`").Replace(value))
	}
	return env
}
