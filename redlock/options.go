// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/hostpid"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// Defaults of the settings.
const (
	DefaultTTL           = 10 * time.Second
	DefaultNodeTimeout   = protocol.DefaultNodeTimeout // 150 ms
	DefaultMaxTTL        = 30 * time.Second
	DefaultOutageTimeout = time.Second

	// minTTL is the shortest TTL. With a shorter TTL, drift and one round trip leave no
	// validity.
	minTTL = 10 * time.Millisecond
	// longest bounds TTLs and timeouts, so that no sum of them overflows. A wait whose
	// length overflowed would end at once.
	longest = 365 * 24 * time.Hour
)

// Option is a setting of a client, for [Open], [New] and admin.List. Every [LockOption] is an
// Option too: as such it sets the default for all locks of the client. If an option is given
// twice, the last one counts. A value out of range makes Open and New fail with [ErrConfig].
type Option interface{ applyClient(*settings) }

// LockOption is a setting of one lock, for [Client.Mutex] and [Client.RWMutex]. It replaces the
// client's default. A value out of range makes every call on that lock fail with [ErrConfig].
type LockOption interface {
	Option
	applyLock(*lockSettings)
}

// settings are the settings of a client. The durations must fit each other: see check.
type settings struct {
	lock           lockSettings
	nodeTimeout    time.Duration
	nodeTimeoutSet bool // WithNodeTimeout was given: trips do not change it
	maxTTL         time.Duration
	noRecovery     bool
	// fixedMasters says that the list of masters is never changed. See WithFixedMasters.
	fixedMasters bool
	cluster      bool // the masters are one Redis Cluster. See OpenCluster.
	nodeCount    int  // how many masters there must be; 0: an odd number of 3 or more
	drift        clock.Drift
	clock        clock.Clock
	logger       *slog.Logger
	owner        string           // what others are told of this client; empty: nothing
	ownerSet     bool             // WithClientName was given
	told         []event.Observer // what the client does
	node         node.Config
	namespace    protocol.Namespace
	namespaceSet bool // WithNamespace was given
}

type lockSettings struct {
	attempt.Settings
	ttlSet     bool // WithTTL was given
	renewSet   bool
	renewEvery time.Duration // with renewSet; else a third of the TTL
	maxHold    time.Duration // 0: no limit
	unfair     bool
	forOrder   time.Duration // not 0: see internals.ForOrder
	adopted    bool          // the lease is another's, of which nobody knows whether its lock rests
	reentrant  bool
	patience   time.Duration // how long Lock goes on without a quorum
	maxWait    time.Duration // 0: until the context ends
}

func defaults() settings {
	return settings{
		lock:        lockSettings{Settings: attempt.Settings{TTL: DefaultTTL}, patience: DefaultOutageTimeout},
		nodeTimeout: DefaultNodeTimeout,
		maxTTL:      DefaultMaxTTL,
		drift:       clock.DefaultDrift(),
		clock:       clock.System(),
		owner:       hostpid.Name(),
	}
}

type clientOption func(*settings)

func (f clientOption) applyClient(s *settings) { f(s) }

type lockOption func(*lockSettings)

func (f lockOption) applyClient(s *settings)   { f(&s.lock) }
func (f lockOption) applyLock(s *lockSettings) { f(s) }

// WithTTL sets how long a master keeps a vote that is not renewed. Default 10 s, or the
// maximum TTL if that is shorter. The range is 10 ms to the maximum TTL ([WithMaxTTL]).
// Fractions of a millisecond are cut off.
//
// The TTL bounds how long a lock stays taken after its holder died. Leases are renewed by
// default, so the TTL does not bound how long a lock can be held.
//
// Give all locks of one name the same TTL, the read and the write side of an RWMutex too: the promise of one holder rests on it
// (docs/safety.md section 1, g).
func WithTTL(ttl time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.TTL, s.ttlSet = cut(ttl), true })
}

// cut removes the fraction of a millisecond. A TTL that is refused stays as the caller gave it, for the error.
func cut(ttl time.Duration) time.Duration {
	if ttl < minTTL {
		return ttl
	}
	return ttl.Truncate(time.Millisecond)
}

// WithRenewal sets how often the client extends a lease in the background. Default: a third
// of the TTL, so that two attempts may fail before validity ends. The interval must be 1 ms or more
// and end before the holder would be told that the lease is lost (see [Lease.Context]).
// WithRenewal undoes an earlier [WithoutRenewal].
func WithRenewal(every time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.renewEvery, s.Fixed, s.renewSet = every, false, true })
}

