package provider

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate"
)

// When a token is renewed (kubelet: pkg/kubelet/token): when a fifth of its lifetime
// is left, after a day at the latest, and not all at the same moment.
const (
	tokenMaxAge = 24 * time.Hour
	tokenJitter = 10 * time.Second
)

// renewalsAtOnce bounds the tokens that are renewed in one look at a gang; its other
// pods follow renewAgain later. The pods of a large gang started together, and the
// calls that the API server grants are all gangs'.
const (
	renewalsAtOnce = 20
	renewAgain     = time.Second
)

// tokens are the ServiceAccount tokens that running pods have. They are in this
// process's memory only: the next one asks for new ones.
type tokens struct {
	request tokenRequester
	clock   clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID]map[translate.TokenKey]token
}

// tokenRequester asks the API server for a token of a ServiceAccount.
type tokenRequester func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

type token struct {
	value          string
	renew, expires time.Time
}

func newTokens(clientset kubernetes.Interface, clock clock.PassiveClock) *tokens {
	return &tokens{clock: clock, pods: map[types.UID]map[translate.TokenKey]token{},
		request: func(ctx context.Context, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
			return clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
		}}
}

// of returns a token that is bound to the pod, for as long as its volume says. One
// that is to be renewed and cannot be is good as long as it is valid.
func (t *tokens) of(ctx context.Context, pod *corev1.Pod, key translate.TokenKey) (string, error) {
	now := t.clock.Now()
	have := t.known(pod.UID, key)
	if have.value != "" && now.Before(have.renew) {
		return have.value, nil
	}
	fresh, err := t.ask(ctx, pod, key)
	if err != nil {
		if now.Before(have.expires) {
			logr.FromContextOrDiscard(ctx).Error(err, "could not renew a token; the pod keeps the one it has", "pod", pod.Namespace+"/"+pod.Name)
			return have.value, nil
		}
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods[pod.UID] == nil {
		t.pods[pod.UID] = map[translate.TokenKey]token{}
	}
	t.pods[pod.UID][key] = fresh
	return fresh.value, nil
}

func (t *tokens) known(pod types.UID, key translate.TokenKey) token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pods[pod][key]
}

// due counts those of a pod's tokens that are to be renewed.
func (t *tokens) due(pod types.UID, keys []translate.TokenKey) int {
	n := 0
	for _, key := range keys {
		if have := t.known(pod, key); !t.clock.Now().Before(have.renew) {
			n++
		}
	}
	return n
}

func (t *tokens) forget(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, pod)
}

func (t *tokens) ask(ctx context.Context, pod *corev1.Pod, key translate.TokenKey) (token, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if key.Audience != "" {
		request.Spec.Audiences = []string{key.Audience}
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	answer, err := t.request(ctx, pod.Namespace, account, request)
	if err != nil {
		return token{}, fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", pod.Namespace, account, err)
	}
	expires := answer.Status.ExpirationTimestamp.Time
	return token{value: answer.Status.Token, renew: renewal(answer), expires: expires}, nil
}

// renewal is when a token is to be renewed.
func renewal(t *authenticationv1.TokenRequest) time.Time {
	lifetime := time.Duration(ptr.Deref(t.Spec.ExpirationSeconds, 0)) * time.Second
	issued := t.Status.ExpirationTimestamp.Add(-lifetime)
	jitter := rand.N(tokenJitter) //nolint:gosec // it spreads calls
	return issued.Add(min(lifetime-lifetime/5, tokenMaxAge) - jitter)
}
