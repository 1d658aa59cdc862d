package rest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// token is a JSON Web Token (RFC 7519) with the claims that Slurm uses.
type token struct {
	text string
	user string    // "sun"
	ends time.Time // "exp"; zero for one that never ends
}

// readToken reads a token's file, as "scontrol token" has printed it or bare. It is read
// for each request, so whoever renews the file need tell nobody.
func readToken(path string, now time.Time) (token, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return token{}, fmt.Errorf("reading slurmrestd's token: %w", err)
	}
	t, err := parseToken(strings.TrimPrefix(strings.TrimSpace(string(data)), "SLURM_JWT="))
	if err != nil {
		return token{}, fmt.Errorf("the token in %s: %w", path, err)
	}
	if !t.ends.IsZero() && !now.Before(t.ends) {
		return token{}, fmt.Errorf("the token in %s has expired at %s: renew it (scontrol token)", path, t.ends.UTC().Format(time.RFC3339))
	}
	return t, nil
}

// never is a time that all clocks can tell, the last second of the year 9999.
const never = 253402300799

// parseToken reads the claims; whether they are true is Slurm's to say. The text never
// gets into an error.
func parseToken(text string) (token, error) {
	parts := strings.Split(text, ".")
	const header, claims, signature = 0, 1, 3
	if len(parts) != signature || parts[header] == "" {
		return token{}, fmt.Errorf("it is no JSON Web Token: it has %d parts, not 3", len(parts))
	}
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[claims], "="))
	if err != nil {
		return token{}, fmt.Errorf("it is no JSON Web Token: its claims are not base64url")
	}
	var c struct {
		User string   `json:"sun"`
		Ends *float64 `json:"exp"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return token{}, fmt.Errorf("it is no JSON Web Token: its claims are no JSON object")
	}
	t := token{text: text, user: c.User}
	if c.Ends != nil {
		t.ends = time.Unix(int64(min(max(*c.Ends, 0), never)), 0)
	}
	return t, nil
}
