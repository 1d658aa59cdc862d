package translate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/translate/wellknown"
)

// NoTimeLimit is the TimeLimit of who asks for none ("UNLIMITED"), as opposed
// to who asks for nothing and gets the partition's default. It is longer than
// any time that can be asked for, so whoever does not know it asks for a very
// long job.
const NoTimeLimit = 100 * 365 * 24 * time.Hour

// TimeLimitEnding is what becomes of a pod that was stopped because its allocation's
// time limit was near, and did not end with exit code 0.
func TimeLimitEnding() Ending {
	return Ending{
		Reason:          wellknown.ReasonDeadline,
		Message:         "The pod was stopped because the job's time limit was near; ask for more time (" + wellknown.AnnotationTimeLimit + "), or write checkpoints",
		ContainerReason: "Error",
		ExitCode:        exitTerminated,
	}
}

// ParseTimeLimit reads a Go duration ("90m", "1h30m") or one of Slurm's forms
// (sbatch's --time): "minutes", "minutes:seconds", "hours:minutes:seconds",
// "days-hours", "days-hours:minutes", "days-hours:minutes:seconds" and
// "UNLIMITED", which gives NoTimeLimit. Only the first number of a form may be
// larger than the next unit (90:00 is fine, 1-30:00 is not).
func ParseTimeLimit(s string) (time.Duration, error) {
	if strings.EqualFold(s, "UNLIMITED") || strings.EqualFold(s, "INFINITE") {
		return NoTimeLimit, nil
	}
	limit, err := parseSlurmTime(s)
	if err != nil {
		var goErr error
		if limit, goErr = time.ParseDuration(s); goErr != nil {
			return 0, err
		}
	}
	if limit <= 0 {
		return 0, errors.New("it must be longer than zero; for no limit at all write UNLIMITED")
	}
	if limit >= NoTimeLimit {
		return 0, errTooLong
	}
	return limit, nil
}

var errTooLong = errors.New("it must be shorter than 100 years; for no limit at all write UNLIMITED")

var errTimeLimit = errors.New(`write a duration ("90m", "1h30m"), or minutes ("30"), "hours:minutes:seconds" or "days-hours:minutes:seconds" as for Slurm`)

// timeUnit is one number of a Slurm form and how many of it make the next unit.
type timeUnit struct {
	length time.Duration
	limit  int
}

func parseSlurmTime(s string) (time.Duration, error) {
	day, hour := timeUnit{24 * time.Hour, math.MaxInt}, timeUnit{time.Hour, 24}
	minute, second := timeUnit{time.Minute, 60}, timeUnit{time.Second, 60}

	days, clock, hasDays := strings.Cut(s, "-")
	numbers := strings.Split(clock, ":")
	units := []timeUnit{hour, minute, second}
	if hasDays {
		numbers = append([]string{days}, numbers...)
		units = append([]timeUnit{day}, units...)
	} else {
		numbers = strings.Split(s, ":")
		if len(numbers) < 3 {
			units = units[1:] // minutes, or minutes:seconds
		}
	}
	if len(numbers) > len(units) {
		return 0, errTimeLimit
	}
	var total time.Duration
	for i, number := range numbers {
		n, err := parseNumber(number)
		if err != nil {
			return 0, err
		}
		if i > 0 && n >= units[i].limit {
			return 0, fmt.Errorf("%d is too large after a larger unit: %w", n, errTimeLimit)
		}
		if time.Duration(n) > (NoTimeLimit-total)/units[i].length {
			return 0, errTooLong
		}
		total += time.Duration(n) * units[i].length
	}
	return total, nil
}

// parseNumber reads digits and nothing else.
func parseNumber(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errTimeLimit
	}
	return int(n), nil
}
