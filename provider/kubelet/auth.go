package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// How long the API server's answers about callers hold: kubelet's defaults
// (KubeletConfiguration: authentication.webhook.cacheTTL,
// authorization.webhook.cacheAuthorizedTTL and cacheUnauthorizedTTL).
const (
	tokenTTL   = 2 * time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// reviewTimeout bounds one question about a token.
	reviewTimeout = 10 * time.Second
)

// access decides who may have what.
type access struct {
	node    string
	authn   authenticator.Request
	authz   authorizer.UnconditionalAuthorizer
	refused logr.Logger
}

// newAccess asks the API server about callers, as kubelet does: who they are by
// client certificate (of the CA in the file, which is read again when it
// changes) or by token (TokenReview), and what they may do
// (SubjectAccessReview). Nobody is anonymous.
//
// The client should have a rate of its own: anybody who reaches the port can
// cause a TokenReview.
func newAccess(ctx context.Context, node, clientCAFile string, reviews kubernetes.Interface) (*access, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", clientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the API server's client certificate: %w", err)
	}
	go ca.Run(ctx, 1)
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		ClientCertificateCAContentProvider: ca,
		TokenAccessReviewClient:            reviews.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                patient(),
		CacheTTL:                           tokenTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("preparing the node port's authentication: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: reviews.AuthorizationV1(),
		AllowCacheTTL:             allowedTTL,
		DenyCacheTTL:              deniedTTL,
		WebhookRetryBackoff:       patient(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("preparing the node port's authorization: %w", err)
	}
	return &access{node: node, authn: authn, authz: authz, refused: logr.FromContextOrDiscard(ctx).V(1)}, nil
}

// patient is how a question is asked again that the API server did not answer: as its own
// webhooks are. The function that says so would link all of a server's storage and audit.
func patient() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// require lets those through to a handler who have the route's right.
func (a *access) require(route Route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := a.authn.AuthenticateRequest(r)
		if err != nil || !ok {
			a.refused.Info("the node's port refused a stranger", "path", r.URL.Path, "from", r.RemoteAddr, "error", err)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		allowed, err := a.allowed(r, route, who.User)
		switch {
		case err != nil:
			a.refused.Info("the API server did not say what a caller may do", "path", r.URL.Path, "user", who.User.GetName(), "error", err.Error())
			http.Error(w, fmt.Sprintf("Authorization error (user=%s)", who.User.GetName()), http.StatusInternalServerError)
		case !allowed:
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, name=%s, subresource(s)=%v)",
				who.User.GetName(), verb(r, route), a.node, route.Subresources), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// allowed asks for each of the subresources in turn.
func (a *access) allowed(r *http.Request, route Route, who user.Info) (bool, error) {
	for _, subresource := range route.Subresources {
		decision, _, err := a.authz.Authorize(r.Context(), authorizer.AttributesRecord{
			User: who, Verb: verb(r, route),
			APIVersion: "v1", Resource: "nodes", Name: a.node, Subresource: subresource,
			ResourceRequest: true, Path: r.URL.Path,
		})
		if err != nil {
			return false, fmt.Errorf("asking for nodes/%s: %w", subresource, err)
		}
		if decision == authorizer.DecisionAllow {
			return true, nil
		}
	}
	return false, nil
}

// verb is the right's verb for a request. A method that is none of these has no
// verb, and nobody may do it.
func verb(r *http.Request, route Route) string {
	if route.Verb != "" {
		return route.Verb
	}
	return map[string]string{
		http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create",
		http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
}
