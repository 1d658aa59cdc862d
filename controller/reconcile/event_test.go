package reconcile

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLongErrorsAreCut(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"a short error is whole":      {"no", "no"},
		"a long one is cut":           {strings.Repeat("a", 2000), strings.Repeat("a", 950) + " ..."},
		"but between two characters":  {strings.Repeat("a", 949) + "é", strings.Repeat("a", 949) + " ..."},
		"one that just fits is whole": {strings.Repeat("a", 950), strings.Repeat("a", 950)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, short(errors.New(c.text)))
		})
	}
}