// WithoutRenewal switches renewal off. A lease then lasts for one TTL, less drift, unless the
// caller calls [Lease.Extend]. Default: the client renews leases. See [WithRenewal].
func WithoutRenewal() LockOption {
	return lockOption(func(s *lockSettings) { s.Fixed = true })
}

// WithMaxHold makes the client stop renewing a lease when d has passed since the round that
// won it began. The lease is lost when its validity ends after that, a TTL later at most. So a holder that hangs does not
// keep the lock for ever. With a d of a second or less a lease that was handed over ends 2 to 3 s after its grant. Default 0: no limit. Else d must be 1 ms or more.
// [Lease.Extend] works beyond the limit.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.maxHold = d })
}

// WithMinHold makes a lock stay taken until d has passed since it was granted. [Lease.Unlock] then
// ends the lease and returns at once, and the masters free the lock when d is over. So work that takes a moment is not done again by the next host
// whose timer fires a little later. Default 0: Unlock frees the lock. The range is 0 to a year. See [Client.Every] for a function
// that is to run at most once a period.
//
// A grant of such a lock takes one more trip: each master that gave its vote has the lock rest for d, which is a key of its own beside the
// vote. A quorum of masters must confirm that before Lock returns, so d holds even if the process dies right after. If too few
// confirm it, the round fails with [ErrUnreachable], and the rests are taken back as soon as the masters can be reached. If the process
// ends before that, the lock may rest although nobody had it.
//
// Waiters are told how long the lock rests, and ask when that is over. The masters measure d, on clocks that may run apart
// from this host's by the drift.
//
// The lock rests while a quorum of masters knows it. A master that loses its data forgets it, once it has waited as after a restart. One that was
// out of reach at the grant, or had voted for another caller that asked at the same moment, never knew it. Such masters vote for others. So a d that
// is longer than the maximum TTL needs masters that keep their data. A change of masters (admin.Reconfigure), a list that is begun again (admin.Init,
// where no quorum votes) and [Client.ForceUnlock] end a rest. A Redisson client does not know rests, and can take the lock.
//
// A lock with [WithReentry] counts d from its first lease. Only a [Mutex] can have a minimum hold: calls of an [RWMutex] fail
// with [ErrConfig], and so does [Open] when WithMinHold is to be a client's default.
func WithMinHold(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.MinHold = d })
}

// WithMinValidity makes a round fail if the lease would have d or less of validity left when it
// is granted. The votes are then released, and [RoundError] has Elapsed set. Default 0. The
// range is 0 to less than the TTL minus drift. A waiting Lock that was handed too little asks the
// masters once more, and then has the whole TTL.
func WithMinValidity(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.MinValidity = d })
}

// WithoutFairness lets a waiting Lock take the lock whenever it is free, past callers that have waited
// longer. A release hands the lock to the first in the masters' queue, so while anybody waits it is
// free only when a holder has died, or when the first could not be handed it (a reader, a TTL below
// 3 s). A reader of an RWMutex passes no writer that waits. Default: the masters grant the lock in
// the order of the queue.
func WithoutFairness() LockOption {
	return lockOption(func(s *lockSettings) { s.unfair = true })
}

// WithReentry allows re-entry. If Lock, TryLock or Do is called with the context of a live lease
// of the same lock, it returns a second lease on the same hold at once: see [Lease.Reenter].
// Default: such a call fails at once with [ErrNotReentrant].
//
// Every goroutine that has the context can re-enter. Do not give the context to goroutines
// that must exclude each other. The option of the Mutex that is called decides. The options
// that the first lease was taken with do not matter.
func WithReentry() LockOption {
	return lockOption(func(s *lockSettings) { s.reentrant = true })
}

// WithOutageTimeout sets how long a Lock goes on while no quorum of masters answers. After that
// Lock returns [ErrUnreachable]. Default 1 s. The range is 0 to a year. With 0, the first round
// without a quorum ends the wait. The time counts from the call of Lock or from the
// beginning of the outage, whichever is later. A Lock that waits for another's lock finds an outage when it asks
// next, after up to 2 s: then it returns up to 2 s later than that.
//
// The time does not concern masters that answer, but recover or refuse: see [Mutex.Lock].
func WithOutageTimeout(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.patience = d })
}

