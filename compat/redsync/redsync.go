// SPDX-License-Identifier: Apache-2.0

// Package redsync has the shape of github.com/go-redsync/redsync/v4, on a client of this library:
// a program changes the import and the call of New, and keeps the rest.
//
//	client, err := redlock.Open(ctx, urls) // instead of the pools
//	rs := redsync.New(client)
//	mutex := rs.NewMutex("invoice/4711", redsync.WithExpiry(8*time.Second))
//	if err := mutex.LockContext(ctx); err != nil { ... }
//	defer mutex.UnlockContext(ctx)
//
// What this library cannot do in redsync's way is not here, so that a program that uses it does not
// compile. docs/adapters.md lists all of it, with what to write instead. Do not run programs with this
// package and programs with redsync itself for the same locks.
package redsync

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlock-go/redlock/compat/internal/retries"
	"github.com/redlock-go/redlock/redlock"
)

// redsync's defaults.
const (
	defaultExpiry = 8 * time.Second
	defaultTries  = 32
	minRetryDelay = 50 * time.Millisecond
	maxRetryDelay = 250 * time.Millisecond
)

// The errors of this package. An error that wraps one of them also wraps the error of package redlock
// that is the reason. Ask for them with errors.Is: no error is equal to one of these.
var (
	// ErrFailed says that the lock was not acquired. If another holder has it, the error is an
	// [ErrTaken] as well.
	ErrFailed = errors.New("redsync: failed to acquire lock")
	// ErrExtendFailed says that the lock was not extended. It wraps redlock.ErrLost if the lock is
	// lost.
	ErrExtendFailed = errors.New("redsync: failed to extend lock")
	// ErrLockAlreadyExpired says that the lock had ended before it was unlocked, or was unlocked
	// before, or never locked.
	ErrLockAlreadyExpired = errors.New("redsync: failed to unlock, lock was already expired")
)

// ErrTaken says that another holder has the lock, or that others wait for it. Ask for a *ErrTaken with
// errors.As. It wraps [ErrFailed] and redlock.ErrHeld. The embedded RoundError says how many masters
// hold the lock for another, and who the holder is.
type ErrTaken struct{ *redlock.RoundError }

func (e ErrTaken) Error() string {
	if e.RoundError == nil {
		return "redsync: lock already taken"
	}
	return "redsync: lock already taken: " + e.RoundError.Error()
}

// Unwrap returns [ErrFailed] and the RoundError.
func (e ErrTaken) Unwrap() []error {
	if e.RoundError == nil {
		return []error{ErrFailed, redlock.ErrHeld}
	}
	return []error{ErrFailed, e.RoundError}
}

// Redsync makes mutexes on one client.
type Redsync struct{ client *redlock.Client }

// New returns a Redsync on client, which stays the caller's to close. redsync's New takes pools of
// connections to the masters; here the client has all masters.
func New(client *redlock.Client) *Redsync { return &Redsync{client} }

// NewMutex returns the mutex called name. A name or an option that cannot work is reported by Lock and
// TryLock, as redlock.ErrConfig.
func (r *Redsync) NewMutex(name string, options ...Option) *Mutex {
	m := &Mutex{
		name: name, expiry: defaultExpiry, tries: defaultTries,
		delay: func(int) time.Duration { return minRetryDelay + rand.N(maxRetryDelay-minRetryDelay) },
	}
	if r != nil {
		m.client = r.client
	}
	for _, o := range options {
		if o == nil {
			m.err = errNilOption
			continue
		}
		o.Apply(m)
	}
	return m
}

// Option is a setting of a [Mutex].
type Option interface{ Apply(*Mutex) }

// OptionFunc is a function that is an [Option].
type OptionFunc func(*Mutex)

// Apply calls f.
func (f OptionFunc) Apply(m *Mutex) {
	if f == nil {
		m.err = errNilOption
		return
	}
	f(m)
}

var errNilOption = fmt.Errorf("%w: a nil option", redlock.ErrConfig)

// WithExpiry sets how long a lock lasts that is not extended, less the drift. Default 8 s. It is the
// TTL of the lock (redlock.WithTTL). The most is the client's maximum TTL, which is 30 s unless
// redlock.WithMaxTTL says otherwise.
//
// Give all locks of one name the same TTL, a redlock.Mutex of that name too, which has 10 s by default:
// the promise of one holder rests on it (docs/safety.md section 1, g).
func WithExpiry(expiry time.Duration) Option {
	return OptionFunc(func(m *Mutex) { m.expiry = expiry })
}

// WithTries sets how often redsync would try: 1 or more, default 32. Lock does not try again and
// again. It waits in the queue of the masters for as long as the delays between so many tries last
// together, and then tries once more. With 1 it tries once, as TryLock does.
func WithTries(tries int) Option { return OptionFunc(func(m *Mutex) { m.tries = tries }) }

// WithRetryDelay sets the delay between two tries. See [WithTries]. Default: 50 to 250 ms at random.
func WithRetryDelay(delay time.Duration) Option {
	return WithRetryDelayFunc(func(int) time.Duration { return delay })
}

// A DelayFunc returns the delay before a try: 1 for the second try, and so on.
type DelayFunc func(tries int) time.Duration

// WithRetryDelayFunc sets the delay before each try. See [WithTries].
func WithRetryDelayFunc(delay DelayFunc) Option {
	return OptionFunc(func(m *Mutex) { m.delay = delay })
}

// WithLockOptions adds options of package redlock. redsync has no such option. They come after all
// others. With redlock.WithRenewal the lock is extended in the background. By default it is not, as in
// redsync.
func WithLockOptions(opts ...redlock.LockOption) Option {
	return OptionFunc(func(m *Mutex) { m.opts = append(m.opts, opts...) })
}

