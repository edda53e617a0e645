// SPDX-License-Identifier: Apache-2.0

// Package library has the locks of other libraries, and this one's, behind one interface: an adapter of some 30 lines each.
package library

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/redlock"
)

// Locker is a library with its connections.
type Locker interface {
	// Take takes a lock for the TTL of the task and waits for it until ctx ends.
	Take(ctx context.Context, name string) (Lease, error)
	Close()
}

// Lease is a lock that was granted.
type Lease struct {
	client.Grant                 // ValidUntil is what the library says; if it says nothing, a TTL after the last attempt began
	Lost         context.Context // ends when the library says that the lock is lost; nil if it never does
	Release      func(ctx context.Context) error
}

// opener opens a library on the masters of a task.
type opener func(context.Context, client.Task) (Locker, error)

// libraries returns how each library is opened, by the name that --lock takes.
func libraries() map[string]opener {
	return map[string]opener{
		"redlock": openRedlock, "redsync": openRedsync, "redsync-tuned": openTunedRedsync, "redislock": openRedislock, "rueidislock": openRueidislock, "setnx": openSetNX,
	}
}

// Names are the names that Open knows, sorted.
func Names() []string { return slices.Sorted(maps.Keys(libraries())) }

// Known says whether Open knows a library.
func Known(name string) bool { return libraries()[name] != nil }

// Open opens a library on the masters of a task, as it is used by default.
func Open(ctx context.Context, name string, t client.Task) (Locker, error) {
	if !Known(name) {
		return nil, fmt.Errorf("no library %q", name)
	}
	return libraries()[name](ctx, t)
}

// Chosen are the names in a flag, with commas between them.
func Chosen(flag string) ([]string, error) {
	names := strings.Split(flag, ",")
	for _, name := range names {
		if !Known(name) {
			return nil, fmt.Errorf("no library %q: want %s", name, strings.Join(Names(), ", "))
		}
	}
	return names, nil
}

// options returns the options of go-redis for the masters of the task.
func options(t client.Task) ([]*redis.Options, error) {
	var all []*redis.Options
	for _, node := range t.Nodes {
		u, err := url.Parse(node)
		if err != nil {
			return nil, err
		}
		q := u.Query()
		q.Del("name") // of the master, which go-redis does not know
		u.RawQuery = q.Encode()
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled = true
		all = append(all, o)
	}
	return all, nil
}

// of returns which of n masters has a lock, for a library that locks on one master. The locks of a run are spread over the masters.
func of(name string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return int(h.Sum32() % uint32(n))
}

// holder returns a new holder, for a library that shows none.
func holder() string { return crand.Text() }

// retryEvery is how often a library that does not wait tries again, on the average.
const retryEvery = 20 * time.Millisecond

// errGaveUp means that the lock was not granted while the caller waited.
var errGaveUp = errors.New("gave up")

// retry calls try until it grants a lock or ctx ends.
func retry(ctx context.Context, try func() (Lease, error)) (Lease, error) {
	for {
		l, err := try()
		if err == nil {
			return l, nil
		}
		Pause(ctx, jitter(retryEvery))
		if ctx.Err() != nil {
			return Lease{}, errGaveUp
		}
	}
}

// Pause lasts for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// jitter is d on the average: callers that pause for the same time would come back at the same time.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// This library.
type redlockLocks struct {
	c      *redlock.Client
	renews bool
}

// Renewed is l with a lock that is renewed while it is held, if l is this library, which has no renewal else: in a chaos run a claim ends by
// itself.
func Renewed(l Locker) Locker {
	if k, ok := l.(redlockLocks); ok {
		k.renews = true
		return k
	}
	return l
}

func openRedlock(ctx context.Context, t client.Task) (Locker, error) {
	c, err := redlock.Open(ctx, t.Nodes, redlock.WithTTL(t.TTL), redlock.WithMaxTTL(t.MaxTTL), redlock.WithFixedMasters())
	return redlockLocks{c: c}, err
}

func (k redlockLocks) Close() { _ = k.c.Close() }

func (k redlockLocks) Take(ctx context.Context, name string) (Lease, error) {
	opts := []redlock.LockOption{redlock.WithoutRenewal()}
	if k.renews {
		opts = nil
	}
	l, err := k.c.Mutex(name, opts...).Lock(ctx)
	if err != nil {
		return Lease{}, err
	}
	return Lease{Grant: client.Grant{Holder: l.Holder(), Token: l.Token(), ValidUntil: l.ValidUntil()}, Lost: l.Context(), Release: l.Unlock}, nil
}

