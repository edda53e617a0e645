// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
)

// Defaults of the settings.
const (
	DefaultTTL         = 10 * time.Second
	DefaultNodeTimeout = 150 * time.Millisecond
	DefaultMaxTTL      = 30 * time.Second
	DefaultPatience    = time.Second

	// minTTL is the useful minimum: below it drift and one round trip leave
	// nothing to work with.
	minTTL = 10 * time.Millisecond
	// longest bounds TTLs and timeouts. It is there so that no sum of some of them
	// overflows: a wait that did would be over before it began.
	longest = 365 * 24 * time.Hour
)

// Option sets something for a whole client, in [Open] and [New]. Every
// [LockOption] is one too: there it sets the default of all locks.
type Option interface{ applyClient(*settings) }

// LockOption sets something for one lock, in [Client.Mutex].
type LockOption interface {
	Option
	applyLock(*lockSettings)
}

// settings of a client. Durations depend on each other: see check.
type settings struct {
	lock        lockSettings
	nodeTimeout time.Duration
	maxTTL      time.Duration
	noRecovery  bool
	// fixedMasters: the list is never changed. See WithFixedMasters.
	fixedMasters bool
	nodeCount    int // what the caller says N is; 0: an odd number of 3 or more
	drift        clock.Drift
	clock        clock.Clock
	logger       *slog.Logger
	node         node.Config
}

type lockSettings struct {
	ttl         time.Duration
	ttlSet      bool // by WithTTL; else the default, or the maximum TTL if that is shorter
	minValidity time.Duration
	fixed       bool // no renewal
	renewSet    bool
	renewEvery  time.Duration // with renewSet; else a third of the TTL
	maxHold     time.Duration // 0: renewed until unlocked
	unfair      bool
	reentrant   bool
	patience    time.Duration // of a Lock that finds no quorum
}

func defaults() settings {
	return settings{
		lock:        lockSettings{ttl: DefaultTTL, patience: DefaultPatience},
		nodeTimeout: DefaultNodeTimeout,
		maxTTL:      DefaultMaxTTL,
		drift:       clock.DefaultDrift(),
		clock:       clock.System(),
	}
}

type clientOption func(*settings)

func (f clientOption) applyClient(s *settings) { f(s) }

type lockOption func(*lockSettings)

func (f lockOption) applyClient(s *settings)   { f(&s.lock) }
func (f lockOption) applyLock(s *lockSettings) { f(s) }

// WithTTL sets how long a master keeps a vote that is not renewed, in whole
// milliseconds (the rest is cut off). Default 10 s, or the maximum TTL if that is shorter
// ([WithMaxTTL]); 10 ms to the maximum TTL. It bounds how
// long a lock stays taken after its holder died; with renewal, which is the
// default, it does not bound how long a lock can be held.
func WithTTL(ttl time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.ttl, s.ttlSet = ttl.Truncate(time.Millisecond), true })
}

// WithRenewal sets how often a lease is extended. Default: a third of the TTL,
// so that two attempts may fail before validity ends.
func WithRenewal(every time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.renewEvery, s.fixed, s.renewSet = every, false, true })
}

// WithoutRenewal makes leases that last one TTL unless Extend is called.
func WithoutRenewal() LockOption {
	return lockOption(func(s *lockSettings) { s.fixed = true })
}

// WithMaxHold ends renewal d after the lease was granted, so that a holder that
// hangs for ever does not keep the lock for ever: the lease is lost when its
// validity ends after that. Default 0: no limit.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.maxHold = d })
}

// WithMinValidity refuses a lease that has no more than d of validity left when
// it is granted. Default 0: any validity will do.
func WithMinValidity(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.minValidity = d })
}

// Unfair lets a waiting Lock take the lock whenever it finds it free, whoever
// waits longer. It is faster where holds are short, and the unlucky may wait for
// ever. Default: the masters keep a queue, and its order is the order of grants.
func Unfair() LockOption {
	return lockOption(func(s *lockSettings) { s.unfair = true })
}

// Reentrant lets a Lock, or a TryLock or Do, that is called with a context of a live lease
// of the same lock return a second lease on the same hold at once: see [Lease.Reenter].
// Default: such a call fails at once with [ErrNotReentrant]. Whoever has the context
// re-enters, so do not give it to goroutines that are to exclude each other. The option
// of the lock that is called decides; how the lease was taken does not matter.
func Reentrant() LockOption {
	return lockOption(func(s *lockSettings) { s.reentrant = true })
}

// WithPatience sets how long a Lock goes on when no quorum of masters answers, before it
// returns [ErrUnreachable]. Default 1 s, 0 to a year. With 0 the first round without a
// quorum ends the wait. A caller's patience begins with its Lock or with the outage,
// whichever is later. Masters that answer but recover or refuse are another matter: see
// [Mutex.Lock].
func WithPatience(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.patience = d })
}

// WithNodeTimeout caps how long a round waits for masters that do not answer. A
// round takes what is left of the caller's time and of the TTL, divided by the
// number of masters, at most this and at least 1 ms (Redlock page, step 2: small
// against the TTL). Default 150 ms, 1 ms to a year. A healthy round never waits for
// it.
func WithNodeTimeout(d time.Duration) Option {
	return clientOption(func(s *settings) { s.nodeTimeout = d })
}

// WithDrift sets how far clocks of clients and masters may run apart. Default
// [clock.DefaultDrift], 1 % + 2 ms. Exclusion can be broken by clocks that are
// worse than it says.
func WithDrift(d clock.Drift) Option {
	return clientOption(func(s *settings) { s.drift = d })
}

