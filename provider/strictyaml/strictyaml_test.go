package strictyaml_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/strictyaml"
)

type item struct {
	User string   `json:"user"`
	Tags []string `json:"tags"`
}

type config struct {
	Name  string         `json:"name"`
	Port  int            `json:"port"`
	Items []item         `json:"items"`
	Map   map[string]int `json:"map"`
}

func TestWhatIsWrongIsToldWithItsLine(t *testing.T) {
	for sentence, tc := range map[string]struct {
		text string
		want []string
	}{
		"an unknown field":            {"name: a\nitems:\n- user: x\n- usr: y\n", []string{`line 4: unknown field "items[1].usr"`}},
		"all unknown fields at once":  {"nam: a\nname: b\n\nprt: 1\n", []string{`line 1: unknown field "nam"`, `line 4: unknown field "prt"`}},
		"a field in other letters":    {"Name: a\n", []string{`line 1: unknown field "Name"`}},
		"a field twice":               {"name: a\nport: 1\nname: b\n", []string{"line 3: name is there twice"}},
		"text for a number":           {"name: a\n# why\nport: many\n", []string{"line 3: port takes no string"}},
		"a number for text in a list": {"items:\n  - user: x\n    tags:\n      - a\n      - 7\n", []string{"line 5: items.tags takes no number"}},
		"a list for a mapping":        {"name: a\nmap: [1]\n", []string{"line 2: map takes no array"}},
		"a tab":                       {"name: a\nitems:\n\t- user: x\n", []string{"line 3", "character"}},
		"nothing":                     {"# empty\n", []string{"it is empty"}},
		"two documents":               {"name: a\n---\nname: b\n", []string{"line 2: it holds more than one document"}},
		"aliases of aliases":          {bomb(), []string{"too large"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			var c config
			_, err := strictyaml.Unmarshal([]byte(tc.text), &c)
			require.Error(t, err)
			for _, want := range tc.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		n, m := string(rune('0'+i)), string(rune('1'+i))
		text += "a" + m + ": &a" + m + " [" + strings.Repeat("*a"+n+", ", 9) + "*a" + n + "]\n"
	}
	return text
}

func TestWhatIsRightIsRead(t *testing.T) {
	var c config
	d, err := strictyaml.Unmarshal([]byte("name: &n a b\nport: 0x10\nitems:\n- user: *n\n  tags: [x,\n    y]\nmap: {}\n"), &c)
	require.NoError(t, err)
	assert.Equal(t, config{Name: "a b", Port: 16, Items: []item{{User: "a b", Tags: []string{"x", "y"}}}, Map: map[string]int{}}, c)
	assert.Equal(t, 4, d.Line("items[0].user"))
	assert.Equal(t, 6, d.Line("items[0].tags[1]"))
	assert.Zero(t, d.Line("items[3]"))
	assert.Zero(t, d.Line("name.x"))
	assert.EqualError(t, d.Explain("items[0].user must be a name"), "line 4: items[0].user must be a name")
	assert.EqualError(t, d.Explain("the whole is wrong"), "the whole is wrong")
}
