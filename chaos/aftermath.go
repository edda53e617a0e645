// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/nemesis"
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

// LongestTTL and LongestMaxTTL are the most that the command line takes for a run on real masters. A client may sleep for a tenth of a TTL after it was told to
// end, and then has 10 s. The probes wait for a maximum TTL and a TTL, and the last keys for another TTL: with more, a run in which nothing is
// wrong could need more than aftermathTime.
const (
	LongestTTL    = 30 * time.Second
	LongestMaxTTL = time.Minute
)

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
	if err := r.readRegisters(ctx); err != nil {
		return err
	}
	return r.settle(ctx)
}

// awaitGrants waits until the clients have said of every lock that it was granted again. It is in the place of the probes if the clients are
// a program of the user's, because only that program knows how its locks are taken. The grants are recorded as probes.
func (r *run) awaitGrants(ctx context.Context) error {
	call, healed := history.Now(), time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.aftermathBound())
	defer cancel()
	probe := func(name string, outcome history.Outcome, why string) error {
		return r.history.Append(history.Op{Kind: history.KindProbe, Client: "harness." + name, Lock: name, Call: call, Return: history.Now(), Outcome: outcome, Error: why})
	}
	var errs []error
	stuck := slices.Clone(r.target.Locks)
	for over := false; !over; { // the last look is at the end
		over = ctx.Err() != nil
		stuck = slices.DeleteFunc(stuck, func(name string) bool {
			if !r.tookAfter(name, healed) {
				return false
			}
			errs = append(errs, probe(name, history.OK, ""))
			return true
		})
		if over = over || len(stuck) == 0; !over {
			sleep(ctx, settleEvery/10)
		}
	}
	for _, name := range stuck {
		errs = append(errs, probe(name, history.Failed, "not taken"))
	}
	return errors.Join(errs...)
}

// tookAfter reports whether a client said after the instant that it was granted the lock.
func (r *run) tookAfter(name string, instant time.Time) bool {
	return slices.ContainsFunc(r.clients, func(s *clientSlot) bool { return s.now().Took(name).After(instant) })
}

// settle scans the keys until no vote and no sign of life is left. No client is left that could renew one. A key that is left after a TTL and
// aftermathBound would stay for ever; the scans have recorded it, and the checkers report it.
func (r *run) settle(ctx context.Context) error {
	return r.inTime(ctx, func() (done bool, err error) {
		left, err := r.scan(ctx)
		if ctx.Err() != nil {
			err = fmt.Errorf("chaos: interrupted: %w", context.Cause(ctx))
		}
		return left == 0, err
	})
}

// inTime does f until that is done, for a TTL and aftermathBound at most, and again where a master does not answer it in time: nothing strikes
// the masters any more, so the machine is busy.
func (r *run) inTime(ctx context.Context, f func() (done bool, err error)) error {
	for end := time.Now().Add(r.cfg.TTL + r.aftermathBound()); ; sleep(ctx, settleEvery) {
		over := time.Now().After(end)
		done, err := f()
		if ctx.Err() != nil || over || !late(err) && (done || err != nil) {
			return err
		}
	}
}

