package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	configv1alpha1 "github.com/gangline/gangline/controller/api/config/v1alpha1"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/identity"
)

// schemaFile has definitions that are written from the programs' own types: a name that a
// program does not know is refused before anything is installed.
const schemaFile = "charts/gangline/values.schema.json"

// configurations are the definitions, and the types that they are of.
func configurations() map[string]reflect.Type {
	return map[string]reflect.Type{
		"nodeConfiguration":       reflect.TypeFor[provider.Config](),
		"controllerConfiguration": reflect.TypeFor[configv1alpha1.Configuration](),
	}
}

// schema is a type of Helm's dialect of JSON Schema (draft 7).
type schema map[string]any

// texts are the types that are written in another way than their fields are.
func texts() map[reflect.Type]schema {
	return map[reflect.Type]schema{
		reflect.TypeFor[metav1.Duration]():    durations(),
		reflect.TypeFor[metav1.Time]():        {"type": "string"},
		reflect.TypeFor[resource.Quantity]():  {"type": []string{"string", "number"}},
		reflect.TypeFor[intstr.IntOrString](): {"type": []string{"string", "integer"}},
		reflect.TypeFor[identity.TimeLimit](): {"type": []string{"string", "integer"}},
	}
}

// durations are texts. A schema has no messages of its own: the constant is what Helm says
// that a number must be.
func durations() schema {
	return schema{"if": schema{"type": "string"}, "else": schema{"const": "a time with its unit, as in 5s or 2m"}}
}

// schemaOf is what a value of a type may be. Types that cannot come in from a file are
// an error.
func schemaOf(t reflect.Type) (schema, error) {
	if s, ok := texts()[t]; ok {
		return s, nil
	}
	if simple := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Float32: "number", reflect.Float64: "number",
		reflect.Int: "integer", reflect.Int32: "integer", reflect.Int64: "integer",
	}[t.Kind()]; simple != "" {
		return schema{"type": simple}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		items, err := schemaOf(t.Elem())
		return schema{"type": "array", "items": items}, err
	case reflect.Map:
		values, err := schemaOf(t.Elem())
		return schema{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		properties := schema{}
		err := addFields(properties, t)
		return schema{"type": "object", "additionalProperties": false, "properties": properties}, err
	}
	return nil, fmt.Errorf("the type %s of a configuration has no place in a schema: say in texts how it is written", t)
}

// addFields adds a struct's fields, those that are written in line included.
func addFields(properties schema, t reflect.Type) error {
	for field := range fields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
			continue
		case field.Anonymous && (name == "" || options == "inline"):
			if err := addFields(properties, field.Type); err != nil {
				return err
			}
			continue
		}
		of, err := schemaOf(field.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, field.Name, err)
		}
		properties[name] = of
	}
	return nil
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// schemaText is the file with its definitions written anew; what people have written in
// it stays as it is.
func schemaText(root string) ([]byte, error) {
	text, err := os.ReadFile(root + "/" + schemaFile)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of the values: %w", err)
	}
	for name, of := range configurations() {
		s, err := schemaOf(of)
		if err != nil {
			return nil, err
		}
		const indent = "    "
		written, err := json.MarshalIndent(s, indent, "  ")
		if err != nil {
			return nil, fmt.Errorf("writing the schema of %s: %w", of, err)
		}
		place := regexp.MustCompile(`(?ms)^` + indent + `"` + name + `": (\{\}|\{$.*?^` + indent + `\})`)
		at := place.FindSubmatchIndex(text)
		if at == nil {
			return nil, fmt.Errorf("%s has no definition %s", schemaFile, name)
		}
		text = bytes.Join([][]byte{text[:at[2]], written, text[at[3]:]}, nil)
	}
	return text, nil
}
