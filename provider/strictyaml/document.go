package strictyaml

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is a file that has been read. It knows the lines of its fields.
type Document struct{ root *yaml.Node }

// Line is the line of a field, given as identity[1].user; 0 if the document has no such
// field.
func (d Document) Line(path string) int {
	node, line := d.root, 0
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if node, line = child(resolved(node), step); node == nil {
			return 0
		}
	}
	return line
}

// child is what a mapping or a list has at a step of a path, and its line.
func child(n *yaml.Node, step string) (*yaml.Node, int) {
	if n == nil {
		return nil, 0
	}
	if n.Kind == yaml.MappingNode {
		for k := 0; k+1 < len(n.Content); k += 2 {
			if n.Content[k].Value == step {
				return n.Content[k+1], n.Content[k].Line
			}
		}
		return nil, 0
	}
	if i, err := strconv.Atoi(step); n.Kind == yaml.SequenceNode && err == nil && i >= 0 && i < len(n.Content) {
		return n.Content[i], n.Content[i].Line
	}
	return nil, 0
}

// fieldPath finds the paths of fields in a message: identity[1].user.
var fieldPath = regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*(\[\d+\])*(\.[A-Za-z][A-Za-z0-9]*(\[\d+\])*)*`)

// Explain puts before a message the line of the first field that it names and the
// document has. Of a path whose end is missing it is the line of what there is.
func (d Document) Explain(message string) error {
	for _, path := range fieldPath.FindAllString(message, -1) {
		for ; path != ""; path = path[:max(0, strings.LastIndexAny(path, ".["))] {
			if line := d.Line(path); line > 0 {
				return fmt.Errorf("line %d: %s", line, message)
			}
		}
	}
	return errors.New(message)
}

// ExplainAll does so with each of the errors that errors.Join has joined.
func (d Document) ExplainAll(err error) error {
	if err == nil {
		return nil
	}
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
