package doctor

import "fmt"

// Status is how bad a finding is.
type Status string

const (
	// OK is as it should be.
	OK Status = "ok"
	// Info is neither good nor bad: what the site has chosen.
	Info Status = "info"
	// Warn lets pods run, but not all of them, or not as well as they could.
	Warn Status = "warn"
	// Fail keeps pods from running.
	Fail Status = "fail"
)

// Finding is what one check has found.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Cure is what helps, empty where nothing has to be done.
	Cure string `json:"cure,omitempty"`
}

// Good is a finding that needs no cure, Bad one that does.
func Good(check string, status Status, format string, args ...any) Finding {
	return Finding{Check: check, Status: status, Message: fmt.Sprintf(format, args...)}
}

// Bad is a finding with what helps.
func Bad(check string, status Status, cure, format string, args ...any) Finding {
	return Finding{Check: check, Status: status, Message: fmt.Sprintf(format, args...), Cure: cure}
}
