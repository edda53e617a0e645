// SPDX-License-Identifier: Apache-2.0

// Package hook lets packages multilock and election, and simulations, reach functions of
// package redlock that are not for its users. Package redlock sets them when it is initialised. This
// package cannot name redlock's types, because redlock imports it: each comment gives the
// type to assert.
package hook

var (
	// TryAll is TryLock of each locker, all of them in one round trip: what is for one
	// master is sent together. Each is taken, and reported, for itself.
	//
	//	func(ctx context.Context, lockers []redlock.Locker) ([]*redlock.Lease, []error)
	TryAll any
	// Settings are those options of a client that say which masters it locks on.
	//
	//	func([]redlock.Option) (masters.Settings, error)
	Settings any
	// Key is the same for two lockers exactly when they cannot both be held: same masters
	// and same key, whatever the client and the side. Ordered as strings, keys give all
	// processes one order of all locks. The locker must have passed Check.
	//
	//	func(redlock.Locker) string
	Key any
	// Check returns what is wrong with a locker's name or options, or nil: the error that
	// every call of it returns.
	//
	//	func(redlock.Locker) error
	Check any
	// Rand is a random number of a client's: of crypto/rand, or of the source that WithRand
	// gave. The client must be one that Open or New made.
	//
	//	func(*redlock.Client) uint64
	Rand any
	// WithRand is an option that takes a client's ids and the jitter of its pauses from
	// next instead of crypto/rand and math/rand, so that a simulation repeats. next must be
	// safe for concurrent use. Ids that repeat break exclusion.
	//
	//	func(next func() uint64) redlock.Option
	WithRand any
	// ForOrder is an option for a lock that excludes nobody, and is for an order only: a holder whose process was killed loses the
	// lock when the waiter that is next looks, which it does after every. Two holders are possible.
	//
	//	func(every time.Duration) redlock.LockOption
	ForOrder any
	// Abandon is Unlock of a lease that its caller never used: the lock is free, even if it has a
	// minimum hold.
	//
	//	func(l *redlock.Lease, ctx context.Context) error
	Abandon any
	// Namespace is that of a client, or empty.
	//
	//	func(*redlock.Client) string
	Namespace any
	// LogPanic logs with a client's logger, if it has one, that a function of the program panicked
	// with p and is not called any more. The function that recovered p calls it.
	//
	//	func(c event.Client, what string, p any) (logged bool)
	LogPanic any
	// Serving is a context that ends when a client's Shutdown or Close begins, with the error of calls
	// for a lock as its cause.
	//
	//	func(*redlock.Client) context.Context
	Serving any
	// Voters are the names of the masters that are known to have given a lease their votes.
	//
	//	func(*redlock.Lease) []string
	Voters any
	// Announce tells the masters what the holder of a lease says about itself, for
	// redlock.Client.Inspect. It waits until a quorum has it, or for the node timeout, or until ctx
	// ends. The masters forget it, so the caller announces again after the time that it returns.
	//
	//	func(ctx context.Context, lease *redlock.Lease, since time.Time, value string) (again time.Duration)
	Announce any
	// Retract takes back what was announced for a lease that was unlocked. It does not wait.
	//
	//	func(*redlock.Lease)
	Retract any
	// Observe subscribes to the announcements for the lock of that name. changed holds a token when
	// one may have changed, or a message may have been missed. It is closed with the client. stop
	// ends it.
	//
	//	func(client *redlock.Client, name string) (changed <-chan struct{}, stop func())
	Observe any
	// Jitter is a random time in [0, d), of the client's source: see WithRand. d must be above 0.
	//
	//	func(client *redlock.Client, d time.Duration) time.Duration
	Jitter any
)

// LeaseKey is the context key of the innermost lease. See redlock.LeaseFrom.
type LeaseKey struct{}
