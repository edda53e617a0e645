// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock"
)

// aftermathBound returns how long after the last fault a lock may be unavailable: the quarantine of a master, a lease that was granted
// before it, and 4 s for a busy machine.
func (r *run) aftermathBound() time.Duration {
	return r.cfg.MaxTTL + 2*clock.DefaultDrift().Of(r.cfg.MaxTTL) + r.cfg.TTL + 4*time.Second
}

// aftermathTime bounds the aftermath. It is much more than the probes and the scans of a busy machine take.
const aftermathTime = 5 * time.Minute

// awaitAftermath runs the aftermath. It returns an error if the aftermath does not end.
func (r *run) awaitAftermath(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, aftermathTime, errors.New("the aftermath hangs"))
	defer cancel()
	return await(ctx, "the aftermath", background(func() error { return guard(func() error { return r.aftermath(ctx) }) }))
}

// aftermath ends all faults and all clients. It then takes every lock once, and waits until no key of a lock is left.
func (r *run) aftermath(ctx context.Context) error {
	if err := r.target.Heal(ctx); err != nil {
		return err
	}
	if r.target.Clocks && r.cfg.Client != "" { // they cannot take what is stuck
		if err := r.deleteStuck(ctx); err != nil {
			return err
		}
	}
	if r.cfg.Client != "" {
		if err := r.awaitGrants(ctx); err != nil {
			return err
		}
	}
	for _, p := range r.clients {
		if err := p.now().Finish(ctx); err != nil {
			return err
		}
	}
	if r.target.Clocks {
		if err := r.deleteStuck(ctx); err != nil {
			return err
		}
	}
	if r.cfg.Client == "" {
		if err := r.probes(ctx); err != nil {
			return err
		}
	}
	return r.settle(ctx)
}

// awaitGrants waits until the clients have said of every lock that it was granted again. It is in the place of the probes if the clients are
// a program of the user's, because only that program knows how its locks are taken. The grants are recorded as probes.
func (r *run) awaitGrants(ctx context.Context) error {
	call, healed := history.Now(), time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.aftermathBound())
	defer cancel()
	for _, name := range r.target.Locks {
		op := history.Op{Kind: history.KindProbe, Client: "harness." + name, Lock: name, Call: call, Outcome: history.Failed, Error: "not taken"}
		for !r.tookAfter(name, healed) && ctx.Err() == nil {
			sleep(ctx, settleEvery/10)
		}
		if r.tookAfter(name, healed) {
			op.Outcome, op.Error = history.OK, ""
		}
		op.Return = history.Now()
		if err := r.history.Append(op); err != nil {
			return err
		}
	}
	return nil
}

// tookAfter reports whether a client said after the instant that it was granted the lock.
func (r *run) tookAfter(name string, instant time.Time) bool {
	return slices.ContainsFunc(r.clients, func(s *clientSlot) bool { return s.now().Took(name).After(instant) })
}

// settle scans the keys until no key of a lock is left. No client is left that could renew one. A key that is left after a TTL and
// aftermathBound would stay for ever; the scans have recorded it, and the checkers report it.
func (r *run) settle(ctx context.Context) error {
	for end := time.Now().Add(r.cfg.TTL + r.aftermathBound()); ; sleep(ctx, settleEvery) {
		over := time.Now().After(end)
		left, err := r.scan(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("chaos: interrupted: %w", context.Cause(ctx))
		case err != nil || left == 0 || over:
			return err
		}
	}
}

const settleEvery = 100 * time.Millisecond

// probesAtOnce is how many goroutines probe. More would finish sooner, but a probe that waits for a busy master says nothing of its lock.
const probesAtOnce = 16

