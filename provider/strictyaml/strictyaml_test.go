package strictyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/strictyaml"
)

type item struct {
	Tags  []string `json:"tags"`
	Owner `json:",inline"`
}

// Owner is embedded as configurations embed theirs.
type Owner struct {
	User string `json:"user"`
}

type config struct {
	Name     string            `json:"name"`
	Port     int32             `json:"port"`
	On       bool              `json:"on"`
	Items    []item            `json:"items"`
	Map      map[string]int    `json:"map"`
	Labels   map[string]string `json:"labels"`
	Interval metav1.Duration   `json:"interval"`
	Size     resource.Quantity `json:"size"`
	Wait     *metav1.Duration  `json:"wait"`
	Inner    *item             `json:"inner"`
	Any      any               `json:"any"`
	Secret   []byte            `json:"secret"`
	Grid     [][]int           `json:"grid"`
}

func TestWhatIsWrongIsToldWithItsLine(t *testing.T) {
	for sentence, tc := range map[string]struct{ text, want string }{
		"an unknown field":               {"name: a\nitems:\n- user: x\n- usr: y\n", `line 4: unknown field "items[1].usr"; did you mean user?`},
		"one like no other":              {"volumes: 1\n", `line 1: unknown field "volumes"`},
		"all at once, in order":          {"nam: a\nport: x\n\ninterval: soon\nzzzz: 1\n", "line 1: unknown field \"nam\"; did you mean name?\nline 2: port must be a number, not text\nline 4: interval: time: invalid duration \"soon\"\nline 5: unknown field \"zzzz\""},
		"a field in other letters":       {"Name: a\n", `line 1: unknown field "Name"; did you mean name?`},
		"a field twice":                  {"name: a\nport: 1\nname: b\n", "line 3: name is there twice"},
		"a field twice in a list":        {"items:\n- user: a\n  user: b\n", "line 3: items[0].user is there twice"},
		"a key of a map twice":           {"map:\n  a: 1\n  a: 2\n", "line 3: map.a is there twice"},
		"text for a number":              {"name: a\n# why\nport: many\n", "line 3: port must be a number, not text"},
		"a number that is too large":     {"port: 5000000000\n", "line 1: port: 5000000000 is no number that it can be"},
		"a fraction":                     {"port: 1.5\n", "line 1: port: 1.5 is no number that it can be"},
		"text for a choice":              {"on: \"true\"\n", "line 1: on must be true or false, not text"},
		"yes is text":                    {"on: yes\n", "line 1: on must be true or false, not text"},
		"a number for text in a list":    {"items:\n  - user: x\n    tags:\n      - a\n      - 7\n", "line 5: items[0].tags[1] must be text, not a number: put 7 into quotes"},
		"true for text in a map":         {"labels: {a: b,\n  c: true}\n", "line 2: labels.c must be text, not true or false: put true into quotes"},
		"a list for text":                {"name: [a]\n", "line 1: name must be text, not a list"},
		"a list in a list, of text":      {"grid:\n- [1, 2]\n- [3, x]\n", "line 3: grid[1][1] must be a number, not text"},
		"an item that is not there":      {"items:\n- tags:\n  - a\n  -\n", "line 4: items[0].tags[1] is empty"},
		"a list for a mapping":           {"name: a\nmap: [1]\n", "line 2: map must be a mapping, not a list"},
		"text for fields":                {"inner: x\n", "line 1: inner must be a mapping of fields, not text"},
		"one for a list":                 {"items: {user: x}\n", "line 1: items must be a list, not a mapping"},
		"a quantity":                     {"name: a\nsize: much\n", "line 2: size: quantities must match the regular expression"},
		"a duration where it may be nil": {"wait: 5\n", "line 1: wait must be a time with its unit: write 5s for seconds, or 5m for minutes"},
		"a duration without its unit":    {"interval: 0.5\n", "line 1: interval must be a time with its unit: write 0.5s"},
		"a wrong value under an alias":   {"labels: &l {a: b}\nmap: *l\n", "line 1: map.a must be a number, not text"},
		"an alias of nothing":            {"name: *n\n", "unknown anchor 'n' referenced"},
		"a merge":                        {"inner: &i {user: a}\nitems:\n- <<: *i\n", "line 3: items[0]: << is not understood; write the fields out"},
		"a mapping for a name":           {"map: {? {a: b} : 1}\n", "line 1: map: the name of a field must be text, not a mapping"},
		"infinity":                       {"any: .inf\n", `line 1: any: ".inf" is no value`},
		"a tag of one's own":             {"any: !secret x\n", "line 1: any: the tag !secret is not understood"},
		"a tab":                          {"name: a\nitems:\n\t- user: x\n", "line 3: found character that cannot start any token"},
		"a bracket that is not closed":   {"items: [a\n", "line 1: did not find expected ',' or ']'"},
		"nothing":                        {"", "it is empty"},
		"a comment":                      {"# empty\n", "it is empty"},
		"a document without content":     {"---\n", "it is empty"},
		"null":                           {"null\n", "it is empty"},
		"a list":                         {"- name: a\n", "line 1: the file must be a mapping of fields, not a list"},
		"text":                           {"name\n", "line 1: the file must be a mapping of fields, not text"},
		"two documents":                  {"name: a\n---\nname: b\n", "line 2: it holds more than one document"},
		"a second that is no YAML":       {"name: a\n---\n[\n", "line "},
		"aliases of aliases":             {bomb(), "too large"},
		"an alias of itself":             {"any: &a [*a]\n", "too deeply"},
	} {
		t.Run(sentence, func(t *testing.T) {
			var c config
			_, err := strictyaml.Unmarshal([]byte(tc.text), &c)
			assert.ErrorContains(t, err, tc.want)
			assert.Equal(t, config{}, c)
		})
	}
}

