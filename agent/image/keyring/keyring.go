package keyring

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// defaultRegistry is the key under which credentials of Docker Hub are kept.
const defaultRegistry = "index.docker.io"

// Keyring holds credentials by the registries and repositories they are for.
type Keyring struct {
	keys  []string // the most specific first
	creds map[string][]authn.AuthConfig
}

// Parse reads a .dockerconfigjson or a .dockercfg. Nothing is an empty keyring.
func Parse(data []byte) (*Keyring, error) {
	entries, err := entriesOf(data)
	if err != nil {
		return nil, err
	}
	k := &Keyring{creds: map[string][]authn.AuthConfig{}}
	for location, e := range entries {
		key, err := keyOf(location)
		if err != nil {
			return nil, err
		}
		if _, known := k.creds[key]; !known {
			k.keys = append(k.keys, key)
		}
		k.creds[key] = append(k.creds[key], e...)
	}
	slices.Sort(k.keys)
	slices.Reverse(k.keys)
	return k, nil
}

// Lookup returns the credentials to be tried for an image (its name without a tag), in
// this order. There may be none.
func (k *Keyring) Lookup(image string) []authn.AuthConfig {
	var found []authn.AuthConfig
	for _, key := range k.keys {
		if matches(key, image) {
			found = append(found, k.creds[key]...)
		}
	}
	if len(found) == 0 && isDefault(image) {
		found = k.creds[defaultRegistry]
	}
	return found
}

// Merge makes one .dockerconfigjson of several secrets, of either format. Where several
// have credentials for the same registry, all are tried, in the order of the secrets.
func Merge(secrets ...[]byte) ([]byte, error) {
	merged := struct {
		Several map[string][]authn.AuthConfig `json:"gangline"`
	}{map[string][]authn.AuthConfig{}}
	for i, secret := range secrets {
		entries, err := entriesOf(secret)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
		for location, e := range entries {
			merged.Several[location] = append(merged.Several[location], e...)
		}
	}
	if len(merged.Several) == 0 {
		return nil, nil
	}
	return json.Marshal(merged)
}

// entriesOf reads any of the formats: {"auths": {host: …}}, {host: …}, and Merge's own.
func entriesOf(data []byte) (map[string][]authn.AuthConfig, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var file struct {
		Auths   map[string]authn.AuthConfig   `json:"auths"`
		Several map[string][]authn.AuthConfig `json:"gangline"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, errUnreadable
	}
	if file.Several != nil {
		return file.Several, nil
	}
	if file.Auths == nil {
		if err := json.Unmarshal(data, &file.Auths); err != nil {
			return nil, errUnreadable
		}
	}
	entries := map[string][]authn.AuthConfig{}
	for location, e := range file.Auths {
		if e != (authn.AuthConfig{}) {
			entries[location] = []authn.AuthConfig{e}
		}
	}
	return entries, nil
}

var errUnreadable = errors.New("registry credentials cannot be read: they are no .dockerconfigjson and no .dockercfg (what kubectl create secret docker-registry makes)")

// keyOf is host[:port][/path] of what stands in the file: with or without a scheme, and
// with the API's version, which means the whole registry.
func keyOf(location string) (string, error) {
	if !strings.HasPrefix(location, "https://") && !strings.HasPrefix(location, "http://") {
		location = "https://" + location
	}
	parsed, err := url.Parse(location)
	if err != nil {
		return "", errors.New("registry credentials name a registry that is no address")
	}
	p := parsed.Path
	if strings.HasPrefix(p, "/v2/") || strings.HasPrefix(p, "/v1/") {
		p = p[3:]
	}
	if p == "/" {
		p = ""
	}
	return parsed.Host + p, nil
}

func matches(key, image string) bool {
	keyHost, keyPath, _ := strings.Cut(key, "/")
	host, repository, _ := strings.Cut(image, "/")
	if !strings.HasPrefix("/"+repository, "/"+keyPath) {
		return false
	}
	keyHost, keyPort, _ := strings.Cut(keyHost, ":")
	host, port, _ := strings.Cut(host, ":")
	keyLabels, labels := strings.Split(keyHost, "."), strings.Split(host, ".")
	if keyPort != port || len(keyLabels) != len(labels) {
		return false
	}
	for i, pattern := range keyLabels {
		if ok, err := path.Match(pattern, labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// isDefault says that an image without a registry's name, or with Docker Hub's, is meant.
func isDefault(image string) bool {
	host, _, more := strings.Cut(image, "/")
	if host == "" {
		return false
	}
	return !more || host == "docker.io" || host == defaultRegistry || !strings.ContainsAny(host, ".:")
}
