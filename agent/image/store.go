package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gangline/gangline/agent/image/fetch"
	"github.com/gangline/gangline/agent/image/jsonfile"
	"github.com/gangline/gangline/agent/image/lease"
	"github.com/gangline/gangline/agent/image/tool"
)

// Store is a directory of images:
//
//	refs/<hash of a name>.json       what the name stood for when it was last asked for
//	images/<arch>/<digest>/          an image, for one kind of machine
//	  image.json                     its configuration
//	  tree, image.sif, image.squashfs    the forms that there are, each whole
//	  <form>.json                    its size
//	  used/<process>                 one for each container that uses it, touched while it does
//	leases/<digest>/<number>         who is about to make it (package lease)
//	work/<digest>.<process>/         where it is made; what is done is moved from here
//
// Everything appears by a rename, so nothing is ever seen half.
type Store struct {
	options Options
	shared  bool
	arch    string
	pace    lease.Pace
	fetch   func(context.Context, fetch.Job, func(fetch.Progress)) (*fetch.Result, error)

	pruning sync.Mutex
	mu      sync.Mutex
	// verified are the private images that a credential has been shown to open, so that a
	// container that starts again needs no registry. It is never written anywhere.
	verified map[[32]byte]bool
}

// defaultPace is how often who pulls shows that it lives, and when it counts as dead.
var defaultPace = lease.Pace{Beat: 3 * time.Second, Dead: 45 * time.Second}

// Open makes the store ready for use. The directory may be a user's own, or a group's
// (mode 2770) whose members trust each other.
func Open(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("the image store has no directory: the site names one (containers.store.dir)")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	info, err := openDir(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		options: o, shared: info.Mode().Perm()&0o020 != 0, arch: runtime.GOARCH,
		pace: defaultPace, fetch: fetch.Run, verified: map[[32]byte]bool{},
	}
	if s.options.Run == nil {
		s.options.Run = tool.Exec
	}
	if o.Program != "" {
		s.fetch = func(ctx context.Context, j fetch.Job, p func(fetch.Progress)) (*fetch.Result, error) {
			return fetch.InChild(ctx, s.options.Run, o.Program, j, p)
		}
	}
	return s, nil
}

// openDir makes the store's directory, if need be for this user alone, and looks whether
// only those can write there whom the site means.
func openDir(dir string) (fs.FileInfo, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the image store: %w: a directory above it must be there in which the store's users may write (chmod 1777)", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("looking at the image store: %w", err)
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("looking at the image store: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&worldWritable != 0 {
		return nil, fmt.Errorf("%s cannot be an image store: everybody may write there, and so put something else in an image's place: give each user one ({user} in containers.store.dir), or a group of users who trust each other (chmod 2770)", dir)
	}
	// Where everybody may make directories, another may have made this one for us. (In an
	// agent's user namespace root is another too.)
	owner, known := info.Sys().(*syscall.Stat_t)
	if above.Mode().Perm()&worldWritable != 0 && known && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s cannot be an image store: it is another's (user %d), in a directory where everybody may make one: have it removed or, if it is meant for several users, put in a directory that only the site may write", dir, owner.Uid)
	}
	return info, nil
}

const worldWritable = 0o002

// check says what is wrong with options, without touching the store.
func (o Options) check() error {
	for pattern, at := range o.Offline {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("the offline map's pattern %q: %w", pattern, err)
		}
		if !filepath.IsAbs(at) {
			return fmt.Errorf("the offline map's path %q for %q is not absolute", at, pattern)
		}
	}
	for host, mirrors := range o.Mirrors {
		for _, mirror := range mirrors {
			_, err := name.NewRepository(mirror + "/x")
			if err == nil && strings.Contains(mirror, "://") {
				err = errors.New("a host has no scheme: write host[:port][/prefix]")
			}
			if err != nil {
				return fmt.Errorf("the mirror %q of %s: %w", mirror, host, err)
			}
		}
	}
	return nil
}

func (s *Store) path(elements ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, elements...)...)
}

// key is a digest as a file's name.
func key(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func (s *Store) imageDir(digest string) string { return s.path("images", s.arch, key(digest)) }

// files are the forms' names in an image's directory.
var files = map[Form]string{FormTree: "tree", FormSIF: "image.sif", FormSquashfs: "image.squashfs"}

// bases are what a form is made of, where that is not the registry's layers.
var bases = map[Form]Form{FormSIF: FormTree, FormSquashfs: FormTree}

func formPath(dir string, f Form) string { return filepath.Join(dir, files[f]) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func has(dir string, f Form) bool { return exists(formPath(dir, f)) }

// look has this machine ask the file server anew what is in a directory. Over NFS it may
// take what is not there for granted for a minute, unless it changes the directory itself.
func look(dir string) {
	if f, err := os.CreateTemp(dir, ".look-*"); err == nil {
		f.Close()           //nolint:errcheck // empty
		os.Remove(f.Name()) //nolint:errcheck // empty
	}
}

// canMake says whether an image's form is there, or all that it is made of.
func canMake(dir string, f Form) bool {
	base, made := bases[f]
	return has(dir, f) || made && has(dir, base)
}

// record is what a name stood for.
type record struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	// Private is set if it took a credential to learn this. Then everybody who asks must
	// show one.
	Private bool      `json:"private,omitempty"`
	Time    time.Time `json:"time"`
}

// description is image.json.
type description struct {
	Reference string         `json:"reference"`
	Digest    string         `json:"digest"`
	Config    *v1.ConfigFile `json:"config"`
}

// measure is <form>.json.
type measure struct {
	Size    int64   `json:"size"`
	Seconds float64 `json:"seconds"`
}

func (s *Store) recordPath(ref name.Reference) string {
	return s.path("refs", hashOf(ref.Name())+".json")
}

// recall is what a name stood for when it was last asked for; nil if it never was.
func (s *Store) recall(ref name.Reference) (*record, error) {
	var r record
	err := jsonfile.Read(s.recordPath(ref), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		// What cannot be read is asked for again, and then written anew.
		s.options.Logger.Warn("an image's record cannot be read", "error", err)
		return nil, nil //nolint:nilerr // told
	}
	return &r, nil
}

func (s *Store) remember(ref name.Reference, r record) error {
	r.Reference, r.Time = ref.Name(), time.Now().UTC()
	return jsonfile.Write(s.recordPath(ref), r)
}
