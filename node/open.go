// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/node/internal/locate"
	"github.com/redlock-go/redlock/node/internal/unacked"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// New makes a node from a go-redis client. It uses the client's address or sentinels,
// credentials, database, TLS and dialer, but not its pool.
//
// The node opens connections of its own, with the settings that a lock needs: no retries,
// no dial retries, its own timeouts. A client whose options are unsafe for locks, as
// MaxRetries is, is therefore safe here (docs/safety.md A16). Hooks of the client do not
// see the node's traffic. The caller closes the client.
//
// New accepts a *redis.Client from redis.NewClient, redis.NewFailoverClient or
// redis.NewUniversalClient. With cfg.Tag it accepts a *redis.ClusterClient, whose
// addresses are the servers where the search for the slot's master starts. Any other kind
// is an error that names it. New does not connect. Where the client has TLS, Close does not wait for a handshake of the client's own dialer,
// which may go on for the client's DialTimeout.
//
// A client from redis.NewFailoverClient looks for the master itself, and go-redis prints lines to stderr when it does. A
// redis-sentinel:// URL given to [Open] prints nothing. If the sentinel that such a client has chosen hangs, the client's own timeouts say how
// long it is before another one is asked: up to twice ReadTimeout for each of its tries, 24 s with the defaults of go-redis v9.17, and never
// without a ReadTimeout. The node is down meanwhile, if it needs a connection. With the URL all sentinels are asked at once.
func New(client redis.UniversalClient, cfg Config) (Node, error) {
	r, err := openClient(client, cfg)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func openClient(client redis.UniversalClient, cfg Config) (*redisNode, error) {
	switch c := client.(type) {
	case *redis.Client:
		o, err := optionsOf(c)
		if err != nil {
			return nil, err
		}
		r, err := open(redis.Options{
			Network: o.Network, Addr: o.Addr, Dialer: o.Dialer, OnConnect: o.OnConnect,
			Protocol: o.Protocol, Username: o.Username, Password: o.Password,
			CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
			StreamingCredentialsProvider: o.StreamingCredentialsProvider,
			DB:                           o.DB, TLSConfig: o.TLSConfig, ClientName: o.ClientName,
		}, cfg, nil)
		if err == nil && o.Addr == failoverAddr {
			r.asks = newSlowDial(r.life, o.Dialer, r.locator.MaxIdle())
		}
		return r, err
	case *redis.ClusterClient:
		o, err := optionsOf(c)
		if err != nil {
			return nil, err
		}
		if len(o.Addrs) == 0 {
			return nil, errors.New("node: a *redis.ClusterClient without addresses")
		}
		return open(redis.Options{
			Dialer: o.Dialer, OnConnect: o.OnConnect,
			Protocol: o.Protocol, Username: o.Username, Password: o.Password,
			CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
			StreamingCredentialsProvider: o.StreamingCredentialsProvider,
			TLSConfig:                    o.TLSConfig, ClientName: o.ClientName,
		}, cfg, o.Addrs)
	}
	return nil, fmt.Errorf("node: a %T cannot be one node: want a *redis.Client for one master, or a *redis.ClusterClient", client)
}

// optionsOf returns the options of a client, or an error if nobody has made it: go-redis panics then.
func optionsOf[O any](c interface{ Options() *O }) (o *O, err error) {
	defer func() {
		if recover() != nil || o == nil {
			err = fmt.Errorf("node: a nil or zero %T: make it with go-redis's function", c)
		}
	}()
	return c.Options(), nil
}

// failoverAddr is the address that go-redis gives a client whose master sentinels name.
const failoverAddr = "FailoverClient"

// open makes a node of opts. If seeds is not empty, the node is a slot of the Redis Cluster
// to which these servers belong.
func open(opts redis.Options, cfg Config, seeds []string) (*redisNode, error) {
	if opts.DB < 0 { // go-redis would take the first
		return nil, fmt.Errorf("node: database %d: want 0 or more", opts.DB)
	}
	var locator locate.Locator
	switch {
	case len(seeds) > 0:
		if err := locate.CheckTag(cfg.Tag); err != nil {
			return nil, fmt.Errorf("node: a Redis Cluster: %w", err)
		}
		locator, opts.Addr = locate.NewSlot(seeds), "cluster:"+cfg.Tag
	case cfg.Tag != "":
		return nil, errors.New("node: Config.Tag is for a Redis Cluster only, and this is none")
	case opts.Addr == failoverAddr:
		locator = locate.Sentinels{Address: failoverAddr}
	default:
		locator = locate.Address(opts.Addr)
	}
	if cfg.IOTimeout <= 0 && locator.BehindFailover() {
		cfg.IOTimeout = ioTimeout // a master that is silent for longer may have been replaced (docs/safety.md, 6): it is searched for
	}
	cfg = cfg.withDefaults()
	r := &redisNode{
		name: cmp.Or(cfg.Name, withDatabase(opts.Addr, opts.DB)), opts: laneOptions(opts, cfg), locator: locator, keys: wire.KeysOf("", cfg.Tag), cfg: cfg, clock: cfg.Clock,
		wake:      make(chan struct{}, 1),
		quit:      make(chan struct{}),
		done:      make(chan struct{}),
		firstDial: make(chan struct{}),
		unsent:    make(map[unacked.Key]bool),
	}
	r.life, r.endLife = context.WithCancel(background)
	r.sub = subscription{node: r, want: make(map[string]bool), changed: make(chan struct{}, 1)}
	r.sub.life, r.sub.endLife = context.WithCancel(background)
	return r, nil
}

// withDatabase returns the name of a master at addr. Two databases of one server share no key, so each is a master of its
// own, and the number of the database is part of the name.
func withDatabase(addr string, db int) string {
	if db == 0 {
		return addr
	}
	return fmt.Sprintf("%s/%d", addr, db)
}

// laneOptions returns opts with the settings that a lock needs.
func laneOptions(opts redis.Options, cfg Config) redis.Options {
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.DialTimeout = cfg.DialTimeout
	opts.ReadTimeout, opts.WriteTimeout = cfg.IOTimeout, cfg.IOTimeout
	opts.ContextTimeoutEnabled = true
	opts.PoolSize = 1
	if mutants.LibraryRetries {
		opts.MaxRetries, opts.PoolSize = 3, 8
	}
	// With RESP3 go-redis looks for pushed messages before each pipeline, with a
	// system call. That is a tenth of a lone caller's time, and the node needs nothing of RESP3.
	opts.Protocol = 2
	opts.DisableIdentity = true
	// If no endpoint type is set, go-redis before v9.23 resolves the host's name once more
	// for each connection, although the mode is disabled.
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
	return opts
}

// Direct returns the options of go-redis clients that reach the master past the lane, for a command that looks at what the
// server is: one, or in a Redis Cluster one for each server where the search for the slot's master starts. They have no
// timeouts. They work until Close.
func (r *redisNode) Direct() (all []redis.Options) {
	o := redis.Options{
		Network: r.opts.Network, Addr: r.opts.Addr, Dialer: r.opts.Dialer, OnConnect: r.opts.OnConnect,
		Username: r.opts.Username, Password: r.opts.Password,
		CredentialsProvider: r.opts.CredentialsProvider, CredentialsProviderContext: r.opts.CredentialsProviderContext,
		DB: r.opts.DB, TLSConfig: r.opts.TLSConfig,
	}
	if o.Dialer == nil && o.TLSConfig != nil {
		o.Dialer = r.tls.dial(o.TLSConfig, r.cfg.DialTimeout)
	}
	slot, ok := r.locator.(*locate.Slot)
	if !ok {
		return []redis.Options{o}
	}
	for _, addr := range slot.Seeds() {
		o.Addr = addr
		all = append(all, o)
	}
	return all
}

// DownAfter is how long the sentinels of the node's URL wait before they begin a failover: the shortest that one tells. 0: none tells.
func (r *redisNode) DownAfter(ctx context.Context) time.Duration {
	if r.guards == nil {
		return 0
	}
	return r.guards.downAfter(ctx)
}

// Moved returns the server to which err, the reply of the server at asked, sends a command that has options of Direct.
func (r *redisNode) Moved(err error, asked string) (addr string, ok bool) {
	return locate.Moved(err, asked)
}
