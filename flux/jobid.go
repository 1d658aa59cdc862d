package flux

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// JobID is a job's number. RFC 19.
type JobID uint64

// base58 is the alphabet of F58: no 0, O, I, l.
const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// String is the id as Flux's tools show it to people ("ƒGsfK19"): F58.
func (id JobID) String() string { return "ƒ" + id.base58() }

// Plain is the id in ASCII ("fGsfK19"), which Flux's tools take as well: F58P.
func (id JobID) Plain() string { return "f" + id.base58() }

func (id JobID) base58() string {
	if id == 0 {
		return base58[:1]
	}
	var digits [11]byte // 58^11 is more than 2^64
	i := len(digits)
	for ; id > 0; id /= 58 {
		i--
		digits[i] = base58[id%58]
	}
	return string(digits[i:])
}

// ParseJobID reads an id as people write it: F58 with "ƒ" or "f", decimal, hexadecimal
// with "0x", or dotted hexadecimal.
func ParseJobID(text string) (JobID, error) {
	trimmed := strings.TrimSpace(text)
	for _, prefix := range []string{"ƒ", "f"} {
		if digits, ok := strings.CutPrefix(trimmed, prefix); ok && !strings.Contains(digits, ".") {
			return parseBase58(text, digits)
		}
	}
	if strings.Contains(trimmed, ".") {
		trimmed = "0x" + strings.ReplaceAll(trimmed, ".", "")
	}
	// A leading 0 is no sign of octal digits.
	base := 10
	if digits, ok := strings.CutPrefix(trimmed, "0x"); ok {
		base, trimmed = 16, digits
	}
	number, err := strconv.ParseUint(trimmed, base, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no job id of Flux's", text)
	}
	return JobID(number), nil
}

func parseBase58(text, digits string) (JobID, error) {
	var id uint64
	for _, digit := range []byte(digits) {
		value := strings.IndexByte(base58, digit)
		high, low := bits.Mul64(id, 58)
		sum, carry := bits.Add64(low, uint64(max(value, 0)), 0)
		if value < 0 || high != 0 || carry != 0 {
			return 0, fmt.Errorf("%q is no job id of Flux's", text)
		}
		id = sum
	}
	if digits == "" {
		return 0, fmt.Errorf("%q is no job id of Flux's", text)
	}
	return JobID(id), nil
}

var (
	_ json.Marshaler = JobID(0)
	_ fmt.Stringer   = JobID(0)
)

// MarshalJSON writes the number: so do Flux's own messages.
func (id JobID) MarshalJSON() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(id), 10), nil
}
