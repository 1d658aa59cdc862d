package strictyaml

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// fieldsOf finds the types of a struct's fields by their names in JSON, and what may have
// been meant by a name that is none.
func fieldsOf(t reflect.Type) func(name string) (reflect.Type, string) {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-" || !f.IsExported():
		case tag != "":
			fields[tag] = f.Type
		case !f.Anonymous:
			fields[f.Name] = f.Type
		}
	}
	return func(name string) (reflect.Type, string) {
		if t, ok := fields[name]; ok {
			return t, ""
		}
		return nil, nearest(name, slices.Sorted(maps.Keys(fields)))
	}
}

// nearest is the name that another is a misspelling of, if there is one.
func nearest(name string, names []string) string {
	best, least := "", 1+min(3, len(name)/3)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance is the number of letters to add, take away or change (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
