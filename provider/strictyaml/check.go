package strictyaml

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// checker compares a YAML tree with the Go type that it is for, and turns it into a tree
// for JSON. Decoders stop at the first value that does not fit, and say of those that a
// type decodes itself (durations, quantities) no place at all.
type checker struct {
	problems []error
	nodes    int
	tooLarge bool
}

// deepest and most bound what aliases can unfold to.
const (
	deepest = 100
	most    = 100_000
)

func (c *checker) report(line int, format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...)))
}

// value checks a node that is to become a t, and returns it for JSON.
func (c *checker) value(n *yaml.Node, t reflect.Type, path string, depth int) any {
	c.nodes++
	if depth > deepest || c.nodes > most {
		if !c.tooLarge {
			c.tooLarge = true
			c.report(n.Line, "%s is nested too deeply, or too large", orFile(path))
		}
		return nil
	}
	line := n.Line
	n = resolved(n)
	if isNull(n) {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if decodesItself(t) {
		return c.leaf(n, t, line, path, depth)
	}
	switch t.Kind() {
	case reflect.Interface:
		return c.any(n, line, path, depth)
	case reflect.Struct:
		return c.mapping(n, line, path, depth, "a mapping of fields", fieldsOf(t))
	case reflect.Map:
		return c.mapping(n, line, path, depth, "a mapping", func(string) (reflect.Type, string) { return t.Elem(), "" })
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			break // text, in base64
		}
		return c.list(n, t.Elem(), line, path, depth)
	}
	return c.leaf(n, t, line, path, depth)
}

// decodesItself tells whether a type has its own way with JSON.
func decodesItself(t reflect.Type) bool {
	t = reflect.PointerTo(t)
	return t.Implements(reflect.TypeFor[json.Unmarshaler]()) || t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// any checks what may be anything.
func (c *checker) any(n *yaml.Node, line int, path string, depth int) any {
	anything := reflect.TypeFor[any]()
	switch n.Kind {
	case yaml.MappingNode:
		return c.mapping(n, line, path, depth, "", func(string) (reflect.Type, string) { return anything, "" })
	case yaml.SequenceNode:
		return c.list(n, anything, line, path, depth)
	}
	return c.scalar(n, line, path)
}

// leaf checks what is decoded in one piece.
func (c *checker) leaf(n *yaml.Node, t reflect.Type, line int, path string, depth int) any {
	before := len(c.problems)
	v := c.any(n, line, path, depth)
	if len(c.problems) > before {
		return nil
	}
	text, err := encode(v)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, reflect.New(t).Interface())
	}
	if err != nil {
		c.report(line, "%s", misfit(path, n, t, err))
	}
	return v
}

// misfit says that a value is of another type, or what its own type says about it.
func misfit(path string, n *yaml.Node, t reflect.Type, err error) string {
	want, ok := kinds()[t.Kind()]
	if t == reflect.TypeFor[metav1.Duration]() && described(n) == aNumber {
		return fmt.Sprintf("%[1]s must be a time with its unit: write %[2]ss for seconds, or %[2]sm for minutes", path, n.Value)
	}
	if !ok || decodesItself(t) {
		return fmt.Sprintf("%s: %s", path, strings.TrimPrefix(err.Error(), "json: "))
	}
	has := described(n)
	if want == "text" && n.Kind == yaml.ScalarNode {
		return fmt.Sprintf("%s must be text, not %s: put %s into quotes", path, has, n.Value)
	}
	if want == has {
		return fmt.Sprintf("%s: %s is no number that it can be", path, n.Value)
	}
	return fmt.Sprintf("%s must be %s, not %s", path, want, has)
}

const aNumber = "a number"

// kinds are the words for kinds of Go values.
func kinds() map[reflect.Kind]string {
	const number = aNumber
	return map[reflect.Kind]string{
		reflect.String: "text", reflect.Bool: "true or false",
		reflect.Int: number, reflect.Int8: number, reflect.Int16: number, reflect.Int32: number, reflect.Int64: number,
		reflect.Uint: number, reflect.Uint8: number, reflect.Uint16: number, reflect.Uint32: number, reflect.Uint64: number,
		reflect.Float32: number, reflect.Float64: number,
	}
}

// described says what a node is.
func described(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if what, ok := map[string]string{"!!int": aNumber, "!!float": aNumber, "!!bool": "true or false"}[n.ShortTag()]; ok {
		return what
	}
	return "text"
}

func (c *checker) list(n *yaml.Node, elem reflect.Type, line int, path string, depth int) any {
	if n.Kind != yaml.SequenceNode {
		c.report(line, "%s must be a list, not %s", orFile(path), described(n))
		return nil
	}
	items := make([]any, len(n.Content))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(resolved(item)) {
			c.report(item.Line, "%s is empty", at)
			continue
		}
		items[i] = c.value(item, elem, at, depth+1)
	}
	return items
}

// mapping checks a mapping's names and values. fields gives a name's type, or none and a
// name that may have been meant.
func (c *checker) mapping(n *yaml.Node, line int, path string, depth int, want string, fields func(string) (reflect.Type, string)) any {
	if n.Kind != yaml.MappingNode {
		c.report(line, "%s must be %s, not %s", orFile(path), want, described(n))
		return nil
	}
	all := map[string]any{}
	for k := 0; k+1 < len(n.Content); k += 2 {
		key := resolved(n.Content[k])
		at := n.Content[k].Line
		if key.Kind != yaml.ScalarNode {
			c.report(at, "%s: the name of a field must be text, not %s", orFile(path), described(key))
			continue
		}
		if key.ShortTag() == "!!merge" {
			c.report(at, "%s: << is not understood; write the fields out", orFile(path))
			continue
		}
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		if _, twice := all[key.Value]; twice {
			c.report(at, "%s is there twice", name)
			continue
		}
		all[key.Value] = nil
		t, meant := fields(key.Value)
		switch {
		case t != nil:
			all[key.Value] = c.value(n.Content[k+1], t, name, depth+1)
		case meant != "":
			c.report(at, "unknown field %q; did you mean %s?", name, meant)
		default:
			c.report(at, "unknown field %q", name)
		}
	}
	// Not every type that decodes itself takes a null.
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// orFile is a path, or what to call the whole.
func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// scalar is a single value for JSON.
func (c *checker) scalar(n *yaml.Node, line int, path string) any {
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool":
		var v any
		err := n.Decode(&v)
		if err == nil {
			_, err = json.Marshal(v) // not what is infinite
		}
		if err != nil {
			c.report(line, "%s: %q is no value: %v", orFile(path), n.Value, clean(err))
			return nil
		}
		return v
	case "!!null":
		return nil
	case "!!str", "!!timestamp":
		return n.Value // a date is as it is written
	}
	c.report(line, "%s: the tag %s is not understood", orFile(path), n.Tag)
	return nil
}

func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing the file as JSON: %w", err)
	}
	return text, nil
}
