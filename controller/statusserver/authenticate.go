package statusserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// mayReport tells whether a request's token is one for the TrainJob. The error
// is of the API server not answering, not of a bad token.
//
// The API server is asked each time, and the answer is not kept: it knows at
// once of pods and ServiceAccounts that have been deleted, has a cache of its own
// for tokens that it has just seen, and a training reports seldom enough for one
// more request.
func (s *Server) mayReport(ctx context.Context, r *http.Request, namespace, name string) (bool, error) {
	token := bearerToken(r.Header.Get("Authorization"))
	if token == "" {
		return false, nil
	}
	audience := Audience(namespace, name)
	review := &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
	}
	if err := s.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("having the token reviewed: %w", err)
	}
	return authorized(review.Status, audience, namespace), nil
}

// authorized tells whether the reviewed token is of a ServiceAccount of the
// namespace, for the audience. An authenticator that knows of no audiences
// returns none.
func authorized(review authenticationv1.TokenReviewStatus, audience, namespace string) bool {
	if !review.Authenticated || !slices.Contains(review.Audiences, audience) {
		return false
	}
	of, _, err := serviceaccount.SplitUsername(review.User.Username)
	return err == nil && of == namespace
}

// bearerToken is the token of an Authorization header, "" if it has none.
func bearerToken(header string) string {
	fields := strings.Fields(header)
	if len(fields) != 2 || !strings.EqualFold(fields[0], "Bearer") {
		return ""
	}
	return fields[1]
}