// probes takes every lock of the run once.
func (r *run) probes(ctx context.Context) error {
	names := make(chan string, len(r.target.Locks))
	for _, name := range r.target.Locks {
		names <- name
	}
	close(names)
	g, ctx := errgroup.WithContext(ctx)
	for i := range probesAtOnce {
		g.Go(func() error {
			for name := range names {
				if err := r.probe(ctx, fmt.Sprintf("harness.%d", i+1), name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// probe takes a lock and releases it, and records each attempt. After a failed attempt it tries again until aftermathBound is over.
func (r *run) probe(ctx context.Context, client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, r.aftermathBound())
	defer cancel()
	var m interface {
		Lock(context.Context) (*redlock.Lease, error)
	} = r.locks.Mutex(name)
	if name == r.cfg.Prefix+string(workload.RW) {
		m = r.locks.RWMutex(name).Locker()
	}
	for {
		op := history.Op{Kind: history.KindProbe, Client: client, Lock: name, Call: history.Now()}
		l, err := m.Lock(ctx)
		op.Return = history.Now()
		op.Outcome = history.OK
		if err != nil {
			op.Outcome, op.Error = history.Failed, "not taken"
		} else if err := l.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrUnconfirmed) {
			return fmt.Errorf("chaos: unlock %q after the faults: %w", name, err)
		}
		if err := r.history.Append(op); err != nil || op.Outcome == history.OK || ctx.Err() != nil {
			return err
		}
	}
}

// scan records the keys on every master that should end: keys of locks, and other keys without a TTL. It does not record a master's node
// record, which has no TTL on purpose. It returns how many keys it recorded.
func (r *run) scan(ctx context.Context) (keys int, err error) {
	for _, n := range r.target.Nodes {
		err := n.Admin(ctx, func(ctx context.Context, c *redis.Client, _ int) error {
			found, err := r.scanNode(ctx, n.Name(), c)
			keys += found
			return err
		})
		if err != nil {
			return keys, fmt.Errorf("chaos: scan %s: %w", n.Name(), err)
		}
	}
	return keys, nil
}

func (r *run) scanNode(ctx context.Context, name string, c *redis.Client) (found int, err error) {
	keys := c.Scan(ctx, 0, r.keyPattern(), 1000).Iterator()
	for keys.Next(ctx) {
		ttl, err := c.PTTL(ctx, keys.Val()).Result()
		if err != nil {
			return found, err
		}
		lock, ours := lockOf(keys.Val(), r.target.Locks)
		if ttl == -2 || keys.Val() == protocol.RecordKey || !ours && ttl >= 0 {
			continue // the key is gone, is the node record, or belongs to no lock and has a TTL
		}
		if err := r.history.Append(history.Key{Node: name, Lock: lock, At: history.Now(), TTL: ttl}); err != nil {
			return found, err
		}
		found++
	}
	return found, keys.Err()
}

// deleteStuck deletes keys that were set while a master's clock was ahead. Such a key expires when the clock is there again: after minutes,
// where a lock lasts less than a second. An operator who puts a clock back has to do the same. Every other fault heals by itself.
func (r *run) deleteStuck(ctx context.Context) error {
	for _, n := range r.target.Nodes {
		err := n.Admin(ctx, func(ctx context.Context, c *redis.Client, _ int) error {
			keys := c.Scan(ctx, 0, "*", 1000).Iterator()
			for keys.Next(ctx) {
				ttl, err := c.PTTL(ctx, keys.Val()).Result()
				if err == nil && ttl > r.longest(keys.Val()) {
					err = c.Del(ctx, keys.Val()).Err()
				}
				if err != nil {
					return err
				}
			}
			return keys.Err()
		})
		if err != nil {
			return fmt.Errorf("chaos: delete keys of the future on %s: %w", n.Name(), err)
		}
	}
	return nil
}

// longest returns the longest TTL that the library gives a key (docs/operations.md). A key with more was set by a clock that was ahead.
func (r *run) longest(key string) time.Duration {
	switch {
	case strings.HasPrefix(key, "redlock:queue:"):
		return time.Minute
	case strings.HasPrefix(key, "redlock:alive:"):
		return 3 * time.Second
	}
	return r.cfg.TTL
}

// lockOf returns the lock that a key belongs to. If the key belongs to none, it returns the key and false. The queue of a lock counts as
// belonging to none: it is no vote, and may outlive the lock.
func lockOf(key string, locks []string) (string, bool) {
	for _, l := range locks {
		if key == l || strings.HasPrefix(key, "{"+l+"}") {
			return l, true
		}
	}
	return key, false
}

// misconfigured opens a client whose settings differ from those of the other clients, and tries to lock. A grant is recorded as a
// violation. See nemesis.Target.
func (r *run) misconfigured(ctx context.Context, rnd *rand.Rand) error {
	good := urls(r.target.Spare[0], r.cluster.Masters())
	opts := []redlock.Option{redlock.WithTTL(r.cfg.TTL), redlock.WithMaxTTL(r.cfg.MaxTTL), redlock.WithFixedMasters()}
	var what string
	bad := good
	switch rnd.IntN(3) {
	case 0:
		what, bad = "other masters", good[:len(good)-2]
		opts = append(opts, redlock.WithNodeCount(len(bad)))
	case 1:
		what, bad = "one master twice", append(append([]string{}, good[:len(good)-1]...), strings.Replace(good[0], "name=m1", "name=other", 1))
	case 2:
		what = "another maximum TTL"
		opts = append(opts, redlock.WithMaxTTL(r.cfg.MaxTTL+time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := redlock.Open(ctx, bad, opts...)
	if err == nil {
		defer c.Close()
		var l *redlock.Lease
		if l, err = c.Mutex(r.cfg.Prefix + "misconfigured").TryLock(ctx); err == nil {
			_ = l.Unlock(ctx)
			r.faults.violation("misconfigure", "a client with "+what+" was given a lock")
			return nil
		}
	}
	// A master that is down or in quarantine cannot refuse the settings yet. Then nothing was shown.
	if errors.Is(err, redlock.ErrUnreachable) || errors.Is(err, redlock.ErrRecovering) || ctx.Err() != nil {
		return fmt.Errorf("no quorum could refuse %s: %w", what, err)
	}
	return nil
}
