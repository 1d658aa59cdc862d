package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// method is one call: its name for both sides, and what the gateway does. Bytes
// travel as parts, beside the JSON.
type method[In, Out any] struct {
	name string
	// changes tells that it changes files.
	changes bool
	do      func(ctx context.Context, s site.Site, in In, parts [][]byte) (Out, [][]byte, error)
}

// The calls' arguments and results, where package site has no type for them.
type (
	nothing struct{}
	pathIn  struct{ Path string }
	writeIn struct {
		Path string
		Mode fs.FileMode
	}
	change struct {
		Index int        `json:"n"`
		Stamp site.Stamp `json:"t,omitzero"`
		Error *wireError `json:"e,omitempty"`
	}
	insideIn struct {
		Root, Name string
		Offset     int64
		N          int
	}
	createIn struct {
		Root spool.Root
		Gang spool.Gang
	}
	sweepIn struct {
		Root spool.Root
		Node string
	}
)

// calls are all methods.
type calls struct {
	write   method[writeIn, nothing]
	changed method[[]site.Watched, []change]
	list    method[pathIn, []site.Entry]
	names   method[insideIn, []string]
	readAt  method[insideIn, site.Stamp]
	create  method[createIn, nothing]
	remove  method[pathIn, nothing]
	sweep   method[sweepIn, nothing]
	user    method[nothing, site.User]
	find    method[[]string, map[string]string]
	run     method[site.Command, site.Result]
}

func newCalls() calls {
	return calls{
		write: method[writeIn, nothing]{name: "write", changes: true, do: func(ctx context.Context, s site.Site, in writeIn, parts [][]byte) (nothing, [][]byte, error) {
			return nothing{}, nil, s.Write(ctx, in.Path, part(parts, 0), in.Mode)
		}},
		changed: method[[]site.Watched, []change]{name: "changed", do: func(ctx context.Context, s site.Site, in []site.Watched, _ [][]byte) ([]change, [][]byte, error) {
			found, err := s.Changed(ctx, in)
			out, parts := make([]change, len(found)), make([][]byte, len(found))
			for i, c := range found {
				out[i], parts[i] = change{c.Index, c.Stamp, toWire(c.Err)}, c.Data
			}
			return out, parts, err
		}},
		list: method[pathIn, []site.Entry]{name: "list", do: func(ctx context.Context, s site.Site, in pathIn, _ [][]byte) ([]site.Entry, [][]byte, error) {
			entries, err := s.List(ctx, in.Path)
			return entries, nil, err
		}},
		names: method[insideIn, []string]{name: "names", do: func(ctx context.Context, s site.Site, in insideIn, _ [][]byte) ([]string, [][]byte, error) {
			names, err := s.Names(ctx, in.Root, in.Name)
			return names, nil, err
		}},
		readAt: method[insideIn, site.Stamp]{name: "readAt", do: func(ctx context.Context, s site.Site, in insideIn, _ [][]byte) (site.Stamp, [][]byte, error) {
			p, err := s.ReadAt(ctx, in.Root, in.Name, in.Offset, in.N)
			return p.Stamp, [][]byte{p.Data}, err
		}},
		create: method[createIn, nothing]{name: "create", changes: true, do: func(ctx context.Context, s site.Site, in createIn, _ [][]byte) (nothing, [][]byte, error) {
			return nothing{}, nil, s.CreateAllocation(ctx, in.Root, in.Gang)
		}},
		remove: method[pathIn, nothing]{name: "remove", changes: true, do: func(ctx context.Context, s site.Site, in pathIn, _ [][]byte) (nothing, [][]byte, error) {
			return nothing{}, nil, s.RemoveAllocation(ctx, spool.Dir(in.Path))
		}},
		sweep: method[sweepIn, nothing]{name: "sweep", changes: true, do: func(ctx context.Context, s site.Site, in sweepIn, _ [][]byte) (nothing, [][]byte, error) {
			return nothing{}, nil, s.Sweep(ctx, in.Root, in.Node)
		}},
		user: method[nothing, site.User]{name: "user", do: func(ctx context.Context, s site.Site, _ nothing, _ [][]byte) (site.User, [][]byte, error) {
			u, err := s.User(ctx)
			return u, nil, err
		}},
		find: method[[]string, map[string]string]{name: "find", do: func(ctx context.Context, s site.Site, in []string, _ [][]byte) (map[string]string, [][]byte, error) {
			found, err := s.Find(ctx, in...)
			return found, nil, err
		}},
		run: method[site.Command, site.Result]{name: "run", do: func(ctx context.Context, s site.Site, in site.Command, parts [][]byte) (site.Result, [][]byte, error) {
			in.Stdin = part(parts, 0)
			if in.Locked {
				ctx = context.WithoutCancel(ctx) // the gateway waits for it
			}
			r, err := s.Run(ctx, in)
			return r, [][]byte{r.Stdout, r.Stderr}, err
		}},
	}
}

// handler is a method as the gateway calls it.
type handler func(ctx context.Context, s site.Site, m message) message

func handlers() map[string]handler {
	c := newCalls()
	return map[string]handler{
		c.write.name: c.write.handle, c.changed.name: c.changed.handle,
		c.list.name: c.list.handle, c.names.name: c.names.handle, c.readAt.name: c.readAt.handle,
		c.create.name: c.create.handle, c.remove.name: c.remove.handle, c.sweep.name: c.sweep.handle,
		c.user.name: c.user.handle, c.find.name: c.find.handle, c.run.name: c.run.handle,
	}
}

func (m method[In, Out]) handle(ctx context.Context, s site.Site, question message) message {
	answer := message{Kind: kindAnswer, ID: question.ID}
	var in In
	if err := json.Unmarshal(question.Value, &in); err != nil {
		answer.Error = toWire(fmt.Errorf("reading a call of %s: %w", m.name, err))
		return answer
	}
	out, parts, err := m.do(ctx, s, in, question.parts)
	if err == nil {
		answer.parts = parts
		answer.Value, err = json.Marshal(out)
	}
	answer.Error = toWire(err)
	return answer
}

// ask calls the method from the client's side.
func (m method[In, Out]) ask(ctx context.Context, c caller, in In, parts ...[]byte) (Out, [][]byte, error) {
	var out Out
	value, err := json.Marshal(in)
	if err != nil {
		return out, nil, fmt.Errorf("calling %s: %w", m.name, err)
	}
	answer, err := c.call(ctx, message{Kind: kindCall, Method: m.name, Value: value, parts: parts, changes: m.changes})
	if err != nil {
		return out, nil, err
	}
	if answer.Error != nil {
		return out, nil, answer.Error.err()
	}
	if err := json.Unmarshal(answer.Value, &out); err != nil {
		return out, nil, fmt.Errorf("reading the answer to %s: %w", m.name, err)
	}
	return out, answer.parts, nil
}

// part is one part of a message, or nothing if the other side sent too few.
func part(parts [][]byte, i int) []byte {
	if i >= len(parts) {
		return nil
	}
	return parts[i]
}
