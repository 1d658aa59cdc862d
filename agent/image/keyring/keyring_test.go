package keyring_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/keyring"
)

func TestWhichCredentialsFitAnImage(t *testing.T) {
	for sentence, tc := range map[string]struct {
		config, image string
		want          []string
	}{
		"a registry's are for all of its images":           {`{"auths":{"reg.site":{"username":"a"}}}`, "reg.site/team/app", []string{"a"}},
		"of .dockercfg too":                                {`{"reg.site":{"username":"a"}}`, "reg.site/team/app", []string{"a"}},
		"a user in the form auth is decoded":               {`{"auths":{"reg.site":{"auth":"YTpzZWNyZXQ="}}}`, "reg.site/app", []string{"a"}},
		"not for another registry's":                       {`{"auths":{"reg.site":{"username":"a"}}}`, "other.site/app", nil},
		"nor for another port":                             {`{"auths":{"reg.site:5000":{"username":"a"}}}`, "reg.site/app", nil},
		"the same port fits":                               {`{"auths":{"reg.site:5000":{"username":"a"}}}`, "reg.site:5000/app", []string{"a"}},
		"a path fits what is under it":                     {`{"auths":{"reg.site/team":{"username":"a"}}}`, "reg.site/team/app", []string{"a"}},
		"and not what is beside it":                        {`{"auths":{"reg.site/team":{"username":"a"}}}`, "reg.site/others/app", nil},
		"the most specific comes first":                    {`{"auths":{"reg.site":{"username":"a"},"reg.site/team":{"username":"b"}}}`, "reg.site/team/app", []string{"b", "a"}},
		"a wildcard stands for one label":                  {`{"auths":{"*.site":{"username":"a"}}}`, "reg.site/app", []string{"a"}},
		"and not for two":                                  {`{"auths":{"*.site":{"username":"a"}}}`, "x.reg.site/app", nil},
		"a part of a label can be a wildcard":              {`{"auths":{"reg*.site":{"username":"a"}}}`, "reg2.site/app", []string{"a"}},
		"a scheme and an API's version are left out":       {`{"auths":{"https://reg.site/v2/":{"username":"a"}}}`, "reg.site/app", []string{"a"}},
		"Docker Hub's, as docker login writes them":        {`{"auths":{"https://index.docker.io/v1/":{"username":"a"}}}`, "index.docker.io/library/app", []string{"a"}},
		"Docker Hub's are for an image without a registry": {`{"auths":{"https://index.docker.io/v1/":{"username":"a"}}}`, "team/app", []string{"a"}},
		"an entry without anything in it is none":          {`{"auths":{"reg.site":{}}}`, "reg.site/app", nil},
		"nothing fits nothing":                             {``, "reg.site/app", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			k, err := keyring.Parse([]byte(tc.config))
			require.NoError(t, err)
			var got []string
			for _, c := range k.Lookup(tc.image) {
				got = append(got, c.Username)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestAnErrorTellsNoSecret(t *testing.T) {
	for _, data := range []string{`hunter2`, `{"auths":"hunter2"}`, `{"auths":{"reg.site":{"auth":"hunter2"}}}`, `{"hunter2":3}`, `{"auths":{"ht tp://hunter2 %zz":{"username":"a"}}}`} {
		_, err := keyring.Parse([]byte(data))
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestSecretsAreMerged(t *testing.T) {
	merged, err := keyring.Merge(
		[]byte(`{"auths":{"reg.site":{"username":"a","password":"p"}}}`),
		[]byte(`{"reg.site":{"username":"b","password":"p"},"other.site":{"username":"c"}}`),
		nil,
	)
	require.NoError(t, err)
	k, err := keyring.Parse(merged)
	require.NoError(t, err)
	got := k.Lookup("reg.site/app")
	require.Len(t, got, 2)
	assert.Equal(t, "a", got[0].Username)
	assert.Equal(t, "b", got[1].Username)
	assert.Equal(t, "p", got[1].Password)

	again, err := keyring.Merge(merged, []byte(`{"auths":{"reg.site":{"username":"d"}}}`))
	require.NoError(t, err)
	k, err = keyring.Parse(again)
	require.NoError(t, err)
	assert.Len(t, k.Lookup("reg.site/app"), 3)

	nothing, err := keyring.Merge()
	require.NoError(t, err)
	assert.Nil(t, nothing)
}