// Mutex is one holder of a lock by name. Make it with [Redsync.NewMutex]. Each goroutine that locks
// needs a Mutex of its own, as with redsync: what one goroutine locked with a Mutex, another can unlock
// with it. All methods are safe for concurrent use.
type Mutex struct {
	client *redlock.Client
	name   string
	expiry time.Duration
	tries  int
	delay  DelayFunc
	opts   []redlock.LockOption
	err    error // what is wrong with the options

	mu    sync.Mutex
	lease *redlock.Lease // the last one
}

// Name is the name of the lock.
func (m *Mutex) Name() string {
	if m == nil {
		return ""
	}
	return m.name
}

// Lease returns the last lease that this Mutex was granted, or nil. Its Token is the fencing token, and
// its Context ends before the lock does. redsync has no such method. Methods of a nil Lease do not
// panic.
func (m *Mutex) Lease() *redlock.Lease {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}

// Value is the id that the masters know the holder by. It is empty until a lock was acquired. Each
// acquire has another.
func (m *Mutex) Value() string { return m.Lease().Holder() }

// Until is when the lock ends that this Mutex holds, unless it is extended. It is the zero time if the
// Mutex holds none: before the first Lock, after Unlock, and after the lock was lost. redsync returns
// the last time then.
func (m *Mutex) Until() time.Time {
	lease := m.Lease()
	if lease.Err() != nil {
		return time.Time{}
	}
	return lease.ValidUntil()
}

// TryLock is [Mutex.TryLockContext] with the background context.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext tries to acquire the lock once. On an error nothing is left on a master that answered
// in time.
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.lock(ctx, 1) }

// Lock is [Mutex.LockContext] with the background context.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext waits for the lock, for as long as [WithTries] says and ctx allows. The lock outlives ctx.
// A nil ctx is the background context. Each error wraps [ErrFailed], and the error of package redlock or
// of ctx. If another holder has the lock, it is an [ErrTaken]. A Mutex that holds the lock itself waits
// like any other.
func (m *Mutex) LockContext(ctx context.Context) error {
	if m == nil {
		return m.lock(ctx, 0)
	}
	return m.lock(ctx, m.tries)
}

func (m *Mutex) lock(ctx context.Context, tries int) error {
	if err := m.check(tries); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	opts := append([]redlock.LockOption{redlock.WithTTL(m.expiry), redlock.WithoutRenewal()}, m.opts...)
	try := 0
	lease, err := retries.Lock(known(ctx), m.client, m.name, opts, func() (time.Duration, bool) {
		if try++; try >= tries {
			return 0, false
		}
		return m.delay(try), true
	})
	if err != nil {
		return lockError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = lease
	return nil
}

// check returns what is wrong with the options. Package redlock checks the others.
func (m *Mutex) check(tries int) error {
	switch {
	case m == nil, m.tries == 0 && m.delay == nil:
		return fmt.Errorf("%w: a nil or zero Mutex; make it with NewMutex", redlock.ErrConfig)
	case m.err != nil:
		return m.err
	case tries < 1:
		return fmt.Errorf("%w: %d tries: want 1 or more", redlock.ErrConfig, tries)
	case m.delay == nil:
		return fmt.Errorf("%w: a nil DelayFunc", redlock.ErrConfig)
	}
	return nil
}

// known is ctx, or the background context if ctx is nil, as in redsync.
func known(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

func lockError(err error) error {
	var round *redlock.RoundError
	if errors.Is(err, redlock.ErrHeld) && errors.As(err, &round) {
		return &ErrTaken{round}
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// Unlock is [Mutex.UnlockContext] with the background context.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext gives the lock back. It returns true if a quorum of masters dropped it. Otherwise the
// error is
//
//	ErrLockAlreadyExpired   it had ended, was unlocked before, or never locked; it wraps
//	                        redlock.ErrLost or redlock.ErrReleased in the first two cases
//	redlock.ErrUnconfirmed  too few masters answered in time; they are sent the release again
//	redlock.ErrClosed       the client was closed
//
// A ctx that has ended does not keep UnlockContext from its work.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	lease := m.Lease()
	if lease == nil {
		return false, fmt.Errorf("%w: %q was never locked by this Mutex", ErrLockAlreadyExpired, m.Name())
	}
	err := lease.Unlock(known(ctx))
	if errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrReleased) {
		err = fmt.Errorf("%w: %w", ErrLockAlreadyExpired, err)
	}
	return err == nil, err
}

// Extend is [Mutex.ExtendContext] with the background context.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext gives the lock another full expiry from now. It returns true if a quorum of masters
// still had it without a break. Otherwise the error wraps [ErrExtendFailed], and the lock ends when it
// would have ended. A lock that has ended is never acquired again by this.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	lease := m.Lease()
	if lease == nil {
		return false, fmt.Errorf("%w: %q was never locked by this Mutex", ErrExtendFailed, m.Name())
	}
	if err := lease.Extend(known(ctx)); err != nil {
		return false, fmt.Errorf("%w: %w", ErrExtendFailed, err)
	}
	return true, nil
}

// Valid is [Mutex.ValidContext].
//
// Deprecated: as in redsync. Use Until, or the Context of Lease.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext says whether this Mutex holds the lock, by what it knows. It asks no master, and the
// error is always nil. redsync asks the masters, and the answer may be out of date when it arrives.
//
// Deprecated: as in redsync. Use Until, or the Context of Lease.
func (m *Mutex) ValidContext(context.Context) (bool, error) { return m.Lease().Err() == nil, nil }
