package unpack

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxLinks is how many links one path may lead over; the kernel's own bound.
const maxLinks = 40

// target is where a hard link leads: its last element is not followed.
func (t *Tree) target(name string) (string, error) {
	name = clean(name)
	dir, err := t.resolve(path.Dir(name))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(name)), nil
}

// resolve finds the directory of a name as a process would whose root the tree is, and
// makes what is missing. The result leads over no link.
func (t *Tree) resolve(name string) (string, error) {
	if t.real[name] {
		return name, nil
	}
	rest, at := strings.Split(name, "/"), "."
	for links := 0; len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		switch element {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at) // of "." it is "."
			continue
		}
		p := path.Join(at, element)
		if t.real[p] {
			at = p
			continue
		}
		if err := t.files.settle(p); err != nil {
			return "", err
		}
		info, err := t.root.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := errors.Join(t.root.Mkdir(p, 0o700), t.root.Chmod(p, t.mode(0o755))); err != nil {
				return "", err
			}
		case err != nil:
			return "", err
		case info.Mode().Type() == fs.ModeSymlink:
			if links++; links > maxLinks {
				return "", errors.New("too many links")
			}
			link, err := t.root.Readlink(p)
			if err != nil {
				return "", err
			}
			if path.IsAbs(link) {
				at = "."
			}
			rest = append(strings.Split(link, "/"), rest...)
			continue
		case !info.IsDir():
			return "", fmt.Errorf("%s is no directory", p)
		}
		t.real[p] = true
		at = p
	}
	return at, nil
}

// clean is a name within the tree: whatever it holds, it does not lead above it.
func clean(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name != "" {
		return name
	}
	return "."
}
