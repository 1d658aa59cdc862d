package identity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/translate"
)

func rules() identity.Map {
	return identity.Map{
		{ServiceAccounts: []string{"ada"}, Namespaces: []string{"ml"}, Identity: identity.Identity{User: "ada"}},
		{Namespaces: []string{"ml", "ml-*"}, Identity: identity.Identity{User: "mlteam", Account: "ml"}},
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": "physics"}}, Identity: identity.Identity{User: "phys-{namespace}"}},
		{Namespaces: []string{"each"}, Identity: identity.Identity{User: "{serviceAccount}"}},
	}
}

func TestTheFirstRuleThatFitsCounts(t *testing.T) {
	for sentence, tc := range map[string]struct {
		subject identity.Subject
		user    string
		wrong   string
	}{
		"a ServiceAccount of a namespace":  {identity.Subject{Namespace: "ml", ServiceAccount: "ada"}, "ada", ""},
		"another one":                      {identity.Subject{Namespace: "ml", ServiceAccount: "bob"}, "mlteam", ""},
		"none is called default":           {identity.Subject{Namespace: "ml"}, "mlteam", ""},
		"a pattern":                        {identity.Subject{Namespace: "ml-dev"}, "mlteam", ""},
		"the same account elsewhere":       {identity.Subject{Namespace: "web", ServiceAccount: "ada"}, "", "no HPC user is configured for namespace web with ServiceAccount ada"},
		"a namespace's label":              {identity.Subject{Namespace: "lhc", NamespaceLabels: map[string]string{"site": "physics"}}, "phys-lhc", ""},
		"a user for each account":          {identity.Subject{Namespace: "each", ServiceAccount: "eve"}, "eve", ""},
		"but not root":                     {identity.Subject{Namespace: "each", ServiceAccount: "root"}, "", "jobs do not run as root"},
		"nor what is a number":             {identity.Subject{Namespace: "each", ServiceAccount: "0"}, "", "no login name"},
		"nor what is longer than any name": {identity.Subject{Namespace: "each", ServiceAccount: "a123456789012345678901234567890123"}, "", "no login name"},
		"nor a way out of a directory":     {identity.Subject{Namespace: "each", ServiceAccount: "a..b"}, "", "no login name"},
	} {
		t.Run(sentence, func(t *testing.T) {
			id, err := rules().Match(tc.subject)
			if tc.wrong != "" {
				assert.ErrorContains(t, err, tc.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.user, id.User)
		})
	}
	id, err := identity.Map(nil).Match(identity.Subject{Namespace: "any"})
	require.NoError(t, err, "without rules all are the provider's own")
	assert.Equal(t, identity.Identity{}, id)
}

func TestWhatRulesTellBeforehand(t *testing.T) {
	assert.True(t, rules().NeedsLabels())
	assert.False(t, rules()[:2].NeedsLabels())
	assert.Equal(t, []string{"ada", "mlteam"}, rules().Users())
}

func TestWishesAreBounded(t *testing.T) {
	id := identity.Identity{
		Account: "ml", Partitions: []string{"gpu", "cpu"}, QOS: "normal", QOSs: []string{"normal", "high"},
		Limits: identity.Limits{TimeLimit: metav1.Duration{Duration: time.Hour}, Pods: 4, GPUs: 8},
	}
	for sentence, tc := range map[string]struct {
		wishes translate.Wishes
		want   string
	}{
		"nothing":                     {translate.Wishes{}, ""},
		"what is allowed":             {translate.Wishes{Account: "ml", Partition: "cpu", QOS: "high", TimeLimit: time.Hour}, ""},
		"another account":             {translate.Wishes{Account: "bio"}, "the account bio is not one of those that the pod's namespace and ServiceAccount may use: ml"},
		"another partition":           {translate.Wishes{Partition: "big"}, "gpu, cpu"},
		"another QOS":                 {translate.Wishes{QOS: "top"}, "the qos top"},
		"more time than there may be": {translate.Wishes{TimeLimit: 2 * time.Hour}, "2h0m0s is above the 1h0m0s"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := id.Refuse(tc.wishes)
			if tc.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, tc.want)
		})
	}
	assert.Empty(t, identity.Identity{}.Refuse(translate.Wishes{Account: "any", TimeLimit: 1000 * time.Hour}))
	assert.Equal(t, translate.Wishes{Account: "ml", QOS: "high", TimeLimit: time.Hour}, id.Complete(translate.Wishes{QOS: "high"}))
	assert.Empty(t, id.Exceeds(4, 8))
	assert.Contains(t, id.Exceeds(5, 8), "its gang has 5 pods")
	assert.Contains(t, id.Exceeds(4, 9), "9 GPUs")
}

func TestRulesAreChecked(t *testing.T) {
	for want, rule := range map[string]identity.Rule{
		`identity[0].user: jobs do not run as root`:         {Identity: identity.Identity{User: "root"}},
		`identity[0].user: "a/{x}" is no login name`:        {Identity: identity.Identity{User: "a/{x}"}},
		`identity[0].namespaces: "[" is no name`:            {Namespaces: []string{"["}},
		`identity[0].namespaceSelector: `:                   {NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}},
		`identity[0].account: a is not among its accounts`:  {Identity: identity.Identity{Account: "a", Accounts: []string{"b"}}},
		`identity[0].limits: a limit must not be negative`:  {Identity: identity.Identity{Limits: identity.Limits{Pods: -1}}},
		`identity[0].hostPaths: "data" is no absolute path`: {Identity: identity.Identity{HostPaths: []string{"data"}}},
	} {
		assert.ErrorContains(t, identity.Map{rule}.Validate(), want)
	}
	assert.NoError(t, rules().Validate())
}