// WithNodeCount says that the client must be given exactly n masters, which may
// then be one, two or an even number, all errors without it.
//
// An even number is no mistake of safety but a waste: 4 masters need 3 votes, so
// they outlive one failure, as 3 masters do, with one more that can fail. One
// master is no quorum: the lock is then as safe as that master.
func WithNodeCount(n int) Option {
	return clientOption(func(s *settings) { s.nodeCount = n })
}

// WithMaxTTL sets the longest TTL that any lock of any client of these masters may
// have. Default 30 s, 10 ms to a year, in whole milliseconds (the rest is cut off). It is
// what a restarted master waits before it votes again, and part of the epoch: clients with
// different ones refuse to work together. Below the default TTL it is the default TTL as
// well. A [WithTTL] above it is an [ErrConfig].
func WithMaxTTL(d time.Duration) Option {
	return clientOption(func(s *settings) { s.maxTTL = d.Truncate(time.Millisecond) })
}

// WithFixedMasters says that this list of masters, with this maximum TTL and drift, is
// never changed, neither by [Reconfigure] nor by hand. Then masters that lost their
// records begin again by themselves after the wait of a restart: on first use, and when
// all of them were lost at once. Without it an operator has to say then that the list is
// still the right one ([Init]), because masters that were left long ago look the same.
// All clients must agree on it: it is part of the epoch.
func WithFixedMasters() Option {
	return clientOption(func(s *settings) { s.fixedMasters = true })
}

// WithUnsafeRecoveryOff lets masters vote right after a restart, a flush or a jump
// of their clock, without the node record that tells. THIS IS UNSAFE: one restart
// among the masters of a bare quorum lets a second holder in (docs/safety.md A7),
// and tokens may repeat. It is for masters that live for one test or benchmark.
func WithUnsafeRecoveryOff() Option {
	return clientOption(func(s *settings) { s.noRecovery = true })
}

// WithLogger has the client say what it waits for: that a Lock waits for masters that
// recover, and for how long. Default nil: the client writes nothing anywhere.
func WithLogger(l *slog.Logger) Option {
	return clientOption(func(s *settings) { s.logger = l })
}

// WithClock replaces the clock that leases are timed by. Default
// [clock.System]; [clock.Monotonic] under testing/synctest.
func WithClock(c clock.Clock) Option {
	return clientOption(func(s *settings) { s.clock = c })
}

// apply reads opts over the defaults.
func apply(opts []Option) (settings, error) {
	s := defaults()
	for _, o := range opts {
		if o == nil {
			return s, fmt.Errorf("%w: a nil option", ErrConfig)
		}
		o.applyClient(&s)
	}
	if !s.lock.ttlSet {
		s.lock.ttl = min(s.lock.ttl, s.maxTTL)
	}
	return s, s.check()
}

// check compares the settings with each other.
func (s *settings) check() error {
	switch {
	case s.clock == nil:
		return fmt.Errorf("%w: no clock", ErrConfig)
	case s.nodeTimeout < time.Millisecond || s.nodeTimeout > longest:
		return fmt.Errorf("%w: node timeout %v: want %v to %v", ErrConfig, s.nodeTimeout, time.Millisecond, longest)
	case s.nodeCount < 0:
		return fmt.Errorf("%w: node count %d: want 1 or more", ErrConfig, s.nodeCount)
	}
	if s.maxTTL < minTTL || s.maxTTL > longest {
		return fmt.Errorf("%w: maximum TTL %v: want %v to %v", ErrConfig, s.maxTTL, minTTL, longest)
	}
	if err := s.drift.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s.checkLock(&s.lock)
}

// checkLock compares a lock's settings with each other and with the client's,
// and fills in what follows from the TTL. Every message names both values.
func (s *settings) checkLock(l *lockSettings) error {
	if l.ttl < minTTL || l.ttl > longest {
		return fmt.Errorf("%w: TTL %v: want %v to %v", ErrConfig, l.ttl, minTTL, longest)
	}
	if !s.noRecovery && l.ttl > s.maxTTL {
		return fmt.Errorf("%w: TTL %v is above the maximum TTL %v of these masters: shorten it, or raise WithMaxTTL (a change of epoch, docs/operations.md)", ErrConfig, l.ttl, s.maxTTL)
	}
	drift := s.drift.Of(l.ttl)
	if l.minValidity < 0 || s.drift.Validity(l.ttl, 0) <= l.minValidity {
		return fmt.Errorf("%w: minimum validity %v: want 0 or more and less than TTL %v minus drift %v",
			ErrConfig, l.minValidity, l.ttl, drift)
	}
	if l.patience < 0 || l.patience > longest {
		return fmt.Errorf("%w: patience %v: want 0 to %v", ErrConfig, l.patience, longest)
	}
	if l.maxHold < 0 {
		return fmt.Errorf("%w: maximum hold %v: want 0 (none) or more", ErrConfig, l.maxHold)
	}
	if l.fixed {
		return nil
	}
	every := l.every()
	if every <= 0 || every >= l.ttl {
		return fmt.Errorf("%w: renewal every %v: want more than 0 and less than TTL %v (a third of it is usual)",
			ErrConfig, every, l.ttl)
	}
	if useful := s.drift.Validity(l.ttl, 0) - l.margin(); every >= useful {
		return fmt.Errorf("%w: renewal every %v comes too late: a lease of TTL %v lasts %v, after drift %v and the notice to its holder",
			ErrConfig, every, l.ttl, useful, drift)
	}
	return nil
}

// every is the renewal interval in force.
func (l *lockSettings) every() time.Duration {
	if l.renewSet {
		return l.renewEvery
	}
	return l.ttl / 3
}

// margin is how long before the end of validity the holder is told.
func (l *lockSettings) margin() time.Duration { return l.ttl/100 + time.Millisecond }
