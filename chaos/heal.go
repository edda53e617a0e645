// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// healBound is how long after the last fault a lock may take to be had: a recovery, and what was held before it, on a busy machine.
func (r *run) healBound() time.Duration {
	return r.cfg.MaxTTL + 2*clock.DefaultDrift().Of(r.cfg.MaxTTL) + r.cfg.TTL + 4*time.Second
}

// heal ends all faults and the clients' work, and then takes every lock there is and looks at every key.
func (r *run) heal(ctx context.Context) error {
	if err := r.world.Heal(ctx); err != nil {
		return err
	}
	for _, p := range r.clients {
		if err := p.now().Finish(ctx); err != nil {
			return err
		}
	}
	if r.world.Clocks {
		if err := r.unstick(ctx); err != nil {
			return err
		}
	}
	if err := r.probes(ctx); err != nil {
		return err
	}
	return r.settle(ctx)
}

// settle looks at the keys until none is left of any lock. Nobody is there to renew anything now: what is left after a TTL and the time to
// heal would stay for ever, and is on record then.
func (r *run) settle(ctx context.Context) error {
	for end := time.Now().Add(r.cfg.TTL + r.healBound()); ; sleep(ctx, settleEvery) {
		over := time.Now().After(end)
		left, err := r.scan(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("chaos: interrupted: %w", ctx.Err())
		case err != nil || left == 0 || over:
			return err
		}
	}
}

const settleEvery = 100 * time.Millisecond

// probesAtOnce keeps the masters busy, and each probe so short that it says something of the lock.
const probesAtOnce = 16

// probes takes every lock there is, once.
func (r *run) probes(ctx context.Context) error {
	names := make(chan string, len(r.world.Locks))
	for _, name := range r.world.Locks {
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

// probe takes a lock and gives it back, and goes on trying for as long as it may take to be had.
func (r *run) probe(ctx context.Context, client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, r.healBound())
	defer cancel()
	var m interface {
		Lock(context.Context) (*redlock.Lease, error)
	} = r.locks.Mutex(name)
	if name == string(workload.RW) {
		m = r.locks.RWMutex(name).Writer()
	}
	for {
		op := history.Op{Kind: history.KindProbe, Client: client, Lock: name, Call: history.Now()}
		l, err := m.Lock(ctx)
		op.Return = history.Now()
		op.Outcome = history.OK
		if err != nil {
			op.Outcome, op.Error = history.Failed, "not taken"
		} else if err := l.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrUnconfirmed) {
			return fmt.Errorf("chaos: unlock %q after the heal: %w", name, err)
		}
		if err := r.history.Append(op); err != nil || op.Outcome == history.OK || ctx.Err() != nil {
			return err
		}
	}
}

// scan records every lock's key on every master, and every other key that has no end and should, and returns how many these are.
func (r *run) scan(ctx context.Context) (keys int, err error) {
	for _, n := range r.world.Nodes {
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
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		ttl, err := c.PTTL(ctx, keys.Val()).Result()
		if err != nil {
			return found, err
		}
		lock, ours := lockOf(keys.Val(), r.world.Locks)
		if ttl == -2 || keys.Val() == node.RecordKey || !ours && ttl >= 0 {
			continue // gone by now, or meant to stay, or not a lock's and ends
		}
		if err := r.history.Append(history.Key{Node: name, Lock: lock, At: history.Now(), TTL: ttl}); err != nil {
			return found, err
		}
		found++
	}
	return found, keys.Err()
}

// unstick deletes what was locked while a master's clock was ahead, which lasts until the clock is there again: minutes, where a lock lasts
// less than a second. It is what an operator has to do who put a clock back, and the one thing that does not heal by itself.
func (r *run) unstick(ctx context.Context) error {
	for _, n := range r.world.Nodes {
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
			return fmt.Errorf("chaos: unstick %s: %w", n.Name(), err)
		}
	}
	return nil
}

// longest is what a key of the library may last for when clocks are right (docs/operations.md).
func (r *run) longest(key string) time.Duration {
	switch {
	case strings.HasPrefix(key, "redlock:queue:"):
		return time.Minute
	case strings.HasPrefix(key, "redlock:alive:"):
		return 3 * time.Second
	}
	return r.cfg.TTL
}

// lockOf is the lock that a key belongs to, or the key itself. The queue of a lock is no vote: it may be there for longer.
func lockOf(key string, locks []string) (string, bool) {
	for _, l := range locks {
		if key == l || strings.HasPrefix(key, "{"+l+"}") {
			return l, true
		}
	}
	return key, false
}

// misconfigured opens a client as no client may be opened. See nemesis.World.
func (r *run) misconfigured(ctx context.Context, rnd *rand.Rand) error {
	good := urls(r.world.Spare[0])
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
	c, err := redlock.Open(bad, opts...)
	if err != nil {
		return nil
	}
	defer c.Close()
	// Masters that are down or recovering can refuse nobody yet. What counts is that no lock is had.
	l, err := c.Mutex("misconfigured").TryLock(ctx)
	if err == nil {
		_ = l.Unlock(ctx)
		r.faults.violation("N22", "a client with "+what+" was given a lock")
	}
	return nil
}