// WithMaxWait makes a Lock wait for d at most, I/O included and a few milliseconds for giving back excluded. After that it returns what the
// last round found: [ErrHeld], [ErrUnreachable] or [ErrRecovering], as a [RoundError]. So a program tells a lock that is held from a
// caller who gave up: that is the context's own error. Default 0: no such limit. An outage that lasts longer than [WithOutageTimeout] ends the wait
// sooner, with or without a maximum. The range is 0 to a year.
//
// It is for everything that waits for a lock: Lock, RLock, Do and RDo, and the calls of the packages that stand on the lock. The whole of a
// multilock waits for the shortest d of its members. A flight.Do, which may wait twice, waits for d in all.
//
// When no round was made within d, Lock makes one all the same, as TryLock does, which may take the node timeout: it never calls a lock
// held that no quorum of masters said is held. If d is shorter than two trips to a quorum of the masters, or than 1 ms, Lock is TryLock, because
// masters that have no time to answer look like masters that are gone.
func WithMaxWait(d time.Duration) LockOption {
	return lockOption(func(s *lockSettings) { s.maxWait = d })
}

// WithNodeTimeout sets the longest time that a round waits for masters that do not answer.
// The range is 1 ms to a year. Default: three round trips to the farthest master of the nearest quorum, at
// least 150 ms, and at most the larger of 150 ms and the client's TTL divided by the number of masters. Masters that are down, and a
// minority that is farther away, do not count. A WithNodeTimeout is not changed: it must be longer than two round trips, because an op may have to wait for
// the one ahead of it. If the time is too short for the trips, the log says so. Nodes that [New] is given have limits of their own: for
// a longer time than 2 s they need a [node.Config] with a StallAfter of that time, or a longer IOTimeout. A master behind Sentinel or Cluster that
// is silent for 2 s is taken for gone in any case.
//
// A round waits for the caller's remaining time or the TTL, whichever is less, divided by the
// number of masters. It waits for 1 ms or more, and for the node timeout or less. So the wait
// is short against the TTL (Redlock page, step 2), and leaves a caller time for further rounds. If
// the caller's time is short against the trips, a round waits for three trips, or for all that is left.
// A round that a quorum grants ends with the answer that completes the quorum.
func WithNodeTimeout(d time.Duration) Option {
	return clientOption(func(s *settings) { s.nodeTimeout, s.nodeTimeoutSet = d, true })
}

// WithDrift sets how far the clocks of clients and masters may run apart. Default
// [clock.DefaultDrift], 1 % + 2 ms. If clocks run apart by more than that, two holders are
// possible. The drift is part of the epoch: clients with different values refuse to work
// together.
func WithDrift(d clock.Drift) Option {
	return clientOption(func(s *settings) { s.drift = d })
}

// WithNodeCount makes Open and New fail unless the list has exactly n masters. Default 0: the
// list must have an odd number of masters, 3 or more. Only with WithNodeCount may a client have
// one, two or an even number of masters. The most is 63.
//
// An even number is safe, but it is a waste. 4 masters need 3 votes, so they outlive one
// failure, as 3 masters do, and there is one more master that can fail. With one master the
// lock is as safe as that master.
func WithNodeCount(n int) Option {
	return clientOption(func(s *settings) { s.nodeCount = n })
}

// WithMaxTTL sets the longest TTL that any lock of any client of these masters may have.
// Default 30 s. The range is 10 ms to a year. Fractions of a millisecond are cut off.
//
// A restarted master waits for the maximum TTL, and twice its drift, before it votes again. The
// maximum TTL is part of the epoch: clients with different values refuse to work together. If
// it is below [DefaultTTL], it is the default TTL too. A [WithTTL] above it is an [ErrConfig].
func WithMaxTTL(d time.Duration) Option {
	return clientOption(func(s *settings) { s.maxTTL = cut(d) })
}

// maxNamespace bounds the name of a namespace, in bytes.
const maxNamespace = 64

// WithNamespace gives the client locks of its own: every key and every channel that it uses begins
// with redlock:ns:NAMESPACE: or has that behind the first words that Redisson's layout demands.
// Clients of different namespaces, and clients without one, never have a lock in common, whatever
// its name. So several teams can use the same masters, each with a Redis user that can touch
// nothing of the others (docs/operations.md, "Namespaces").
//
// The namespace has its own record on each master, with its own epoch, recovery and counters.
// admin.Init, Reconfigure and ReadStatus need the option too, and each namespace needs its own
// Init. All clients that are to exclude each other must have the same namespace.
//
// The name has 1 to 64 bytes: letters, digits, '-', '_' and '.'. Default: no namespace, and keys
// as Redisson names them. Redisson reaches a lock of a namespace by its whole key.
func WithNamespace(namespace string) Option {
	return clientOption(func(s *settings) { s.namespace, s.namespaceSet = protocol.Namespace(namespace), true })
}

