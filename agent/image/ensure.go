package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image/fetch"
	"github.com/gangline/gangline/agent/image/jsonfile"
	"github.com/gangline/gangline/agent/image/keyring"
	"github.com/gangline/gangline/agent/image/registry"
)

// Ensure makes an image ready for use. It stays in the store until release is called.
// The error is an *Error, or the context's.
func (s *Store) Ensure(ctx context.Context, r Request) (_ *Image, release func(), _ error) {
	tell := &teller{request: r}
	image, release, err := s.ensure(ctx, r, tell)
	if err == nil {
		return image, release, nil
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("pulling image %q: %w", r.Reference, context.Cause(ctx))
	}
	var e *Error
	if !errors.As(err, &e) {
		e = s.pullError(r, err)
	}
	tell.failed(e)
	return nil, nil, e
}

func (s *Store) ensure(ctx context.Context, r Request, tell *teller) (*Image, func(), error) {
	if files[r.Form] == "" {
		return nil, nil, fmt.Errorf("there is no form %q of images", r.Form)
	}
	ref, err := name.ParseReference(r.Reference)
	if err != nil {
		return nil, nil, &Error{ReasonInvalidImageName, fmt.Sprintf("couldn't parse image name %q: %v", r.Reference, err)}
	}
	if at, found := s.offline(r.Reference, ref); found {
		image, err := takeOffline(r, at)
		if err == nil {
			tell.present()
		}
		return image, func() {}, err
	}
	digest, err := s.find(ctx, r, ref, tell)
	if err != nil {
		return nil, nil, err
	}
	return s.take(ctx, r, ref, digest, tell)
}

// find decides by the policy whether the registry is asked, and returns the digest that
// the caller gets.
func (s *Store) find(ctx context.Context, r Request, ref name.Reference, tell *teller) (string, error) {
	known, err := s.recall(ref)
	if err != nil {
		return "", err
	}
	present := known != nil && canMake(s.imageDir(known.Digest), r.Form)
	switch {
	case r.Policy == corev1.PullNever && !present:
		return "", &Error{ReasonErrImageNeverPull, fmt.Sprintf("Container image %q is not present with pull policy of Never: let it be pulled (IfNotPresent), or have an administrator do so (gangline-agent images pull)", r.Reference)}
	case r.Policy == corev1.PullAlways || !present:
		tell.pulling()
		return s.resolve(ctx, r, ref, ref.Name())
	case known.Private && !s.isVerified(r, known.Digest):
		// It is another's image, until the caller shows a credential of its own.
		_, err := s.resolve(ctx, r, ref, ref.Context().Digest(known.Digest).Name())
		if err != nil {
			return "", fmt.Errorf("the image is in the store, but it is private, and this pod's right to it is not confirmed: %w", err)
		}
	}
	return known.Digest, nil
}

// resolve asks the registry what a name stands for, as the caller.
func (s *Store) resolve(ctx context.Context, r Request, ref name.Reference, as string) (string, error) {
	config, err := s.registryConfig(r)
	if err != nil {
		return "", err
	}
	result, err := s.fetch(ctx, fetch.Job{Registry: config, Reference: as}, func(fetch.Progress) {})
	if err != nil {
		return "", err
	}
	found := result.Resolved
	err = s.remember(ref, record{Digest: found.Digest, Private: found.Private})
	if readOnly(err) {
		// Who fills the store remembers. This pod gets what the registry has said.
		s.options.Logger.Debug("what an image's name stands for is not remembered in a store that cannot be written", "image", r.Reference, "error", err)
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("writing what the image's name stands for: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[verification(r, found.Digest)] = true
	return found.Digest, nil
}

func (s *Store) isVerified(r Request, digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verified[verification(r, digest)]
}

// verification is an image with a credential that opens it.
func verification(r Request, digest string) [32]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(r.Reference), []byte(digest), r.Credentials} {
		fmt.Fprintf(h, "%d:", len(part)) //nolint:errcheck // a hash takes all
		h.Write(part)
	}
	return [32]byte(h.Sum(nil))
}

func (s *Store) registryConfig(r Request) (registry.Config, error) {
	config := registry.Config{
		Mirrors: s.options.Mirrors, Insecure: s.options.Insecure, CAFile: s.options.CAFile, Credentials: r.Credentials,
		Platform: v1.Platform{OS: "linux", Architecture: s.arch},
	}
	if s.options.CredentialsFile == "" {
		return config, nil
	}
	var err error
	if config.SiteCredentials, err = os.ReadFile(s.options.CredentialsFile); err != nil {
		return config, fmt.Errorf("reading the site's credentialsFile: %w", err)
	}
	return config, nil
}

// take makes an image that the caller may have ready, and marks it as used.
func (s *Store) take(ctx context.Context, r Request, ref name.Reference, digest string, tell *teller) (*Image, func(), error) {
	dir := s.imageDir(digest)
	begin := time.Now()
	release, err := s.use(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	made, err := s.make(ctx, making{request: r, ref: ref, digest: digest, dir: dir, tell: tell})
	if err != nil {
		release()
		return nil, nil, err
	}
	image, err := s.describe(r, ref, digest, dir)
	if err != nil {
		release()
		return nil, nil, err
	}
	tell.pulled(made, time.Since(begin), image.Size)
	return image, release, nil
}

func (s *Store) describe(r Request, ref name.Reference, digest, dir string) (*Image, error) {
	var d description
	var m measure
	if err := errors.Join(jsonfile.Read(filepath.Join(dir, "image.json"), &d), jsonfile.Read(measurePath(dir, r.Form), &m)); err != nil {
		return nil, fmt.Errorf("reading the image's description in the store: %w", err)
	}
	image := &Image{
		Reference: r.Reference, Digest: digest, ID: ref.Context().Digest(digest).Name(),
		Form: r.Form, Path: formPath(dir, r.Form), Size: m.Size,
	}
	if d.Config != nil {
		image.Config = d.Config.Config
	}
	return image, nil
}

func measurePath(dir string, f Form) string { return filepath.Join(dir, string(f)+".json") }

// pullError is an error in kubelet's words, with a cure where this is the place to know one.
func (s *Store) pullError(r Request, err error) *Error {
	reason := ReasonErrImagePull
	text := err.Error()
	switch {
	case fetch.Unavailable(err):
		reason = ReasonRegistryUnavailable
	case fetch.NoSpace(err):
		text = fmt.Sprintf("the image store %s is full, or this user's quota of it is (%v): make room with \"gangline-agent images prune\"", s.options.Dir, err)
	}
	return &Error{reason, fmt.Sprintf("failed to pull image %q: %s", r.Reference, text)}
}

// MergeCredentials makes one .dockerconfigjson of several secrets: of imagePullSecrets of
// the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg, in the pod's order.
func MergeCredentials(secrets ...[]byte) ([]byte, error) { return keyring.Merge(secrets...) }

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
