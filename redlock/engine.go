// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/lock/inspect"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/redlock/event"
)

// Engine is for the packages of this module that stand on the lock, such as multilock and election. Your program cannot call it, because the
// type of its parameter is internal.
func Engine(engine.Key) internals { return internals{} }

// internals is what the packages that stand on the lock reach, and users do not.
type internals struct{}

// TryAll is TryLock of each locker, all of them in one round trip: what is for one
// master is sent together. Each is taken, and reported, for itself. A round that is not over after wait ends then, unless wait is shorter than any round.
func (internals) TryAll(ctx context.Context, lockers []Locker, wait time.Duration) ([]*Lease, []error) {
	return tryAll(ctx, lockers, wait)
}

// NoTime says that wait is shorter than any round over the masters of l: a Lock with such a maximum wait is TryLock.
func (internals) NoTime(l Locker, wait time.Duration) bool { return wait < l.core().c.shortestRound() }

// Settings are those options of a client that say which masters it locks on.
func (internals) Settings(opts []Option) (masters.Settings, error) {
	s, err := apply(opts)
	if err != nil {
		return masters.Settings{}, err
	}
	return *s.ofMasters(), nil
}

// Key is the same for two lockers exactly when they cannot both be held: same masters
// and same key, whatever the client and the side. Ordered as strings, keys give all
// processes one order of all locks. The locker must have passed Check.
func (internals) Key(l Locker) string {
	m := l.core()
	return m.c.epoch.masters + "\x00" + m.l.Key
}

// Check returns what is wrong with a locker's name or options, or nil: the error that
// every call of it returns.
func (internals) Check(l Locker) error { return l.core().check() }

// MaxWait is how long a Lock of the locker waits at most ([WithMaxWait]), or 0.
func (internals) MaxWait(l Locker) time.Duration { return l.core().ls.maxWait }

// LockFor is Lock with another maximum wait. If that is over already, it is TryLock.
func (internals) LockFor(ctx context.Context, l Locker, wait time.Duration) (*Lease, error) {
	m := *l.core()
	m.ls.maxWait = max(wait, 1) // 0 would be no maximum
	return m.Lock(ctx)
}

// Rand is a random number of a client's: of crypto/rand, or of the source that WithRand
// gave. The client must be one that Open or New made.
func (internals) Rand(c *Client) uint64 { return c.rand64() }

// Jitter is a random time in [0, d), of the client's source: see WithRand. d must be above 0.
func (internals) Jitter(c *Client, d time.Duration) time.Duration { return c.jitter(d) }

// WithRand is an option that takes a client's ids and the jitter of its pauses from
// next instead of crypto/rand and math/rand, so that a simulation repeats. next must be
// safe for concurrent use. Ids that repeat break exclusion.
func (internals) WithRand(next func() uint64) Option {
	return clientOption(func(s *settings) { s.node.Rand = next })
}

// ForOrder is an option for a lock that excludes nobody, and is for an order only: a holder whose process was killed loses the
// lock when the waiter that is next looks, which it does after every. Two holders are possible.
func (internals) ForOrder(every time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.forOrder = every })
}

// Renewed is an option for a lease that goes on until it is unlocked, whatever the client's default is.
func (internals) Renewed() LockOption {
	return lockOption(func(s *lockSettings) { s.Fixed, s.renewSet, s.maxHold = false, false, 0 })
}

// Abandon is Unlock of a lease that its caller never used: the lock is free, even if it has a
// minimum hold. If the lease is one of several on its hold (see [Lease.Reenter]), the others were used, and the minimum hold counts.
func (internals) Abandon(l *Lease, ctx context.Context) error { return l.abandon(ctx) }

// GaveUp is err, or the error of a caller who gave up if ctx has ended since the round that err is of. The round is in it.
func (internals) GaveUp(ctx context.Context, err error) error { return endedMeanwhile(ctx, err) }

