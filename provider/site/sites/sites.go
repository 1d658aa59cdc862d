package sites

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
)

// defaultIdle is long enough for the pauses of an ordinary day's work.
const defaultIdle = 10 * time.Minute

// Sites are the sites of all users, each made when it is first asked for.
type Sites struct {
	config Config
	own    site.Local
	log    *slog.Logger

	mu    sync.Mutex
	known map[string]opened // nil after Close
}

// opened is a user's site.
type opened struct {
	keeper  *gateway.Keeper
	gateway gatewayOf
}

// New checks the configuration. own is the site of the mode Own, with the provider's
// lock.
func New(c Config, own site.Local, log *slog.Logger) (*Sites, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Idle.Duration = cmp.Or(c.Idle.Duration, defaultIdle)
	return &Sites{config: c, own: own, log: cmp.Or(log, slog.Default()), known: map[string]opened{}}, nil
}

// For is the site as a user sees it. It waits for nothing: the site's first call does.
// In the mode Own the only user is the provider's.
func (s *Sites) For(ctx context.Context, user string) (site.Site, error) {
	if s.config.mode() == Own {
		me, err := s.own.User(ctx)
		if err == nil && user != me.Name {
			err = fmt.Errorf("gangline-node runs as %s and, in the access mode own, acts as no other user: not as %s; run it as that user, or choose setuid, sudo or ssh", me.Name, user)
		}
		if err != nil {
			return nil, err
		}
		return s.own, nil
	}
	o, err := s.open(user)
	if err != nil {
		return nil, err
	}
	return o.keeper, nil
}

// Agent is the path of the agent for a user's jobs. On a login node it is put in place
// if need be; elsewhere it is fallback, where the site has installed it.
func (s *Sites) Agent(ctx context.Context, user, fallback string) (string, error) {
	if s.config.mode() != SSH {
		return fallback, nil
	}
	o, err := s.open(user)
	if err != nil {
		return "", err
	}
	if err := o.keeper.Ready(ctx); err != nil {
		return "", err
	}
	return o.gateway.login.Agent(ctx)
}

func (s *Sites) open(user string) (opened, error) {
	if err := checkUser(user); err != nil {
		return opened{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		return opened{}, errors.New("the sites are closed")
	}
	if o, ok := s.known[user]; ok {
		return o, nil
	}
	log := s.log.With("user", user)
	g, err := ways()[s.config.mode()].open(s.config, user, log)
	if err != nil {
		return opened{}, err
	}
	o := opened{gateway: g, keeper: gateway.Keep(g.start, gateway.KeepOptions{
		Options: gateway.Options{Lock: forUser(s.config.Lock, user), Dialer: g.dialer},
		Idle:    s.config.Idle.Duration, Slept: func() { _ = g.close() }, Log: log,
	})}
	s.known[user] = o
	return o, nil
}

// Forget ends a user's gateway, in the background. Whoever asks for the site again gets
// another.
func (s *Sites) Forget(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.known[user]
	if !ok {
		return
	}
	delete(s.known, user)
	go func() {
		if err := errors.Join(o.keeper.Close(), o.gateway.close()); err != nil {
			s.log.Error("ending a gateway that nobody needs", "user", user, "error", err.Error())
		}
	}()
}

// Close ends all gateways.
func (s *Sites) Close() error {
	s.mu.Lock()
	known := s.known
	s.known = nil
	s.mu.Unlock()
	var errs []error
	for _, o := range known {
		errs = append(errs, o.keeper.Close(), o.gateway.close())
	}
	return errors.Join(errs...)
}
