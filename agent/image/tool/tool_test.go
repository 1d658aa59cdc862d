package tool_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/tool"
)

func TestOnlyTheEndOfAToolsWordsIsKept(t *testing.T) {
	for sentence, tc := range map[string]struct {
		parts []string
		want  string
	}{
		"a few words":               {[]string{"no ", "way\n"}, "no way"},
		"more than is kept":         {[]string{strings.Repeat("x", 1000), "end"}, strings.Repeat("x", 397) + "end"},
		"no half character":         {[]string{strings.Repeat("ü", 300) + "x"}, strings.Repeat("ü", 199) + "x"},
		"what is no text at all":    {[]string{"a\xffb"}, "ab"},
		"a character in two writes": {[]string{"\xc3", "\xbc"}, "ü"},
		"nothing":                   {nil, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			var said tool.LastWords
			for _, p := range tc.parts {
				_, err := fmt.Fprint(&said, p)
				require.NoError(t, err)
			}
			assert.Equal(t, tc.want, said.String())
		})
	}
}

func TestAProgramsOwnInputAndOutput(t *testing.T) {
	in, ask, err := os.Pipe()
	require.NoError(t, err)
	out, answer, err := os.Pipe()
	require.NoError(t, err)
	_, err = ask.WriteString("text")
	require.NoError(t, err)
	require.NoError(t, ask.Close())
	require.NoError(t, tool.Exec(t.Context(), []string{"cat"}, in, answer))
	require.NoError(t, answer.Close())
	got := make([]byte, 8)
	n, err := out.Read(got)
	require.NoError(t, err)
	assert.Equal(t, "text", string(got[:n]))
	require.NoError(t, out.Close())
	require.NoError(t, in.Close())
}

func TestAProgramThatFailsIsQuoted(t *testing.T) {
	err := tool.Exec(t.Context(), []string{"sh", "-c", "echo no; echo way >&2; exit 3"}, nil, nil)
	assert.EqualError(t, err, "sh: exit status 3: no\nway")
}