func bomb() string {
	text := "any:\n- &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("- &a%d [%s*a%d]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return text
}

func TestWhatIsRightIsRead(t *testing.T) {
	for sentence, tc := range map[string]struct {
		text string
		want config
	}{
		"texts, numbers and lists": {
			"name: a b\nport: 0x10\non: true\nmap: {}\ngrid: [[1], [2, 3]]\nitems:\n- tags: [x,\n    y]\n",
			config{Name: "a b", Port: 16, On: true, Map: map[string]int{}, Grid: [][]int{{1}, {2, 3}}, Items: []item{{Tags: []string{"x", "y"}}}},
		},
		"an alias":                {"name: &n a\nlabels: {b: *n}\n", config{Name: "a", Labels: map[string]string{"b": "a"}}},
		"an alias of a mapping":   {"map: &m {a: 1}\nany: *m\n", config{Map: map[string]int{"a": 1}, Any: map[string]any{"a": int64(1)}}},
		"null is not there":       {"name: ~\nport:\nitems: null\nmap: null\nwait: null\ninterval:\nsize:\n", config{}},
		"an empty list is":        {"items: []\n", config{Items: []item{}}},
		"types of their own":      {"interval: 90s\nsize: 10Mi\nwait: 1m\n", config{Interval: metav1.Duration{Duration: 90 * time.Second}, Size: resource.MustParse("10Mi"), Wait: &metav1.Duration{Duration: time.Minute}}},
		"a date is text":          {"name: 2024-01-02\n", config{Name: "2024-01-02"}},
		"text in base64":          {"secret: aGVsbG8=\n", config{Secret: []byte("hello")}},
		"text of several lines":   {"name: |\n  a\n  b\n", config{Name: "a\nb\n"}},
		"a document that is over": {"---\nname: a\n...\n", config{Name: "a"}},
		"JSON":                    {`{"name": "a", "port": 1}`, config{Name: "a", Port: 1}},
	} {
		t.Run(sentence, func(t *testing.T) {
			var c config
			_, err := strictyaml.Unmarshal([]byte(tc.text), &c)
			require.NoError(t, err)
			assert.Equal(t, tc.want, c)
		})
	}
}

func TestErrorsOfOthersGetTheirLines(t *testing.T) {
	var c config
	d, err := strictyaml.Unmarshal([]byte("name: &n a b\nport: 0x10\nitems:\n- tags: [x,\n    y]\ninner: {tags: []}\nmap: {}\n"), &c)
	require.NoError(t, err)
	for path, line := range map[string]int{
		"name": 1, "items": 3, "items[0]": 4, "items[0].tags[1]": 5, "inner.tags": 6,
		"items[3]": 0, "items[-1]": 0, "name.x": 0, "other": 0, "": 0,
	} {
		assert.Equal(t, line, d.Line(path), path)
	}
	for message, want := range map[string]string{
		"items[0].tags must be one":    "line 4: items[0].tags must be one",
		"inner.user is missing":        "line 6: inner.user is missing",
		"items[0].user.x is too short": "line 4: items[0].user.x is too short",
		"the whole is wrong":           "the whole is wrong",
	} {
		assert.EqualError(t, d.Explain(message), want)
	}
	assert.EqualError(t, d.ExplainAll(errors.Join(errors.New("port is low"), errors.Join(errors.New("all"), errors.New("map is empty")))),
		"line 2: port is low\nall\nline 7: map is empty")
	assert.NoError(t, d.ExplainAll(nil))
	assert.EqualError(t, strictyaml.Document{}.Explain("name is bad"), "name is bad", "without a file there are no lines")
}