// redsync: a quorum of all masters. It says until when a lock is valid.
type redsyncLocks struct {
	conns
	rs   *redsync.Redsync
	opts []redsync.Option
}

// With the default options of redsync and of its client.
func openRedsync(_ context.Context, t client.Task) (Locker, error) { return newRedsync(t, 0) }

// For a lock that is held for a millisecond and wanted by many: callers do not wait for a connection, try again every 5 ms on the average
// instead of every 150, and do not give up after 32 times.
func openTunedRedsync(_ context.Context, t client.Task) (Locker, error) {
	return newRedsync(t, 128, redsync.WithTries(math.MaxInt), redsync.WithRetryDelayFunc(func(int) time.Duration { return jitter(5 * time.Millisecond) }))
}

// newRedsync has so many connections to each master, or as many as its client has by default.
func newRedsync(t client.Task, pool int, more ...redsync.Option) (Locker, error) {
	opts, err := options(t)
	if err != nil {
		return nil, err
	}
	k := &redsyncLocks{opts: append(more, redsync.WithExpiry(t.TTL))}
	var pools []redsyncredis.Pool
	for _, o := range opts {
		o.PoolSize = pool
		c := redis.NewClient(o)
		k.conns, pools = append(k.conns, c), append(pools, goredis.NewPool(c))
	}
	k.rs = redsync.New(pools...)
	return k, nil
}

func (k *redsyncLocks) Take(ctx context.Context, name string) (Lease, error) {
	m := k.rs.NewMutex(name, k.opts...)
	if err := m.LockContext(ctx); err != nil {
		return Lease{}, err
	}
	release := func(ctx context.Context) error {
		if ok, err := m.UnlockContext(ctx); !ok || err != nil {
			return fmt.Errorf("not released: %w", err)
		}
		return nil
	}
	return Lease{Grant: client.Grant{Holder: m.Value(), ValidUntil: m.Until()}, Release: release}, nil
}

// conns are clients of the masters.
type conns []*redis.Client

func connect(t client.Task) (all conns, err error) {
	opts, err := options(t)
	for _, o := range opts {
		all = append(all, redis.NewClient(o))
	}
	return all, err
}

func (all conns) Close() {
	for _, c := range all {
		_ = c.Close()
	}
}

// redislock: one master. It does not say until when a lock is valid.
type redislockLocks struct {
	conns
	ttl time.Duration
}

func openRedislock(_ context.Context, t client.Task) (Locker, error) {
	all, err := connect(t)
	return &redislockLocks{all, t.TTL}, err
}

func (k *redislockLocks) Take(ctx context.Context, name string) (Lease, error) {
	c := redislock.New(k.conns[of(name, len(k.conns))])
	return retry(ctx, func() (Lease, error) {
		end := time.Now().Add(k.ttl)
		l, err := c.Obtain(ctx, name, k.ttl, nil)
		if err != nil {
			return Lease{}, err
		}
		return Lease{Grant: client.Grant{Holder: l.Token(), ValidUntil: end}, Release: l.Release}, nil
	})
}

// rueidislock: one master, with one key for a lock, as its README says for a single Redis. Its context ends when the lock is lost.
type rueidislockLocks struct {
	lockers []rueidislock.Locker
	ttl     time.Duration
}

func openRueidislock(_ context.Context, t client.Task) (Locker, error) {
	opts, err := options(t)
	if err != nil {
		return nil, err
	}
	k := &rueidislockLocks{ttl: t.TTL}
	for _, o := range opts {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{o.Addr}, Username: o.Username, Password: o.Password},
			KeyMajority:  1, KeyValidity: t.TTL, NoLoopTracking: true,
		})
		if err != nil {
			k.Close()
			return nil, err
		}
		k.lockers = append(k.lockers, l)
	}
	return k, nil
}

func (k *rueidislockLocks) Close() {
	for _, l := range k.lockers {
		l.Close()
	}
}

func (k *rueidislockLocks) Take(ctx context.Context, name string) (Lease, error) {
	locker := k.lockers[of(name, len(k.lockers))]
	return retry(ctx, func() (Lease, error) {
		end := time.Now().Add(k.ttl)
		held, cancel, err := locker.TryWithContext(context.Background(), name)
		if err != nil {
			return Lease{}, err
		}
		return Lease{Grant: client.Grant{Holder: holder(), ValidUntil: end}, Lost: held, Release: func(context.Context) error { cancel(); return nil }}, nil
	})
}
