package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gangline/gangline/provider/spool"
)

// ProcessLimits are the soft limits of pods' processes by their names in
// limits.conf(5). A value is a number, a quantity of bytes such as 64Mi, "unlimited", or
// "hard" for as much as the HPC node's hard limit allows.
type ProcessLimits map[string]intstr.IntOrString

const (
	limitHard      = "hard"
	limitUnlimited = "unlimited"
)

// LimitNames are the limits that a site may set.
func LimitNames() []string {
	return []string{"as", "core", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "sigpending", "stack"}
}

// Validate tells what is wrong with them. Each error begins with the path of its entry.
func (l ProcessLimits) Validate() error {
	var errs []error
	for _, name := range sortedKeys(l) {
		if !slices.Contains(LimitNames(), name) {
			errs = append(errs, fmt.Errorf("limits.%s: there is no such limit, but %s", name, strings.Join(LimitNames(), ", ")))
		} else if _, err := processLimit(name, l[name]); err != nil {
			errs = append(errs, fmt.Errorf("limits.%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// orders are valid limits for an agent, in the order of their names.
func (l ProcessLimits) orders() []spool.Limit {
	var limits []spool.Limit
	for _, name := range sortedKeys(l) {
		if limit, err := processLimit(name, l[name]); err == nil {
			limits = append(limits, limit)
		}
	}
	return limits
}

func processLimit(name string, value intstr.IntOrString) (spool.Limit, error) {
	limit := spool.Limit{Name: name}
	switch text := value.String(); text {
	case limitHard:
		limit.Value, limit.Silent = spool.Unlimited, true
	case limitUnlimited:
		limit.Value = spool.Unlimited
	default:
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 || q.Value() < 0 {
			return limit, fmt.Errorf("%q is neither a number of 0 or more, a quantity such as 64Mi, %q nor %q", text, limitUnlimited, limitHard)
		}
		limit.Value = uint64(q.Value()) //nolint:gosec // it is not negative
	}
	return limit, nil
}
