package docs

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
)

// TestLinks: files and headings that documents point to are there.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := documents(t)
	anchors := map[string]map[string]bool{}
	for _, d := range all {
		anchors[d.path] = anchorsOf(d)
	}
	for _, d := range all {
		for _, l := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(d.prose, ""), -1) {
			target, err := url.Parse(l[1])
			if !assert.NoError(t, err, d.path) || target.IsAbs() {
				continue
			}
			path := d.path
			if target.Path != "" {
				path = filepath.Join(filepath.Dir(d.path), target.Path)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				assert.Fail(t, "a link to nothing", "%s: %s", d.path, l[1])
			} else if target.Fragment != "" {
				assert.True(t, anchors[path][target.Fragment], "%s: %s has no heading %q", d.path, path, target.Fragment)
			}
		}
	}
}

// anchorsOf are the names that GitHub gives to headings.
func anchorsOf(d document) map[string]bool {
	names := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(d.prose, -1) {
		text := link.ReplaceAllString(strings.NewReplacer("`", "", "*", "", "[", "").Replace(h[1]), "")
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(text))] = true
	}
	return names
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The port's certificate":    "the-ports-certificate",
		"`flux` and [x](y.md), 2.1": "flux-and-x-21",
		"A - b":                     "a---b",
	} {
		assert.Contains(t, anchorsOf(document{prose: "## " + text + "\n"}), want)
	}
}