// checkNamespace returns what is wrong with the name of a namespace, or nil. A name must be the
// same text in a key, in a hash tag and in a pattern of an ACL, and must not contain the colon
// that ends it: else one namespace could be within another.
func checkNamespace(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: an empty namespace; leave WithNamespace out for locks without one", ErrConfig)
	case len(name) > maxNamespace:
		return fmt.Errorf("%w: namespace %q has %d bytes: want %d or fewer", ErrConfig, name, len(name), maxNamespace)
	}
	for _, r := range name {
		if !strings.ContainsRune(namespaceRunes, r) {
			return fmt.Errorf("%w: namespace %q contains %q: want letters, digits, '-', '_' and '.'", ErrConfig, name, r)
		}
	}
	return nil
}

const namespaceRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// WithFixedMasters says that this list of masters, with this maximum TTL and drift, is never
// changed, neither by admin.Reconfigure nor by hand. Masters without a record then begin to vote by
// themselves after the wait of a restart: on first use, and after all of them lost their
// records at once.
//
// Without WithFixedMasters the operator must then call admin.Init, which says that the list is
// still the right one. The client cannot know that: masters that another list has replaced look
// the same. The option is part of the epoch, so all clients must have it or none.
func WithFixedMasters() Option {
	return clientOption(func(s *settings) { s.fixedMasters = true })
}

// WithUnsafeRecoveryOff lets masters vote right after a restart, a flush or a jump of their
// clock. The masters then keep no node record, and need no admin.Init. THIS IS UNSAFE: if a lock has
// a bare quorum of votes and one of those masters restarts, a second holder can get the lock
// (docs/safety.md A7), and tokens may repeat. Use it for masters that live for one test or
// benchmark. [WithMaxTTL] then does not limit [WithTTL].
func WithUnsafeRecoveryOff() Option {
	return clientOption(func(s *settings) { s.noRecovery = true })
}

// WithLogger makes the client log what an operator asks for first: a master that is down, recovers
// (and for how long), refuses, or votes again; a lease that is lost, and why; what a Lock waits for,
// if it waits for masters that recover or for 10 s; that [Open] waits for a quorum; a clock that
// jumped; a new epoch. A line names the lock. Lines about masters, about leases, about waits and about clocks have a limit of
// 10 at once and one a second for each of these four; the next line says how many were left out. The client waits for the logger's handler,
// so it must not block. Default nil: the client logs nothing. See docs/observe.md.
func WithLogger(l *slog.Logger) Option {
	return clientOption(func(s *settings) { s.logger = l })
}

// WithClientName labels the client, for people: "billing/pod-7". [Client.Inspect] shows the label of a
// holder and of a waiter, and the client's connections have it as their name on the masters (CLIENT
// LIST). Default: the host and the id of the process, "host/pid", as redlock run has it. Empty: no
// label. If the URL of a master or the go-redis client for it has a name, the connections to that
// master have that one.
//
// A TryLock of a client that was given a label, and which fails with [ErrHeld], asks the masters for the
// holder's label, which costs a trip: see Owner of [RoundError]. With the default it does not ask. A
// Lock whose time is over always asks who has the lock.
//
// A label is up to 128 bytes of printable ASCII without spaces. It need not be unique, and proves
// nothing. The client tells it to each master when it connects, and every 15 to 20 s. It is not in
// the locks: a lock and unlock cost the same with it.
func WithClientName(label string) Option {
	return clientOption(func(s *settings) { s.owner, s.ownerSet = label, true })
}

// WithClock sets the clock by which the client times leases. Default [clock.System]. Use
// [clock.Monotonic] under testing/synctest. A nil clock is an [ErrConfig]. Nodes that [New] is given must have the same clock in
// their [node.Config]: by another clock a request looks late, and is not sent, or is sent although it is late.
func WithClock(c clock.Clock) Option {
	return clientOption(func(s *settings) { s.clock = c })
}

// WithObserver has o told what the client does. Given several times, all of them are told, in that
// order. The client copies o. Default: nobody. A nil o changes nothing.
func WithObserver(o *event.Observer) Option {
	return clientOption(func(s *settings) {
		if o != nil {
			s.told = append(s.told[:len(s.told):len(s.told)], *o)
		}
	})
}
