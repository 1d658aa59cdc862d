package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// answer is what all answers have. encoding/json does not mind that older versions
// spell "Slurm" with a capital.
type answer struct {
	Meta struct {
		Slurm struct {
			Release string `json:"release"`
		} `json:"slurm"`
	} `json:"meta"`
	Faults []fault `json:"errors"`
}

func (a answer) faults() []fault { return a.Faults }

// fault is one entry of "errors". v0.0.38 calls the number of some of them error_code.
type fault struct {
	Text        string `json:"error"`
	Description string `json:"description"`
	Number      int    `json:"error_number"`
	Code        int    `json:"error_code"`
}

// unspecified is SLURM_ERROR, of which Slurm itself knows no more.
const unspecified = "Unspecified error"

func (f fault) number() int { return cmp.Or(f.Number, f.Code) }

// emptyResult is ESLURM_REST_EMPTY_RESULT: there is nothing to tell, which is no failure.
const emptyResult = 9003

func (f fault) isFailure() bool { return f.number() != 0 && f.number() != emptyResult }

// says is the fault in Slurm's words, "" for one that says nothing.
func (f fault) says() string {
	var parts []string
	for _, text := range []string{f.Description, f.Text} {
		if text != "" && text != unspecified && (len(parts) == 0 || !strings.Contains(parts[0], text)) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ": ")
}

// words joins what faults say.
func words(faults []fault) string {
	var all []string
	for _, f := range faults {
		if text := f.says(); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// number is a number that may be absent: a plain one or null in v0.0.38, an object
// {"set":…,"infinite":…,"number":…} in later versions, for some fields or for all.
type number struct {
	value int64
	set   bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(data []byte) error {
	*n = number{}
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	if len(data) > 0 && data[0] == '{' {
		var object struct {
			Set, Infinite bool
			Number        json.Number
		}
		if err := json.Unmarshal(data, &object); err != nil {
			return fmt.Errorf("reading a number: %w", err)
		}
		if !object.Set || object.Infinite {
			return nil
		}
		data = []byte(object.Number)
	}
	if err := json.Unmarshal(data, &n.value); err != nil {
		return fmt.Errorf("reading a number: %w", err)
	}
	n.set = true
	return nil
}

// list is a list of words, or a single one as older versions have it.
type list []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *list) UnmarshalJSON(data []byte) error {
	var one *string
	if err := json.Unmarshal(data, &one); err == nil {
		*l = nil
		if one != nil {
			*l = list{*one}
		}
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return fmt.Errorf("reading a list of words: %w", err)
	}
	*l = many
	return nil
}
