package translate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExpandFollowsKubelet(t *testing.T) {
	vars := map[string]string{"A": "1", "B": "$(A)", "EMPTY": "", "a-b.c": "odd", "": "nameless"}
	for name, tc := range map[string]struct{ in, want string }{
		"plain text stays":                          {"a b", "a b"},
		"a reference is replaced":                   {"x$(A)y", "x1y"},
		"several are replaced":                      {"$(A)$(A)-$(EMPTY)-", "11--"},
		"a value is not expanded again":             {"$(B)", "$(A)"},
		"an unknown name stays":                     {"$(NONE)", "$(NONE)"},
		"a name may have any characters":            {"$(a-b.c)", "odd"},
		"a name may be empty":                       {"$()", "nameless"},
		"two dollars are one":                       {"$$", "$"},
		"an escaped reference is not replaced":      {"$$(A)", "$(A)"},
		"an escaped dollar may precede one":         {"$$$(A)", "$1"},
		"two escaped dollars":                       {"$$$$(A)", "$$(A)"},
		"a dollar at the end stays":                 {"a$", "a$"},
		"a dollar before another character stays":   {"$A ${A} $x", "$A ${A} $x"},
		"an unclosed reference stays":               {"$(A", "$(A"},
		"an unclosed reference hides no later one":  {"$($(A)", "$($(A)"},
		"an escape within an unclosed reference":    {"$(a$$b", "$(a$b"},
		"the first closing parenthesis is the end":  {"$(A))", "1)"},
		"a reference may follow a dollar and space": {"$ $(A)", "$ 1"},
		"other bytes than UTF-8 are left alone":     {"$\xff$(A)\xff", "$\xff1\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, Expand(tc.in, func(name string) (string, bool) {
				v, ok := vars[name]
				return v, ok
			}))
		})
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "$(", "$(A)", "$$(A)", "$($(A))", "a$(A", "$(A$$)$$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		unknown := func(string) (string, bool) { return "", false }
		if got := Expand(strings.ReplaceAll(s, "$", "$$"), unknown); got != s {
			t.Errorf("%q does not survive being escaped: %q", s, got)
		}
		once := Expand(s, unknown)
		if len(once) > len(s) {
			t.Errorf("%q grows without a variable: %q", s, once)
		}
		if !strings.Contains(s, "$$") && once != s {
			t.Errorf("%q changes without a variable: %q", s, once)
		}
		// What holds no dollar any more is final.
		done := Expand(s, func(string) (string, bool) { return "v", true })
		if !strings.Contains(done, "$") && Expand(done, unknown) != done {
			t.Errorf("%q expands further", done)
		}
	})
}
