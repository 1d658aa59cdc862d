package docs

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider"
)

// TestSettings: docs/node.md has every setting of gangline-node's configuration, but for
// those of the map of identities and of the way to the site, which docs/identity.md has.
func TestSettings(t *testing.T) {
	t.Parallel()
	tells := []string{"node.md", "identity.md", "flux.md", "storage.md", "slurm.md", "images.md", "containers.md"}
	var spans, yaml []string
	for _, d := range documents(t) {
		if filepath.Dir(d.path) != "docs" || !slices.Contains(tells, filepath.Base(d.path)) {
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(d.prose, -1) {
			spans = append(spans, m[1])
		}
		for _, b := range d.blocks {
			if b.language == "yaml" {
				yaml = append(yaml, b.text)
			}
		}
	}
	var missing []string
	for _, name := range settings(reflect.TypeFor[provider.Config](), map[reflect.Type]bool{}) {
		if !documented(name, spans, yaml) {
			missing = append(missing, name)
		}
	}
	assert.Empty(t, missing, "no document tells of these settings")
}

// documented tells that a setting is named as one: in code, where a path may stand before
// it and a value behind it, or as a key of an example.
func documented(name string, spans, yaml []string) bool {
	inCode := regexp.MustCompile(`(?:^|[.{,]) *` + name + `(?:$|[.:= \[,}])`)
	key := regexp.MustCompile(`(?m)(?:^|[{,]) *(?:- )?` + name + `:`)
	return slices.ContainsFunc(spans, inCode.MatchString) || slices.ContainsFunc(yaml, key.MatchString)
}

func TestASettingIsNamedAsOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"agent": true, "slurm.agent": true, "agent.path": true, "agent: /x": true, "{on: true, agent: x}": true,
		"gangline-agent": false, "the agent": false, "agents": false, "agent-forward": false,
	} {
		assert.Equal(t, want, documented("agent", []string{text}, nil), text)
	}
	for text, want := range map[string]bool{
		"spool: /x\nagent: y\n": true, "users:\n  - agent: y\n": true, "slurm: {bin: /x, agent: y}\n": true,
		"# the agent: a program\n": false, "spool: agent\n": false,
	} {
		assert.Equal(t, want, documented("agent", nil, []string{text}), text)
	}
}

// settings are the names of a configuration's fields, and of those within them.
func settings(of reflect.Type, seen map[reflect.Type]bool) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || seen[of] || !strings.HasPrefix(of.PkgPath(), "github.com/gangline/") {
		return nil
	}
	seen[of] = true
	var names []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
		names = append(names, settings(f.Type, seen)...)
	}
	return names
}
