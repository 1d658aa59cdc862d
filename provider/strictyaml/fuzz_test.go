package strictyaml

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setting has a field of each kind that configurations have.
type setting struct {
	Name    string            `json:"name,omitempty"`
	Count   int               `json:"count,omitempty"`
	Port    *int32            `json:"port,omitempty"`
	On      bool              `json:"on,omitempty"`
	Share   float64           `json:"share,omitempty"`
	Wait    metav1.Duration   `json:"wait,omitzero"`
	List    []string          `json:"list,omitempty"`
	Inner   []setting         `json:"inner,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Any     map[string]any    `json:"any,omitempty"`
	Created *metav1.Time      `json:"created,omitempty"`
}

// A file that is accepted holds nothing that was not understood: written out and read again
// it is the same.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{
		"name: a\ncount: 3\nport: 1\non: true\nshare: 0.5\nwait: 5m\nlist: [a, b]\ninner: [{name: b}]\nlabels: {a: b}\nany: {x: [1, {y: null}]}\n",
		"a: &a [*a]", "name: &x y\nlist: [*x, *x]", "name: a\nname: b", "Name: a", "<<: {name: a}", "---\nname: a\n---\nname: b",
		"count: 1e400", "count: .inf", "wait: long", "list:", "name: 2026-01-02", "any: {? [a] : b}", "inner: [{inner: [{inner: [{}]}]}]", "name: !!binary aGk=", "\xff", "",
		"created: 2026-01-02T03:04:05Z", "count: 0x10\nport: 1_000", "on: yes",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v setting
		d, err := Unmarshal(data, &v)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				assert.NotEmpty(t, strings.TrimSpace(line))
			}
			_ = d.Explain("name is wrong")
			_ = d.Line("inner[0].name")
			return
		}
		text, err := json.Marshal(v)
		require.NoError(t, err)
		var again setting
		_, err = Unmarshal(text, &again)
		require.NoError(t, err, "%s", text)
		second, err := json.Marshal(again)
		require.NoError(t, err)
		assert.JSONEq(t, string(text), string(second))
	})
}