// late says whether a master did not answer in time.
func late(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// admin runs f as an administrator on a master, again while that does not answer in time.
func (r *run) admin(ctx context.Context, n *nemesis.Node, f func(context.Context, *redis.Client, int) error) error {
	return r.inTime(ctx, func() (bool, error) { return true, n.Admin(ctx, f) })
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
	if workload.ReadWrite(strings.TrimPrefix(name, r.cfg.Prefix)) {
		m = r.locks.RWMutex(name).Locker()
	}
	for {
		op := history.Op{Kind: history.KindProbe, Client: client, Lock: name, Call: history.Now()}
		l, err := m.Lock(ctx)
		op.Return = history.Now()
		op.Outcome = history.OK
		if err != nil {
			op.Outcome, op.Error = history.Failed, "not taken"
		} else if err := l.Unlock(ctx); errors.Is(err, redlock.ErrLost) { // the machine was held up for a TTL: whether it can be given back was not seen
			op.Outcome, op.Error = history.Failed, "not given back in time"
		} else if err != nil && !errors.Is(err, redlock.ErrUnconfirmed) {
			return fmt.Errorf("chaos: unlock %q after the faults: %w", name, err)
		}
		if err := r.history.Append(op); err != nil || op.Outcome == history.OK || ctx.Err() != nil {
			return err
		}
	}
}

// scan records the keys on every master that should end: keys of locks, and other keys without a TTL. It does not record a master's node
// record, which has no TTL on purpose. It records queues and signs of life too. It returns how many keys it recorded, without queues.
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

// scanNode records the keys of one master. It reads the TTL and the ids in each key in one transaction. Only this library keeps ids in a key
// named like a lock: Config.Client may be of another one, so a key of another type is recorded without ids.
func (r *run) scanNode(ctx context.Context, name string, c *redis.Client) (found int, err error) {
	names, err := keysOf(ctx, c, r.keyPattern())
	if err != nil {
		return 0, err
	}
	at := history.Now()
	keys, ours := make([]history.Key, len(names)), make([]bool, len(names))
	ttls, ids := make([]*redis.DurationCmd, len(names)), make([]*redis.StringSliceCmd, len(names))
	_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range names {
			keys[i], ours[i] = r.describe(key)
			ttls[i] = p.PTTL(ctx, key)
			switch {
			case keys[i].What == history.KeyQueue:
				ids[i] = p.ZRange(ctx, key, 0, -1)
			case keys[i].What == history.KeyVotes && ours[i] && key == keys[i].Lock:
				ids[i] = p.HKeys(ctx, key)
			}
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return 0, err
	}
	for i, k := range keys {
		k.Node, k.At, k.TTL = name, at, ttls[i].Val()
		if k.TTL == -2 || names[i] == protocol.RecordKey || !ours[i] && k.TTL >= 0 {
			continue // the key is gone, is the node record, or is none of a lock or a client and has a TTL
		}
		if ids[i] != nil {
			k.Holders = strings.Join(holders(ids[i].Val()), ", ")
		}
		if err := r.history.Append(k); err != nil {
			return found, err
		}
		if k.What != history.KeyQueue { // a place may be left for the TTL of the queue
			found++
		}
	}
	return found, nil
}

// holders returns the ids of holders among the fields of a lock's hash.
func holders(fields []string) (ids []string) {
	for _, field := range fields {
		if field != "mode" {
			ids = append(ids, strings.TrimSuffix(field, ":write"))
		}
	}
	return ids
}

// keysOf returns the names of the keys of a master that match.
func keysOf(ctx context.Context, c *redis.Client, pattern string) (names []string, err error) {
	keys := c.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		names = append(names, keys.Val())
	}
	return names, keys.Err()
}

// queuePrefix begins the name of a queue: the name of the lock follows, in braces.
const queuePrefix = "redlock:queue:"

// describe returns what the name of a key says about it, and whether it is of a lock or of a client.
func (r *run) describe(key string) (k history.Key, ours bool) {
	if lock, ok := strings.CutPrefix(key, queuePrefix); ok {
		return history.Key{Lock: strings.Trim(lock, "{}"), What: history.KeyQueue}, true
	}
	if id, ok := strings.CutPrefix(key, SignOfLife); ok {
		return history.Key{Lock: key, What: history.KeyAlive, Holders: id}, true
	}
	k.Lock, ours = lockOf(key, r.target.Locks)
	return k, ours
}

// deleteStuck deletes keys that were set while a master's clock was ahead. Such a key expires when the clock is there again: after minutes,
// where a lock lasts less than a second. An operator who puts a clock back has to do the same. Every other fault heals by itself.
func (r *run) deleteStuck(ctx context.Context) error {
	for _, n := range r.target.Nodes {
		err := r.admin(ctx, n, func(ctx context.Context, c *redis.Client, _ int) error {
			keys, err := keysOf(ctx, c, r.keyPattern())
			if err != nil {
				return err
			}
			for _, key := range keys {
				ttl, err := c.PTTL(ctx, key).Result()
				if err == nil && ttl > r.longest(key) {
					err = c.Del(ctx, key).Err()
				}
				if err != nil {
					return err
				}
			}
			return nil
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
	case strings.HasPrefix(key, queuePrefix):
		return time.Minute
	case strings.HasPrefix(key, SignOfLife):
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
