package flux

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzParseIDs(f *testing.F) {
	for _, set := range []string{"", "[]", "0-2,7", "2-1", "0-2147483647", "[3", "0-1048575,0-1048575"} {
		f.Add(set)
	}
	f.Fuzz(func(t *testing.T, set string) {
		ids, err := ParseIDs(set)
		if err != nil {
			return
		}
		assert.LessOrEqual(t, len(ids), maxIDs)
		if len(ids) > 1000 {
			return
		}
		words := make([]string, len(ids))
		for i, id := range ids {
			assert.GreaterOrEqual(t, id, 0)
			words[i] = fmt.Sprint(id)
		}
		again, err := ParseIDs(strings.Join(words, ","))
		require.NoError(t, err)
		assert.Equal(t, ids, again)
	})
}

func FuzzParseJobID(f *testing.F) {
	for _, id := range []string{"\u0192GfoQkP", "fGfoQkP", "10284433408", "0x265000000", "0000.0002.6500.0000", "", "f", "-1", "\u0192jpXCZedGfVR"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseJobID(text)
		if err != nil {
			return
		}
		for _, form := range []string{id.String(), id.Plain(), fmt.Sprint(uint64(id))} {
			again, err := ParseJobID(form)
			require.NoError(t, err, form)
			assert.Equal(t, id, again)
		}
	})
}

// Eventlogs hold what a job's user has written: its output, its exceptions' notes.
func FuzzEvents(f *testing.F) {
	f.Add(`{"timestamp":1.5,"name":"submit"}
{"timestamp":2,"name":"exception","context":{"type":"cancel","severity":0,"note":"n"}}
{"timestamp":3,"name":"finish","context":{"status":15}}
{"timestamp":1e308,"name":"clean"}`)
	f.Add(`{"timestamp":1,"name":"data","context":{"stream":"stdout","rank":"0-3","data":"aGk=","encoding":"base64","repeat":1000000000}}`)
	f.Add(`{"timestamp":1,"name":"data","context":{"stream":"stdout","rank":0,"data":"hi","repeat":-1,"eof":true}}`)
	f.Fuzz(func(t *testing.T, lines string) {
		events, err := parseEvents(lines)
		if err != nil {
			return
		}
		assert.LessOrEqual(t, len(events), strings.Count(lines, "\n")+1)
		result, err := resultOf(events)
		if err == nil && result.Outcome == Completed {
			assert.True(t, result.Started && result.Status == 0, "nothing else is a success")
		}
		for _, e := range events {
			if output, err := readOutput(e.Context); err == nil {
				assert.LessOrEqual(t, len(output.Data), max(maxPiece, len(lines)))
			}
		}
	})
}

func FuzzResourceSet(f *testing.F) {
	f.Add([]byte(`{"version":1,"execution":{"R_lite":[{"rank":"0,2","children":{"core":"0-1","gpu":"0"}},{"rank":"1","children":{"core":"0"}}],"nodelist":["n[0,2]","n1"],"properties":{"big":"2"}}}`))
	f.Add([]byte(`{"version":1,"execution":{"R_lite":[{"rank":"0-1048574","children":{"core":"0-1048574"}},{"rank":"0-1048574","children":{"core":"0-1048574"}}],"nodelist":["n[0-1048574]"]}}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s ResourceSet
		if json.Unmarshal(text, &s) != nil {
			return
		}
		assert.LessOrEqual(t, len(s.Nodes), maxResources)
		for _, n := range s.Nodes {
			assert.NotEmpty(t, n.Host, "each rank has a host")
		}
	})
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"id":12,"events":[{"timestamp":1,"name":"start"}]}`))
	f.Add([]byte(`{"id":-1,"events":[]}`))
	f.Fuzz(func(t *testing.T, message []byte) {
		entry, err := parseJournalEntry(message)
		if err == nil {
			assert.LessOrEqual(t, len(entry.Events), len(message))
		}
	})
}
