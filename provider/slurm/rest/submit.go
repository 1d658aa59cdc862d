package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gangline/gangline/provider/slurm"
)

// submitAnswer is the answer to a submission. v0.0.39 to v0.0.41 have the id in two
// places, of which one may be empty.
type submitAnswer struct {
	answer
	ID      number `json:"job_id"`
	Message string `json:"job_submit_user_msg"`
	Result  struct {
		ID number `json:"job_id"`
	} `json:"result"`
}

func (a submitAnswer) jobID() string {
	for _, id := range []number{a.ID, a.Result.ID} {
		if id.value > 0 {
			return strconv.FormatInt(id.value, 10)
		}
	}
	return ""
}

// Slurm's own error numbers begin here; those below are the system's (slurm_errno.h).
const firstSlurmError = 1000

// refusal tells whether a failed submission is Slurm's verdict on the job, and if so in
// what words: slurmctld gave an error of its own that is not about reaching it, or
// slurmrestd did not understand the request.
func refusal(err error) (message string, refused bool) {
	var failed *failure
	if !errors.As(err, &failed) || len(failed.faults) == 0 {
		return "", false
	}
	said := words(failed.faults)
	if said == "" || slurm.Uncertain(said) {
		return "", false
	}
	switch failed.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "slurmrestd does not take the request: " + said, true
	case http.StatusOK, http.StatusInternalServerError, http.StatusNotFound:
		for _, f := range failed.faults {
			if f.number() >= firstSlurmError {
				return said, true
			}
		}
	}
	return "", false
}

// cancelAnswer is the answer to a cancellation, from v0.0.42 on with a word for each job
// that was meant.
type cancelAnswer struct {
	answer
	Status []struct {
		Error struct {
			Text    string `json:"string"`
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	} `json:"status"`
}

func (a cancelAnswer) failed() error {
	for _, s := range a.Status {
		if f := (fault{Text: s.Error.Text, Description: s.Error.Message}); s.Error.Code != 0 && !slurm.AlreadyGone(f.says()) {
			return fmt.Errorf("slurmctld answers: %s", f.says())
		}
	}
	return nil
}
