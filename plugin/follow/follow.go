package follow

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Opener opens logs: a client of the API server.
type Opener interface {
	Open(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions) (io.ReadCloser, error)
}

// Options say what of the logs is wanted.
type Options struct {
	// Previous is the run of a container before the current one, for Read.
	Previous   bool
	Timestamps bool
	// Tail is how many of the lines that are there already are wanted, nil for all; Since
	// is from when on they are, zero for always.
	Tail  *int64
	Since time.Time
	// Prefix is what a container's lines begin with.
	Prefix func(pod *corev1.Pod, container string) string
	// Trouble is told why the log of a container that is followed cannot be read; it is
	// tried again.
	Trouble func(pod *corev1.Pod, container string, err error)
}

// Follower reads the logs of the containers that it is told of.
type Follower struct {
	opener  Opener
	lines   *Lines
	options Options
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	readers map[container]*reader
	running int
	late    bool
	idle    chan struct{} // has an element after the last reader has ended
}

type container struct {
	pod  types.UID
	name string
}

// New makes a Follower that ends with the context.
func New(ctx context.Context, opener Opener, lines *Lines, o Options) *Follower {
	f := &Follower{opener: opener, lines: lines, options: o, readers: map[container]*reader{}, idle: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	return f
}

// Read writes the log of a container as it is now, and returns when that is done.
func (f *Follower) Read(pod *corev1.Pod, name string) error {
	o := f.request(name)
	o.Previous, o.Timestamps = f.options.Previous, f.options.Timestamps
	prefix := f.options.Prefix(pod, name)
	return f.copy(f.ctx, pod, o, func(p piece) error { return f.lines.write(prefix, p.text) })
}

// See tells of a pod whose containers of these names are to be followed, and of each change
// of it.
func (f *Follower) See(pod *corev1.Pod, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		id := container{pod.UID, name}
		r := f.readers[id]
		if r == nil {
			r = newReader(f, pod, name)
			f.readers[id] = r
			f.running++
			go f.run(r)
		}
		r.tell(pod)
	}
}

// Gone tells that a pod is no more: the streams that are open are read to their ends, and
// that is all.
func (f *Follower) Gone(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, r := range f.readers {
		if id.pod == uid {
			r.tell(nil)
		}
	}
}

// Late tells that all containers were seen that there were at the beginning: Options.Tail is
// not for those that come from now on.
func (f *Follower) Late() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = true
}

func (f *Follower) run(r *reader) {
	if err := r.follow(f.ctx); err != nil {
		f.cancel(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running--; f.running == 0 {
		select {
		case f.idle <- struct{}{}:
		default:
		}
	}
}

// Idle has an element when the last container that is followed has ended for good. More may
// come.
func (f *Follower) Idle() <-chan struct{} { return f.idle }

// Quiet tells whether no container is followed now.
func (f *Follower) Quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running == 0
}

// Done is closed when nothing more will be written; Err then says why.
func (f *Follower) Done() <-chan struct{} { return f.ctx.Done() }

// Err is why the Follower has ended, nil if it was told to.
func (f *Follower) Err() error {
	if err := context.Cause(f.ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// request is what the user wants of a log.
func (f *Follower) request(name string) *corev1.PodLogOptions {
	o := &corev1.PodLogOptions{Container: name, TailLines: f.options.Tail}
	if !f.options.Since.IsZero() {
		o.SinceTime = &metav1.Time{Time: f.options.Since}
	}
	return o
}

func (f *Follower) copy(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions, see func(piece) error) error {
	log, err := f.opener.Open(ctx, pod, o)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // it was only read
	return scan(log, see)
}
