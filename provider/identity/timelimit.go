package identity

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gangline/gangline/translate"
)

// TimeLimit is written as pods write theirs (the annotation gangline.dev/time-limit): a
// duration ("24h"), minutes (90), or another of Slurm's forms ("1-00:00:00").
type TimeLimit struct{ time.Duration }

// UnmarshalJSON reads text, or a number of minutes.
func (l *TimeLimit) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("reading a time limit: %w", err)
		}
	}
	// What a duration can be and no limit is, Validate tells by the field's name.
	if d, err := time.ParseDuration(text); err == nil && d <= 0 {
		l.Duration = d
		return nil
	}
	d, err := translate.ParseTimeLimit(text)
	if err != nil {
		return fmt.Errorf("%s is no time limit: %w", text, err)
	}
	l.Duration = d
	return nil
}

// MarshalJSON writes what is read again.
func (l TimeLimit) MarshalJSON() ([]byte, error) {
	if l.Duration == translate.NoTimeLimit {
		return json.Marshal("UNLIMITED")
	}
	return json.Marshal(l.String())
}
