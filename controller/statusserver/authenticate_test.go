package statusserver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
)

func TestEndpoint(t *testing.T) {
	assert.Equal(t, "/apis/trainer.kubeflow.org/v1alpha1/namespaces/a/trainjobs/b/status", Path("a", "b"))
	assert.Equal(t, "trainer.kubeflow.org/v1alpha1/namespaces/a/trainjobs/b/status", Audience("a", "b"))
}

func TestBearerToken(t *testing.T) {
	for name, tc := range map[string]struct{ header, want string }{
		"none":                      {header: "", want: ""},
		"bearer":                    {header: "Bearer t", want: "t"},
		"any capitals and blanks":   {header: "  bEARER \t t ", want: "t"},
		"bearer without a token":    {header: "Bearer", want: ""},
		"another scheme":            {header: "Basic t", want: ""},
		"two tokens are none":       {header: "Bearer t u", want: ""},
		"a token without a scheme":  {header: "t", want: ""},
		"a scheme glued to a token": {header: "Bearert", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, bearerToken(tc.header))
		})
	}
}

func TestAuthorized(t *testing.T) {
	const audience = "trainer.kubeflow.org/v1alpha1/namespaces/a/trainjobs/b/status"
	review := func(change func(*authenticationv1.TokenReviewStatus)) authenticationv1.TokenReviewStatus {
		r := authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{audience},
			User: authenticationv1.UserInfo{Username: "system:serviceaccount:a:default"},
		}
		change(&r)
		return r
	}
	for name, tc := range map[string]struct {
		change func(*authenticationv1.TokenReviewStatus)
		want   bool
	}{
		"a ServiceAccount of the namespace": {
			change: func(*authenticationv1.TokenReviewStatus) {}, want: true,
		},
		"not authenticated": {
			change: func(r *authenticationv1.TokenReviewStatus) { r.Authenticated = false },
		},
		"an authenticator that does not look at audiences": {
			change: func(r *authenticationv1.TokenReviewStatus) { r.Audiences = nil },
		},
		"another audience": {
			change: func(r *authenticationv1.TokenReviewStatus) { r.Audiences = []string{"https://kubernetes.default.svc"} },
		},
		"a ServiceAccount of another namespace": {
			change: func(r *authenticationv1.TokenReviewStatus) { r.User.Username = "system:serviceaccount:aa:default" },
		},
		"a user": {
			change: func(r *authenticationv1.TokenReviewStatus) { r.User.Username = "a" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, authorized(review(tc.change), audience, "a"))
		})
	}
}
