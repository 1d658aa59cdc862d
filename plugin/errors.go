package plugin

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// explained says of an answer of the API server what it means and what helps.
func explained(err error, verb, resource, namespace string) error {
	var unreachable *net.OpError
	var request *url.Error
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && namespace == "":
		return fmt.Errorf("you may not %s %s in all namespaces: name one of yours with --namespace (%w)", verb, resource, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s %s in namespace %s: ask its administrator for that right (%w)", verb, resource, namespace, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not know you: log in again, or use another context (%w)", err)
	case errors.As(err, &unreachable) && errors.As(err, &request):
		return fmt.Errorf("the API server at %s cannot be reached: check the network, and \"kubectl config current-context\" (%w)", host(request.URL), unreachable)
	}
	return err
}

func host(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return u.Host
}