// Hurried says whether err is of a round that no quorum of masters answered, and that had too little time to hear them because the caller's was
// nearly over, or over: what a round before it found counts for more. cut says that the caller's time was over before the round was.
func (internals) Hurried(err error) (hurried, cut bool) {
	var round *RoundError
	if !errors.As(err, &round) || !errors.Is(round, ErrUnreachable) {
		return false, false
	}
	return round.hurried, round.cut
}

// NoTTL says whether err is of a round in which a master had a key without a TTL at the lock's name.
func (internals) NoTTL(err error) bool { return errors.Is(err, errNoTTL) }

// TooLate is the error of a caller who took a lease together with others, and lost it before those were there: that of a round that a quorum granted
// too late for its TTL.
func (internals) TooLate(l *Lease) error { return l.tooLate() }

// Namespace is that of a client, or empty.
func (internals) Namespace(c *Client) string { return string(c.namespace) }

// LogPanic logs with a client's logger, if it has one, that a function of the program panicked
// with p and is not called any more. The function that recovered p calls it.
func (internals) LogPanic(c event.Client, what string, p any) (logged bool) {
	own, ok := c.(*Client)
	return ok && own.logPanic(what, p)
}

// Serving is a context that ends when a client's Shutdown or Close begins, with the error of calls
// for a lock as its cause.
func (internals) Serving(c *Client) context.Context { return c.serving }

// Stays has a Shutdown or a Close of the client that has not begun wait until done is called, and says so. It returns false if one has begun, which
// waits for nobody.
func (internals) Stays(c *Client) (stays bool, done func()) {
	if c.lines.Enter(context.Background(), nil) != nil {
		return false, func() {}
	}
	return true, c.lines.Leave
}

// Carries says whether ctx is the context of a lease of l's hold, or one made of it.
func (internals) Carries(ctx context.Context, l *Lease) bool { return l.carriedBy(ctx) }

// Asked says whether a context that carries l is asked for l by that key.
func (internals) Asked(l *Lease, key any) bool { return l.asked(key) }

// Detached is ctx for the release of a lease: without the cancel if the end of the lease cancels it, or if it is cancelled already.
func (internals) Detached(ctx context.Context, l *Lease) (context.Context, context.CancelFunc) {
	return l.detached(ctx)
}

// Voters are the names of the masters that are known to have given a lease their votes.
func (internals) Voters(l *Lease) (names []string) {
	votes, _, _ := l.hold().Voters()
	for i, n := range l.c.masters.Nodes {
		if votes>>i&1 == 1 {
			names = append(names, n.Name())
		}
	}
	return names
}

// StartAnnouncing says whether the caller is to announce a lease, until Retract. It is not if a term of another lease of the same hold is announced:
// the masters keep one announcement for both.
func (internals) StartAnnouncing(l *Lease) bool { return !l.hold().Announces(true) }

// Announce tells the masters what the holder of a lease says about itself, for
// Client.Inspect. It waits until a quorum has it, or for the node timeout, or until ctx
// ends. The masters forget it, so the caller announces again after the time that it returns.
func (internals) Announce(ctx context.Context, l *Lease, since time.Time, value string) (again time.Duration) {
	again, lives := inspect.Again(l.hold().Terms.TTL)
	if l.Err() == nil {
		l.announce(ctx, since, value, lives)
	}
	return again
}

// Retract takes back what was announced for a lease, and for no other. It does not wait.
func (internals) Retract(l *Lease) {
	h := l.hold()
	l.c.asker.Retract(h.Lock, h.Holder, h.Terms.TTL)
	h.Announces(false) // not before that is on its way, ahead of what others announce then
}

// Observe subscribes to the announcements for the lock of that name. changed holds a token when
// one may have changed, or a message may have been missed. It is closed with the client. stop
// ends it.
func (internals) Observe(c *Client, name string) (changed <-chan struct{}, stop func()) {
	return c.watchers.Watch(name)
}

func (l *Lease) announce(ctx context.Context, since time.Time, value string, lives time.Duration) {
	h := l.hold()
	l.c.asker.Announce(ctx, &inspect.Announcement{Lock: h.Lock, Holder: h.Holder, Token: h.Token, Since: since, Value: value}, lives)
}
