package compat

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gangline/gangline/controller/api/fuzzer"
)

// seeds are the random objects that an ordinary run tries for each type and
// direction; go test -fuzz tries more.
const seeds = 50

func FuzzOursThroughTheirs(f *testing.F) {
	fuzz(f, func(p pair) (any, any) { return p.ours, p.theirs })
}

func FuzzTheirsThroughOurs(f *testing.F) {
	fuzz(f, func(p pair) (any, any) { return p.theirs, p.ours })
}

func fuzz(f *testing.F, direction func(pair) (object, through any)) {
	for seed := range int64(seeds) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		for name, p := range pairs {
			object, through := direction(p)
			before, between, after := blank(object), blank(through), blank(object)
			fuzzer.Fill(before, seed)
			text := convert(t, before, between)
			again := convert(t, between, after)
			require.JSONEq(t, string(text), string(again), name)
			require.True(t, equality.Semantic.DeepEqual(before, after), "%s has changed, which its JSON does not show: %s", name, text)
		}
	})
}

// blank is a pointer to a zero value of the same type.
func blank(object any) any {
	return reflect.New(reflect.TypeOf(object)).Interface()
}

// convert reads an object's JSON as another type, which must know every field.
func convert(t *testing.T, from, to any) []byte {
	t.Helper()
	text, err := json.Marshal(from)
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(to))
	return text
}
