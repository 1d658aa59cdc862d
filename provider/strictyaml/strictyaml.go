package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// Unmarshal decodes a file with one document into v, which is left alone if there is an
// error. Errors are: unknown fields (also those that differ in capitals only), fields
// that are there twice, values of another type, an empty file, a further document, and
// merges ("<<"). Anchors and aliases are understood. A null is as if the field was not
// there; as an item of a list it is an error.
//
// The errors are joined, in the file's order. The document is there for lines even so,
// once the file is YAML.
func Unmarshal(data []byte, v any) (Document, error) {
	root, err := parse(data)
	if err != nil {
		return Document{}, err
	}
	d := Document{root: root}
	c := checker{}
	tree := c.value(root, reflect.TypeOf(v), "", 0)
	if len(c.problems) > 0 {
		return d, errors.Join(c.problems...)
	}
	text, err := encode(tree)
	if err != nil {
		return d, err
	}
	strict, err := kjson.UnmarshalStrict(text, v)
	if err := errors.Join(append(strict, err)...); err != nil {
		return d, d.ExplainAll(err)
	}
	return d, nil
}

// parse reads the one document of a file.
func parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var file, second yaml.Node
	switch err := decoder.Decode(&file); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, clean(err)
	}
	root := file.Content[0]
	if isNull(root) {
		return nil, errors.New("it is empty")
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return root, nil
	case err != nil:
		return nil, clean(err)
	}
	return nil, fmt.Errorf("line %d: it holds more than one document", second.Line)
}

func clean(err error) error {
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  "))
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
