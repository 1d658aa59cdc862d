package translate

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

// Whatever is written in an annotation, it stays one argument of sbatch, and one that is
// its own option's.
func FuzzWishesStayOneArgument(f *testing.F) {
	for _, value := range []string{
		"gpu", "--uid=0", "a b", "a\n#SBATCH --uid=0", "1@2:00:00", "h100&ib", "--hint=x", "--hint=x --uid=0", "-- --uid=0", "ansys:2,matlab|x",
		"afterok:JobSet/a,after:Pod/b", "é\u2028", "$(reboot)", ":", "5m", "0", "2", "\x00",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, wish := range wishes() {
			w, rejection := ParseWishes(map[string]string{wish.name: value}, nil, Offer{Flags: []string{"hint"}})
			if rejection != nil || value == "" {
				continue
			}
			args, err := SbatchArgs(NewRequest("pi-1", Gang{Slots: []Slot{{Resources: Resources{CPUs: 1}}}}, w, "/a", "/d"), "/d/launch.sh")
			if err != nil {
				continue
			}
			for _, arg := range args[:len(args)-3] {
				name, _, _ := strings.Cut(arg, "=")
				assert.True(t, strings.HasPrefix(name, "--"), arg)
				_, own := OwnSbatchOptions()[strings.TrimPrefix(name, "--")]
				assert.True(t, own || name == "--hint", arg)
				assert.False(t, strings.ContainsFunc(arg, unicode.IsControl), arg)
			}
		}
	})
}
