package translate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/test/golden"
)

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// walk visits the paths of the fields of a type, parents first. It goes on
// below a field if the visitor says so.
func walk(path string, t reflect.Type, visit func(path string) bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[*]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if name := jsonName(f); name != "" {
			if at := path + "." + name; visit(at) {
				walk(at, f.Type, visit)
			}
			continue
		}
		walk(path, f.Type, visit)
	}
}

func TestTheTableHasARowForEveryFieldOfAPod(t *testing.T) {
	rows := map[string]bool{}
	for _, r := range rules() {
		rows[r.field] = true
	}
	below := func(path string) bool {
		for field := range rows {
			if strings.HasPrefix(field, path+".") || strings.HasPrefix(field, path+"[*].") {
				return true
			}
		}
		return false
	}
	walk("spec", reflect.TypeFor[corev1.PodSpec](), func(path string) bool {
		if rows[path] {
			return false
		}
		assert.True(t, below(path), "no row for %s", path)
		return below(path)
	})
}

func TestEveryRowIsOfAFieldThatExists(t *testing.T) {
	known := map[string]bool{"metadata.ownerReferences": true, "metadata.annotations": true}
	walk("spec", reflect.TypeFor[corev1.PodSpec](), func(path string) bool {
		known[path] = true
		return strings.Count(path, ".") < 8
	})
	for _, r := range rules() {
		assert.True(t, known[r.field], "there is no %s", r.field)
	}
}

func TestEveryRowIsComplete(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.field+" "+r.when, func(t *testing.T) {
			acts := r.verdict == refused || r.verdict == ignored
			assert.Equal(t, acts, r.uses != nil)
			assert.Equal(t, r.verdict == refused, r.reason != "")
			assert.Equal(t, r.verdict == refused, r.cure != "")
			if acts || r.verdict == noEffect {
				assert.NotEmpty(t, r.note)
			}
		})
	}
}

func TestDocumentOfPodFields(t *testing.T) {
	golden.Equal(t, "../docs/pod-fields.md", fieldsDocument())
}

func fieldsDocument() string {
	var b strings.Builder
	b.WriteString(`# Fields of a pod

What becomes of each field of a pod that is bound to a virtual node. The table is generated from the rules that the node
applies (` + "`go test ./translate -update`" + `), so it cannot differ from them.

- *supported*: it does what Kubernetes documents.
- *accepted, no effect*: there is nothing it could act on here.
- *ignored, with an Event*: the pod runs, and a Warning Event names the field.
- *refused*: the pod fails at once. Its status has the reason below, and a message that names the field, why, and what to do.
  Pods of ReplicaSets and StatefulSets wait with them instead, since their controllers would make new ones for ever.

A pod that asks for more than the largest HPC node has is refused with the reason DoesNotFit.
`)
	for _, s := range sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| field | use | verdict | notes |\n|---|---|---|---|\n", s.title)
		for _, r := range s.rules {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.field, r.when, verdictWords(r), notes(r))
		}
	}
	return b.String()
}

func verdictWords(r rule) string {
	if r.reason == "" {
		return string(r.verdict)
	}
	return fmt.Sprintf("%s: %s", r.verdict, r.reason)
}

func notes(r rule) string {
	if r.note == "" {
		return ""
	}
	note := strings.ToUpper(r.note[:1]) + r.note[1:] + "."
	if r.cure != "" {
		note += " " + r.cure + "."
	}
	return note
}
