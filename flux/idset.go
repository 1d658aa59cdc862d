package flux

import (
	"fmt"
	"strconv"
	"strings"
)

// maxIDs bounds what a set may stand for: more than any instance has.
const maxIDs = 1 << 20

// ParseIDs reads a set of ranks, cores or GPUs, "0-3,7", into a list. RFC 22.
func ParseIDs(set string) ([]int, error) {
	var ids []int
	trimmed := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(set), "["), "]")
	if trimmed == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(trimmed, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 31)
		last, err2 := strconv.ParseUint(high, 10, 31)
		if err != nil || err2 != nil || last < first || int(last-first) >= maxIDs-len(ids) {
			return nil, fmt.Errorf("reading the set of ids %q: %q makes no sense", set, part)
		}
		for id := first; id <= last; id++ {
			ids = append(ids, int(id))
		}
	}
	return ids, nil
}
