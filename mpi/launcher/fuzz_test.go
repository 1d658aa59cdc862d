package launcher

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/mpi"
)

func FuzzHostfile(f *testing.F) {
	for _, text := range []string{
		"a slots=2\nb slots=2 # comment\n", "a:2\nb:2\n", "user@A.\n", "a:*\n", "a slots=9223372036854775807\na slots=9223372036854775807\n", "a:-1", "a slots=\n", "@:", "#",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := ParseHostfile(text)
		if err != nil {
			return
		}
		assert.LessOrEqual(t, len(hosts), strings.Count(text, "\n")+1)
		seen := map[string]bool{}
		var known []mpi.Host
		for i, h := range hosts {
			assert.False(t, seen[h.Name], "a host is listed once")
			seen[h.Name] = true
			assert.GreaterOrEqual(t, h.Slots, 0)
			if strings.ContainsAny(h.Name, ":@#") || strings.TrimSuffix(h.Name, ".") != h.Name || len(strings.Fields(h.Name)) != 1 {
				return
			}
			hosts[i].Slots = max(h.Slots, 1)
			known = append(known, mpi.Host{Name: h.Name, Slots: h.Slots})
		}
		// Both of our own forms say the same.
		for _, written := range []string{mpi.OpenMPIHostfile(known), mpi.HydraHostfile(known)} {
			again, err := ParseHostfile(written)
			require.NoError(t, err, written)
			assert.Equal(t, hosts, again, written)
		}
	})
}

func FuzzHosts(f *testing.F) {
	for _, text := range []string{"a,b:2,a", "", ",,", "a:auto", "u@a:3", "a:99999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := ParseHosts(text)
		if err != nil {
			return
		}
		assert.LessOrEqual(t, len(hosts), strings.Count(text, ",")+1)
		for _, h := range hosts {
			assert.GreaterOrEqual(t, h.Slots, 0)
		}
	})
}

// A command line of mpirun's: what is behind the options is the program's, word by word.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"-np 4 ./app --x", "-n 2 a : -n 2 b", "--host a,b -x A=1 -genv B 2 -- -app", "-wdir /tmp a", "--mca btl self,tcp a", "-n -1 a", "-hostfile f a", ":", "", "-n",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		for _, lenient := range []bool{false, true} {
			r, err := Parse(args, lenient)
			if err != nil || r.Informs {
				continue
			}
			assert.NotEmpty(t, r.Programs)
			for _, p := range r.Programs {
				require.NotEmpty(t, p.Argv)
				assert.GreaterOrEqual(t, p.Ranks, 0)
				assert.Contains(t, line+"\x00", strings.Join(p.Argv, "\x00")+"\x00", "no word is changed")
			}
		}
	})
}
