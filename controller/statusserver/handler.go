package statusserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// The limits of one report.
const (
	maxBody     = 64 << 10 // bytes, as in Kubeflow Trainer
	maxInFlight = 100      // requests
)

// refusal is an answer other than 200.
type refusal struct {
	code    int32
	reason  metav1.StatusReason
	message string
}

// The answers of Kubeflow Trainer; clients see their texts.
var (
	forbidden  = refusal{http.StatusForbidden, metav1.StatusReasonForbidden, "Forbidden"}
	notFound   = refusal{http.StatusNotFound, metav1.StatusReasonNotFound, "Not found"}
	noTrainJob = refusal{http.StatusNotFound, metav1.StatusReasonNotFound, "Train job not found"}
	tooLarge   = refusal{http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "Payload too large"}
	unreadable = refusal{http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "Invalid payload"}
	internal   = refusal{http.StatusInternalServerError, metav1.StatusReasonInternalError, "Internal error"}
)

// Handler answers the requests. Whatever is not a POST to a TrainJob's path is
// not found.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path("{namespace}", "{name}"), s.report)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { s.refuse(w, notFound) })
	return s.limited(mux)
}

// limited answers no more requests at a time than it can: each waits for the
// API server, and anybody in the cluster can make them.
func (s *Server) limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "1")
			s.refuse(w, refusal{http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Too many requests"})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// report takes one report. The token is looked at before the body.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	log := s.log.WithValues("namespace", namespace, "trainJob", name)
	if r.ContentLength > maxBody {
		s.refuse(w, tooLarge)
		return
	}
	allowed, err := s.mayReport(r.Context(), r, namespace, name)
	if err != nil {
		log.Error(err, "cannot tell whether a report may be taken")
		s.refuse(w, internal)
		return
	}
	if !allowed {
		s.refuse(w, forbidden)
		return
	}
	var request v1alpha1.UpdateTrainJobStatusRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		log.V(1).Info("a report cannot be read", "error", err.Error())
		s.refuse(w, refusalOfBody(err))
		return
	}
	if request.TrainerStatus != nil {
		if err := s.write(r.Context(), namespace, name, request.TrainerStatus); err != nil {
			answer := refusalOfWrite(err)
			if answer == internal {
				log.Error(err, "cannot write a report")
			}
			s.refuse(w, answer)
			return
		}
	}
	s.answer(w, http.StatusOK, request)
}

// write makes a report its TrainJob's status.trainerStatus, and owns no other
// field.
func (s *Server) write(ctx context.Context, namespace, name string, status *v1alpha1.TrainerStatus) error {
	if len(content.IsPathSegmentName(name)) > 0 {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("trainjobs").GroupResource(), name)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.TrainJobStatus{TrainerStatus: status})
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	trainJob := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	trainJob.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.TrainJobKind))
	trainJob.SetNamespace(namespace)
	trainJob.SetName(name)
	return s.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(trainJob),
		client.FieldOwner(v1alpha1.FieldOwnerStatus), client.ForceOwnership)
}

func refusalOfBody(err error) refusal {
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return tooLarge
	}
	return unreadable
}

// refusalOfWrite passes on what the API server says is wrong with a report.
func refusalOfWrite(err error) refusal {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err):
		return noTrainJob
	case (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && errors.As(err, &status):
		return refusal{http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, status.Status().Message}
	}
	return internal
}

func (s *Server) refuse(w http.ResponseWriter, r refusal) {
	s.answer(w, int(r.code), metav1.Status{
		Status: metav1.StatusFailure, Message: r.message, Reason: r.reason, Code: r.code,
	})
}

func (s *Server) answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.log.V(1).Info("a report's sender did not wait for the answer", "error", err.Error())
	}
}
