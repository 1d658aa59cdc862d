package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// Document is a file that has been read. It knows the lines of its fields.
type Document struct{ root *yaml.Node }

// Unmarshal decodes a file with one document into v. Unknown and repeated fields, values
// of another type and further documents are errors; all unknown fields are told at once.
func Unmarshal(data []byte, v any) (Document, error) {
	var d Document
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var file, second yaml.Node
	switch err := decoder.Decode(&file); {
	case errors.Is(err, io.EOF):
		return d, errors.New("it is empty")
	case err != nil:
		return d, clean(err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return d, fmt.Errorf("line %d: it holds more than one document", second.Line)
	}
	d.root = file.Content[0]
	var out writer
	if err := out.value(d.root, 0); err != nil {
		return d, err
	}
	strict, err := kjson.UnmarshalStrict(out.text.Bytes(), v)
	if err != nil {
		return d, located(err, out.text.Bytes())
	}
	var errs []error
	for _, err := range strict {
		errs = append(errs, d.Explain(err.Error()))
	}
	return d, errors.Join(errs...)
}

func clean(err error) error {
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  "))
}

// located puts the line before an error of which the place in the JSON is known: that
// has its tokens on the lines where the YAML has them.
func located(err error, text []byte) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return clean(err)
	}
	line := 1 + bytes.Count(text[:min(int(wrong.Offset), len(text))], []byte("\n"))
	return fmt.Errorf("line %d: %s takes no %s", line, wrong.Field, wrong.Value)
}

// field finds the path of a field in a message: identity[1].user.
var field = regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*(\[\d+\])?(\.[A-Za-z][A-Za-z0-9]*(\[\d+\])?)*`)

// Explain puts before a message the line of the first field that it names and the
// document has.
func (d Document) Explain(message string) error {
	for _, path := range field.FindAllString(message, -1) {
		if line := d.Line(path); line > 0 {
			return fmt.Errorf("line %d: %s", line, message)
		}
	}
	return errors.New(message)
}

// ExplainAll does so with each of the errors that errors.Join has joined.
func (d Document) ExplainAll(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return d.Explain(err.Error())
	}
	var all []error
	for _, each := range joined.Unwrap() {
		all = append(all, d.ExplainAll(each))
	}
	return errors.Join(all...)
}

// Line is the line of a field, given as identity[1].user; 0 if the document has no such
// field.
func (d Document) Line(path string) int {
	node, line := d.root, 0
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		node = resolved(node)
		if node == nil {
			return 0
		}
		next := (*yaml.Node)(nil)
		switch i, err := strconv.Atoi(step); {
		case node.Kind == yaml.MappingNode:
			for k := 0; k+1 < len(node.Content); k += 2 {
				if node.Content[k].Value == step {
					next, line = node.Content[k+1], node.Content[k].Line
				}
			}
		case node.Kind == yaml.SequenceNode && err == nil && i < len(node.Content):
			next, line = node.Content[i], node.Content[i].Line
		}
		if next == nil {
			return 0
		}
		node = next
	}
	return line
}

func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// writer writes a YAML tree as JSON, with each token on the line that it has in the YAML
// wherever that is after the one before.
type writer struct {
	text bytes.Buffer
	line int
}

func (w *writer) to(line int) {
	for w.line+1 < line {
		w.text.WriteByte('\n')
		w.line++
	}
}

// deepest bounds what aliases can unfold to, together with largest, in bytes.
const (
	deepest = 100
	largest = 4 << 20
)

func (w *writer) value(n *yaml.Node, depth int) error {
	if depth > deepest || w.text.Len() > largest {
		return fmt.Errorf("line %d: it is nested too deeply, or too large", n.Line)
	}
	w.to(n.Line)
	switch n = resolved(n); n.Kind {
	case yaml.MappingNode:
		return w.mapping(n, depth)
	case yaml.SequenceNode:
		w.text.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.text.WriteByte(',')
			}
			if err := w.value(item, depth+1); err != nil {
				return err
			}
		}
		w.text.WriteByte(']')
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return clean(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("line %d: %q: %w", n.Line, n.Value, err)
	}
	w.text.Write(data)
	return nil
}

func (w *writer) mapping(n *yaml.Node, depth int) error {
	w.text.WriteByte('{')
	seen := map[string]bool{}
	for k := 0; k+1 < len(n.Content); k += 2 {
		key := n.Content[k]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return fmt.Errorf("line %d: a field's name must be plain text", key.Line)
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: %s is there twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if k > 0 {
			w.text.WriteByte(',')
		}
		w.to(key.Line)
		name, err := json.Marshal(key.Value)
		if err != nil {
			return fmt.Errorf("line %d: %w", key.Line, err)
		}
		w.text.Write(name)
		w.text.WriteByte(':')
		if err := w.value(n.Content[k+1], depth+1); err != nil {
			return err
		}
	}
	w.text.WriteByte('}')
	return nil
}
