package identity_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/translate"
)

func TestATimeLimitIsWrittenAsPodsWriteTheirs(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"24h"`: 24 * time.Hour, `"1-00:00:00"`: 24 * time.Hour, `"2-12"`: 60 * time.Hour, `"90"`: 90 * time.Minute, `90`: 90 * time.Minute,
		`"1:30:00"`: 90 * time.Minute, `"UNLIMITED"`: translate.NoTimeLimit, `"0s"`: 0, `"-1h"`: -time.Hour, `0`: 0,
	} {
		t.Run(text, func(t *testing.T) {
			var l identity.TimeLimit
			require.NoError(t, json.Unmarshal([]byte(text), &l))
			assert.Equal(t, want, l.Duration)
			again, err := json.Marshal(l)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(again, &l))
			assert.Equal(t, want, l.Duration, "what is written is read")
		})
	}
	for _, text := range []string{`"1d"`, `"1-30:00"`, `"long"`, `{}`, `true`} {
		var l identity.TimeLimit
		err := json.Unmarshal([]byte(text), &l)
		assert.ErrorContains(t, err, `write a duration ("90m", "1h30m")`, text)
	}
}
