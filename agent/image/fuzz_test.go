package image_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/agent/image"
)

// FuzzApptainerEnv: a variable that Apptainer has written is read as it was, and rubbish is
// read as variables or not at all.
func FuzzApptainerEnv(f *testing.F) {
	for _, value := range []string{"/bin:/x", `a "b" c`, "$HOME and `x`", `back\slash\\`, `ends with "`, "${A:-", "}\"", "", strings.Repeat("long", 20_000)} {
		f.Add([]byte("#!/bin/sh\nexport B=c\n"), value)
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`)
	f.Fuzz(func(t *testing.T, script []byte, value string) {
		for _, entry := range image.ApptainerEnv(script) {
			name, _, found := strings.Cut(entry, "=")
			assert.True(t, found && name != "", "%q", entry)
			assert.NotContains(t, entry, "\n")
		}
		if strings.ContainsAny(value, "\n\r") {
			return // it would be another line
		}
		for _, line := range []string{`export A="${A:-"` + escape.Replace(value) + `"}"`, `export A="` + escape.Replace(value) + `"`} {
			assert.Equal(t, []string{"A=" + value, "B=c"}, image.ApptainerEnv([]byte(line+"\nexport B=\"c\"\n")))
		}
	})
}
