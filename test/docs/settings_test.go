package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider"
)

// TestSettings: docs/node.md has every setting of gangline-node's configuration, but for
// those of the map of identities and of the way to the site, which docs/identity.md has.
func TestSettings(t *testing.T) {
	documents := ""
	for _, name := range []string{"node.md", "identity.md", "flux.md", "storage.md", "slurm.md", "images.md", "containers.md"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		require.NoError(t, err)
		documents += string(data)
	}
	var missing []string
	for _, name := range settings(reflect.TypeFor[provider.Config](), map[reflect.Type]bool{}) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(documents) {
			missing = append(missing, name)
		}
	}
	assert.Empty(t, missing, "no document tells of these settings")
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
