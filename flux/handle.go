package flux

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// DefaultLibrary is what is loaded unless Options say otherwise: libflux-core by its
// soname, which has been the same since 2019.
const DefaultLibrary = "libflux-core.so.2"

// AnyNode addresses a request to the nearest broker that has the service.
const AnyNode uint32 = 0xffffffff

// Options of Open.
type Options struct {
	// Library is the path or the soname of libflux-core; DefaultLibrary if empty.
	Library string
}

// Handle is a connection to one Flux broker.
type Handle struct {
	conn conn
}

// Open connects to the broker at a URI ("local:///run/flux/local"), or, if that is empty,
// to the one that the library finds: FLUX_URI of the environment, else the system
// instance. It fails with ErrUnavailable where there is no libflux-core, and with an
// *Error where there is no broker. Call Close in the end.
func Open(ctx context.Context, uri string, o Options) (*Handle, error) {
	library := o.Library
	if library == "" {
		library = DefaultLibrary
	}
	c, err := dial(ctx, library, uri)
	if err != nil {
		return nil, fmt.Errorf("opening Flux: %w", err)
	}
	return &Handle{conn: c}, nil
}

// Close ends all calls with ErrClosed, and disconnects.
func (h *Handle) Close() { h.conn.close() }

// Lost is closed when the handle is of no more use: the broker has gone, or Close was
// called. Where no call waits, that the broker has gone is noticed by the next call.
func (h *Handle) Lost() <-chan struct{} { return h.conn.lost() }

// Err is why the handle is of no more use, nil while it is.
func (h *Handle) Err() error { return h.conn.reason() }

// LibraryVersion is libflux-core's, e.g. "0.88.0". The broker's own is the attribute
// "version" (see Attribute).
func (h *Handle) LibraryVersion() string { return h.conn.version() }

// RPC calls a method of a service that answers once, on any node: it sends request as
// JSON, and reads the answer into response; both may be nil.
func (h *Handle) RPC(ctx context.Context, topic string, request, response any) error {
	return h.RPCNode(ctx, AnyNode, topic, request, response)
}

// RPCNode is RPC at the broker of a rank.
func (h *Handle) RPCNode(ctx context.Context, rank uint32, topic string, in, out any) error {
	r, err := newRequest(topic, in)
	if err != nil {
		return err
	}
	r.node = rank
	return h.ask(ctx, r, out)
}

func newRequest(topic string, in any) (request, error) {
	r := request{topic: topic, node: AnyNode, payload: "{}"}
	if in == nil {
		return r, nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return r, fmt.Errorf("%s: writing the request: %w", topic, err)
	}
	r.payload = string(text)
	return r, nil
}

// ask sends a request that is answered once, and waits for that.
func (h *Handle) ask(ctx context.Context, r request, out any) error {
	// A zero byte would cut the text short where C reads it; JSON has none.
	if strings.ContainsRune(r.topic+r.payload, 0) {
		return fmt.Errorf("%s: the request has a zero byte", r.name())
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", r.name(), context.Cause(ctx))
	}
	answers := make(chan reply, 1)
	giveUp := h.conn.send(r, func(a reply) { answers <- a })
	var a reply
	select {
	case a = <-answers:
	case <-ctx.Done():
		giveUp()
		return fmt.Errorf("%s: waiting for an answer: %w", r.name(), context.Cause(ctx))
	}
	if a.err != nil {
		return r.wrap(a.err)
	}
	if out == nil || a.payload == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(a.payload), out); err != nil {
		return fmt.Errorf("%s: reading the answer: %w", r.name(), err)
	}
	return nil
}

func (r request) name() string {
	if r.submit {
		return "job-ingest.submit"
	}
	return r.topic
}

// wrap says in what call an error was met; Flux's own errors say that already.
func (r request) wrap(err error) error {
	if _, is := err.(*Error); is {
		return err
	}
	return fmt.Errorf("%s: %w", r.name(), err)
}

// Stream calls a method of a service that answers many times, on any node. The request
// is sent when the iteration begins, and answers are kept until they are read. The
// iteration ends without an error when the service says that there is no more (ENODATA),
// and with one in any other case. Where it is left early, or ctx ends, cancelTopic tells
// the service; it may be empty.
func (h *Handle) Stream(ctx context.Context, topic, cancelTopic string, in any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		r, err := newRequest(topic, in)
		if err == nil && ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", topic, context.Cause(ctx))
		}
		if err != nil {
			yield(nil, err)
			return
		}
		r.streaming, r.cancelTopic = true, cancelTopic
		answers := newMailbox()
		giveUp := h.conn.send(r, answers.put)
		for {
			a, err := answers.take(ctx)
			switch {
			case err != nil:
				giveUp()
				yield(nil, fmt.Errorf("%s: waiting for an answer: %w", topic, err))
				return
			case isEnd(a.err):
				return
			case a.err != nil:
				yield(nil, r.wrap(a.err))
				return
			case !yield(json.RawMessage(a.payload), nil):
				giveUp()
				return
			}
		}
	}
}

// Attribute is a broker's attribute, e.g. "size", "version", "security.owner".
func (h *Handle) Attribute(ctx context.Context, name string) (string, error) {
	var answer struct {
		Value string `json:"value"`
	}
	err := h.RPC(ctx, "attr.get", map[string]string{"name": name}, &answer)
	return answer.Value, err
}
