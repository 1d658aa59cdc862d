package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The kernel escapes blanks, line ends and backslashes of mount points; users choose the
// names of directories, and may mount there what they like.
func FuzzMountPoints(f *testing.F) {
	for _, path := range []string{"/proc", "/srv/a b", "/odd\\name\n", "/tab\there", "/\\040", "/\xff\u20ac"} {
		f.Add(path)
	}
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	f.Fuzz(func(t *testing.T, path string) {
		_ = mountPoints(path) // a table of rubbish
		if strings.ContainsAny(path, "\v\f\r\u0085\u00a0") || len(strings.Fields(path)) == 0 || strings.ContainsFunc(path, func(r rune) bool { return r > 127 }) {
			return
		}
		line := fmt.Sprintf("30 28 8:1 / %s rw - ext4 /dev/sda1 rw\n", escape.Replace(path))
		assert.Equal(t, []string{path}, mountPoints(line))
	})
}
