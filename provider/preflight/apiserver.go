package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gangline/gangline/agent/doctor"
)

// cluster is the real API server.
type cluster struct {
	http      *http.Client
	url       string
	clientset kubernetes.Interface
}

// NewAPI is the API server that a client configuration names.
func NewAPI(rc *rest.Config) (API, error) {
	rc = rest.CopyConfig(rc)
	rc.QPS, rc.Burst = 100, 200 // some 60 questions, once
	client, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("making the API server's client: %w", err)
	}
	url, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	clientset, err := kubernetes.NewForConfigAndClient(rc, client)
	if err != nil {
		return nil, fmt.Errorf("making the API server's client: %w", err)
	}
	return &cluster{http: client, url: url.JoinPath("version").String(), clientset: clientset}, nil
}

// Hello implements API. The clock comes from the answer's Date, which has whole seconds.
func (c *cluster) Hello(ctx context.Context) (string, doctor.Clock, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return "", doctor.Clock{}, fmt.Errorf("asking for the version: %w", err)
	}
	before := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		return "", doctor.Clock{}, fmt.Errorf("asking for the version: %w", err)
	}
	took := time.Since(before)
	defer response.Body.Close() //nolint:errcheck // it was read
	const most = 1 << 20
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return "", doctor.Clock{}, fmt.Errorf("reading the version: %w", err)
	}
	var v version.Info
	if response.StatusCode == http.StatusUnauthorized {
		return "", doctor.Clock{}, fmt.Errorf("asking for the version: %w", apierrors.NewUnauthorized(c.url+" answers "+response.Status))
	}
	if err := json.Unmarshal(body, &v); err != nil || response.StatusCode != http.StatusOK {
		return "", doctor.Clock{}, fmt.Errorf("asking for the version: %s answers %s", c.url, response.Status)
	}
	there, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return "", doctor.Clock{}, fmt.Errorf("reading the API server's time: %w", err)
	}
	return v.GitVersion, dateClock(there, before, took), nil
}

// dateClock is what a time in whole seconds says that was asked for at a moment, and came
// after a while.
func dateClock(there, before time.Time, took time.Duration) doctor.Clock {
	const half = time.Second / 2
	return doctor.Clock{Ahead: there.Add(half).Sub(before.Add(took / 2)), Error: half + took/2}
}

// Allowed implements API.
func (c *cluster) Allowed(ctx context.Context, r Right) (bool, error) {
	review, err := c.clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
