package provider

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OrphansConfig is what is done about jobs and spool directories that bear this
// node's mark and that it knows nothing of.
type OrphansConfig struct {
	// Grace is how long one is left alone after it was first seen. Default 10m.
	Grace metav1.Duration `json:"grace,omitempty"`
	// Action is Clean, which cancels the jobs and removes the directories, Report,
	// which only tells of them, or Ignore. Default Clean.
	Action string `json:"action,omitempty"`
}

// The values of OrphansConfig.Action.
const (
	OrphansClean  = "Clean"
	OrphansReport = "Report"
	OrphansIgnore = "Ignore"
)

func (c OrphansConfig) validate() error {
	if known := []string{OrphansClean, OrphansReport, OrphansIgnore}; !slices.Contains(known, c.Action) {
		return fmt.Errorf("orphans.action must be one of %v, not %q", known, c.Action)
	}
	if c.Grace.Duration < 0 {
		return fmt.Errorf("orphans.grace must not be below 0, not %s", c.Grace.Duration)
	}
	return nil
}
