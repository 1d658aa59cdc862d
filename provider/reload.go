package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/identity"
)

// identities is the map of identities, which may change while the node runs.
type identities struct{ current atomic.Pointer[identity.Map] }

func newIdentities(m identity.Map) *identities {
	i := &identities{}
	i.set(m)
	return i
}

func (i *identities) get() identity.Map  { return *i.current.Load() }
func (i *identities) set(m identity.Map) { i.current.Store(&m) }

// reloadEvery is the time between two looks at the configuration file. Whoever does not
// want to wait sends SIGHUP.
const reloadEvery = 5 * time.Second

// Reloader takes the map of identities from the configuration file whenever that changes,
// from the start of the process on: one that stands by must not take over with the map of
// long ago. A file that cannot be used changes nothing.
type Reloader struct {
	load func() (Config, error)
	// started is what the process was started with.
	started Config
	ids     *identities
	asked   chan os.Signal

	mu sync.Mutex // one look at a time
	// told is what was last said of a file that cannot be used, or not without a restart.
	told string
	// led are the nodes of a process that leads, nil while it stands by.
	led *followers
}

// followers are who hears of the file.
type followers struct {
	// changed is called after a change of the map; tell is for what people should hear.
	changed func()
	tell    func(eventType, reason, message string)
}

// The reasons of the Events about the configuration file, on the virtual node.
const (
	reasonReloaded      = "ConfigReloaded"
	reasonInvalidConfig = "ConfigInvalid"
	reasonRestartNeeded = "RestartNeeded"
)

// NewReloader loads the configuration that the process is started with. SIGHUP, which else
// ends a process, is from then on the wish that the file be looked at.
func NewReloader(load func() (Config, error)) (*Reloader, error) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	c, err := load()
	if err != nil {
		return nil, err
	}
	return &Reloader{load: load, started: c, ids: newIdentities(c.Identity), asked: asked}, nil
}

// Config is what the process was started with.
func (r *Reloader) Config() Config { return r.started }

// Run looks at the file until the context ends.
func (r *Reloader) Run(ctx context.Context) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-r.asked:
			asked = true // who asks wants an answer
		case <-tick.C:
		}
		r.look(ctx, asked)
	}
}

// lead has nodes that are about to run hear of the file, and of what is wrong with it now.
func (r *Reloader) lead(ctx context.Context, led followers) {
	r.mu.Lock()
	r.led = &led
	r.mu.Unlock()
	r.look(ctx, true)
}

// look reads the file. What was said of it already is said again only if it is asked for.
func (r *Reloader) look(ctx context.Context, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if again {
		r.told = ""
	}
	log := logr.FromContextOrDiscard(ctx)
	c, err := r.load()
	if err == nil && c.Asker() != r.started.Asker() {
		err = fmt.Errorf("the user who asks the workload manager would change from %q to %q: set access.asker, or restart gangline-node", r.started.Asker(), c.Asker())
	}
	if err != nil {
		r.warn(reasonInvalidConfig, "The earlier configuration stays in force: "+err.Error(), func() {
			log.Error(err, "the configuration cannot be used; the earlier one stays in force")
		})
		return
	}
	if rest := otherFields(r.started, c); len(rest) > 0 {
		r.warn(reasonRestartNeeded, "Restart gangline-node for what has changed of "+strings.Join(rest, ", "), func() {
			log.Info("settings have changed that take a restart to come into force", "fields", rest)
		})
	} else {
		r.told = ""
	}
	if reflect.DeepEqual(r.ids.get(), c.Identity) {
		return
	}
	r.ids.set(c.Identity)
	log.Info("read the map of identities anew", "rules", len(c.Identity))
	if r.led != nil {
		r.led.tell(corev1.EventTypeNormal, reasonReloaded, "The map of identities was read anew: "+rulesOf(len(c.Identity)))
		r.led.changed()
	}
}

// warn says something once.
func (r *Reloader) warn(reason, message string, log func()) {
	if r.told == message {
		return
	}
	r.told = message
	log()
	if r.led != nil { // Events are the leader's to tell
		r.led.tell(corev1.EventTypeWarning, reason, message)
	}
}

// otherFields names the settings, but for the map of identities, in which two
// configurations differ.
func otherFields(a, b Config) []string {
	fields := func(c Config) map[string]json.RawMessage {
		c.Identity = nil
		var m map[string]json.RawMessage
		if data, err := json.Marshal(c); err == nil {
			_ = json.Unmarshal(data, &m)
		}
		return m
	}
	x, y := fields(a), fields(b)
	var differ []string
	for name, value := range x {
		if !bytes.Equal(value, y[name]) {
			differ = append(differ, name)
		}
	}
	for name := range y {
		if _, both := x[name]; !both {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	return differ
}

// rulesOf counts rules in words.
func rulesOf(n int) string {
	if n == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", n)
}
