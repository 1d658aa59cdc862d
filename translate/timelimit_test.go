package translate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseTimeLimit(t *testing.T) {
	const day = 24 * time.Hour
	for in, want := range map[string]time.Duration{
		"30":          30 * time.Minute,
		"1440":        day,
		"90:30":       90*time.Minute + 30*time.Second,
		"12:30:00":    12*time.Hour + 30*time.Minute,
		"100:00:00":   100 * time.Hour,
		"1-12":        day + 12*time.Hour,
		"1-12:30":     day + 12*time.Hour + 30*time.Minute,
		"1-12:00:00":  day + 12*time.Hour,
		"01-02:03:04": day + 2*time.Hour + 3*time.Minute + 4*time.Second,
		"90m":         90 * time.Minute,
		"1h30m":       90 * time.Minute,
		"45s":         45 * time.Second,
		"UNLIMITED":   NoTimeLimit,
		"unlimited":   NoTimeLimit,
		"INFINITE":    NoTimeLimit,
	} {
		got, err := ParseTimeLimit(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
}

func TestParseTimeLimitRefuses(t *testing.T) {
	for in, words := range map[string]string{
		"":                         "write a duration",
		"soon":                     "write a duration",
		"1-":                       "write a duration",
		"-5":                       "write a duration",
		"1:2:3:4":                  "write a duration",
		"1-1:2:3:4":                "write a duration",
		"1-2-3":                    "write a duration",
		" 30":                      "write a duration",
		"3０":                       "write a duration",
		"+30":                      "write a duration",
		"1:60":                     "60 is too large",
		"1:60:00":                  "60 is too large",
		"1-24":                     "24 is too large",
		"1-30:00":                  "30 is too large",
		"0":                        "longer than zero",
		"0-00:00:00":               "longer than zero",
		"0s":                       "longer than zero",
		"-1h":                      "longer than zero",
		"36500-0":                  "shorter than 100 years",
		"876000h":                  "shorter than 100 years",
		"2147483647-0":             "shorter than 100 years",
		"99999999999999999999":     "write a duration",
		"2147483647:00:00":         "shorter than 100 years",
		"1-12:00:00; rm -rf /":     "write a duration",
		"30\n--uid=0":              "write a duration",
		"9223372036854775807ns":    "shorter than 100 years",
		"99999999999999999999999h": "write a duration",
	} {
		_, err := ParseTimeLimit(in)
		assert.ErrorContains(t, err, words, "%q", in)
	}
}

func FuzzParseTimeLimit(f *testing.F) {
	for _, s := range []string{"30", "1-12", "1-12:00:00", "12:30:00", "UNLIMITED", "90m", "", "-", "::", "1-:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		limit, err := ParseTimeLimit(s)
		if err != nil {
			if limit != 0 {
				t.Errorf("%q: a value beside an error", s)
			}
			return
		}
		if limit <= 0 || limit > NoTimeLimit {
			t.Fatalf("%q: %s is out of bounds", s, limit)
		}
		if limit == NoTimeLimit && !strings.EqualFold(s, "unlimited") && !strings.EqualFold(s, "infinite") {
			t.Errorf("%q means no limit", s)
		}
		if again, err := ParseTimeLimit(limit.String()); limit != NoTimeLimit && (err != nil || again != limit) {
			t.Errorf("%q: %s became %s, %v", s, limit, again, err)
		}
	})
}
