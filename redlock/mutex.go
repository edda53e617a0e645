// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redlock-go/redlock/internal/lock/cluster"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// maxName bounds a lock's name, in bytes.
const maxName = 512

// reserved starts the keys that the library keeps for itself on the masters.
const reserved = "redlock:"

// Mutex is a lock by name. It holds no state of a hold: that is in the [Lease]
// that each Lock returns, so one Mutex may be used by many goroutines, and two of
// the same name exclude each other. It costs nothing to make and needs no close.
type Mutex struct {
	c   *Client
	l   *protocol.Lock
	ls  lockSettings
	key any   // finds a lease of the lock in a context: a leaseKey
	err error // what is wrong with name or options; every call returns it
}

// Mutex returns the lock called name: 1 to 512 bytes of UTF-8 without NUL, and
// not beginning with "redlock:"; with a Redis Cluster among the masters, {tag}:name
// with the tag that its URL has. A name or an option that cannot work is
// reported by the first call on the Mutex, as [ErrConfig].
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return c.mutex(name, protocol.Plain, opts)
}

func (c *Client) mutex(name string, mode protocol.Mode, opts []LockOption) *Mutex {
	if c.isZero() {
		return &Mutex{l: protocol.NewLock(name, mode), err: errZeroClient}
	}
	m := &Mutex{c: c, l: c.namespace.Lock(name, mode), ls: c.lock, key: leaseKey{c, name}, err: checkName(name)}
	for _, o := range opts {
		if o == nil {
			m.err = errors.Join(m.err, fmt.Errorf("%w: a nil option", ErrConfig))
			continue
		}
		o.applyLock(&m.ls)
	}
	if m.err == nil {
		m.err = c.checkSlot(name)
	}
	if m.err == nil {
		m.err = c.checkLock(&m.ls)
	}
	if m.err == nil && m.ls.MinHold != 0 && mode != protocol.Plain {
		m.err = fmt.Errorf("%w: RWMutex %q with a minimum hold of %v: only a Mutex can have one; give the RWMutex WithMinHold(0)", ErrConfig, name, m.ls.MinHold)
	}
	return m
}

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: an empty lock name", ErrConfig)
	case len(name) > maxName:
		return fmt.Errorf("%w: lock name of %d bytes: want %d or fewer; hash longer ones", ErrConfig, len(name), maxName)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: lock name %q holds a NUL", ErrConfig, name)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: lock name %q is no UTF-8; encode it", ErrConfig, name)
	case strings.HasPrefix(name, reserved):
		return fmt.Errorf("%w: lock name %q begins with %q, which is the library's own", ErrConfig, name, reserved)
	}
	return nil
}

// checkSlot returns why the lock called name cannot be on all masters, or nil.
func (c *Client) checkSlot(name string) error {
	if c.cluster && strings.HasPrefix(name, cluster.Reserved) {
		return fmt.Errorf("%w: lock name %q begins with %q, which is the library's own in a cluster", ErrConfig, name, cluster.Reserved)
	}
	if c.tag == "" || hashTag(name) == c.tag {
		return nil
	}
	return fmt.Errorf("%w: lock name %q is outside of the slot of {%s}, which is all that master %s is of its Redis Cluster; name it %q",
		ErrConfig, name, c.tag, c.tagged, "{"+c.tag+"}:"+name)
}

// hashTag is the part of a key in braces, which decides on the key's slot in a Redis Cluster. It
// is empty if there is none.
func hashTag(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(tag, "}")
	if !closed {
		return ""
	}
	return tag
}

// Name is the lock's name.
func (m *Mutex) Name() string {
	if m == nil || m.l == nil {
		return ""
	}
	return m.l.Name
}

func (m *Mutex) core() *Mutex { return m }

// check returns the error of every call: the name or an option cannot work, or no Client made m. Else it returns nil.
func (m *Mutex) check() error {
	switch {
	case m == nil || m.c == nil && m.err == nil:
		return errZeroMutex
	case m.err != nil:
		return m.err
	}
	return nil
}

// TryLock tries to take the lock now, in one round trip to all masters. It never waits
// for a holder, nor goes past callers that wait. It returns a lease, or an error that is
// one of
//
//	ErrHeld         another has it or waits for it, as a *RoundError with the votes
//	ErrUnreachable  no quorum answered, likewise
//	ErrRecovering   too many masters may not vote yet, likewise
//	ErrRefused      masters will not vote, likewise
//	ctx.Err()       the caller gave up, before or during the round
//	ErrConfig, ErrClosed, ErrNotReentrant, ErrUpgrade
//
// Callers that try at the same moment can split the votes, so that nobody has a
// quorum. TryLock then looks again after a random pause, within the node timeout, until
// somebody has the lock.
//
// A waiter whose process was killed does not count as one that waits. One whose host died, or
// cannot be reached, counts for up to 3 s after its last sign of life.
//
// On an error no master that granted in time holds anything of this attempt. A master
// that was slower, or does not answer, is sent the release until it acknowledges it or
// the TTL is over. A cancel that races a win wins: the votes are given back.
//
// A context of a lease of this lock is treated as Lock treats it.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	outer, joinWrite, err := m.outer(ctx)
	switch {
	case err != nil:
		return nil, err
	case outer != nil:
		return outer.Reenter(ctx)
	}
	began := m.c.began()
	lease, rounds, err := m.rounds(ctx, joinWrite)
	m.tellAcquired(ctx, lease, err, began, rounds, false)
	return lease, m.nameOwner(ctx, err)
}

// rounds makes one round, and further rounds as long as the votes are split. If joinWrite is not empty, it is the field of a write vote on the
// masters, which the read vote joins. n is how many rounds it made.
//
// It is not inlined, so that what it needs is not on the stack of the goroutines that wait in [Mutex.Lock].
//
//go:noinline
func (m *Mutex) rounds(ctx context.Context, joinWrite string) (lease *Lease, n int, err error) {
	lease, n, err = m.round(ctx, joinWrite)
	if round := splitRound(err); round != nil {
		return m.tryAgain(ctx, joinWrite, round)
	}
	return lease, n, err
}

// round makes one round of a caller that does not wait: see conclude. n is 0 if no master was asked, because ctx or the client is over.
func (m *Mutex) round(ctx context.Context, joinWrite string) (lease *Lease, n int, err error) {
	c := m.c
	if err := c.lines.Enter(ctx, m.l); err != nil {
		return nil, 0, err
	}
	defer c.lines.Leave()
	a := c.tries.Begin(ctx, m.l, m.ls.Settings, &protocol.Request{JoinWrite: joinWrite})
	a.Call.Send(c.masters.All)
	r := round{&a, c, &m.ls}
	lease, err = r.conclude()
	return lease, 1, err
}

// splitRound returns err if it is of a round that found the votes split, else nil.
func splitRound(err error) *RoundError {
	if round := failedRound(err); round != nil && round.split() {
		return round
	}
	return nil
}

// tryAgain makes rounds as long as the votes are split among attempts that come and go, for the node timeout or less. Pauses are random and
// double each time, because callers that met must not meet again (docs/safety.md A23). rounds counts the first one too.
func (m *Mutex) tryAgain(ctx context.Context, joinWrite string, round *RoundError) (lease *Lease, rounds int, err error) {
	began := m.c.clock.Elapsed()
	took := time.Duration(0) // by the last round: the other attempts need as long to release their votes
	rounds = 1
	for pause := 2 * waiting.PauseMin; ; pause = min(2*pause, waiting.PauseMax) {
		wait := max(waiting.PauseMin/2, 2*took) + m.c.jitter(pause)
		start := m.c.clock.Elapsed() + wait
		if start-began >= m.c.timeout() {
			return nil, rounds, round
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, rounds, gaveUp(ctx, m.l, round)
		}
		lease, n, err := m.round(ctx, joinWrite)
		rounds += n
		next := splitRound(err)
		switch {
		case next == nil:
			return lease, rounds, err
		case next.seenAgain(round):
			return nil, rounds, err
		}
		round, took = next, m.c.clock.Elapsed()-start
	}
}

// Lock waits until it has the lock or ctx ends, for the maximum wait ([WithMaxWait]) at most, and through outages of a
// second: when no quorum of masters has answered for as long as [WithOutageTimeout] says, it returns ErrUnreachable. Its errors are
// TryLock's, but for ErrHeld and ErrRecovering, which it waits out unless the maximum wait ends. When ctx ends, errors.As finds the
// last round in the error, as a *RoundError: who has the lock.
//
// Callers in one process are served in the order in which they called; processes
// in the order in which they began to wait, by a queue on the masters (not with
// [WithoutFairness]). Where all masters are at most 2 ms away, callers of one process that hold
// it for less than 0.5 ms take it over from one another, 16 at most, before the next process has its
// turn. A hold that is shorter than a trip to the masters may end before the place of the process's
// next caller is in the queue: then the lock goes to another process that waits, and then back.
//
// Else Unlock hands the lock to the next, which has it when a quorum of masters has told it
// so, and does not ask again. Where a reader gives or gets it ([RWMutex]), or its TTL is below 3 s, the
// next is told that the lock is free, and asks. So do waiters when a minimum hold ([WithMinHold]) is
// over. Should the messages get lost, a timer makes it ask. A lease that was
// handed is short at first: see [Lease.ValidUntil].
//
// With a context of a live lease of this lock, or one made from it, Lock fails at once with
// [ErrNotReentrant]: it would wait for its own caller. If the lock has [WithReentry], Lock
// returns a second lease on the same hold instead, see [Lease.Reenter]. Which goroutine
// calls does not matter. With a context of a lease that is over Lock fails with that
// lease's error, because the caller believes that it holds the lock.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	outer, joinWrite, err := m.outer(ctx)
	switch {
	case err != nil:
		return nil, err
	case outer != nil:
		return outer.Reenter(ctx)
	case joinWrite != "":
		// A downgrade waits for nobody, least of all for a writer that waits for
		// the very lease that is downgraded.
		return m.TryLock(ctx)
	case m.ls.maxWait > 0:
		return m.lockFor(ctx, m.ls.maxWait)
	}
	w := m.newWaiter()
	err = m.c.lines.Lock(ctx, &w.Caller)
	return w.ended(ctx, err)
}

// lockFor is Lock that waits for at most limit. It is not inlined, so that what it needs is not on the stack of the goroutines that wait in
// [Mutex.Lock] without a limit.
//
//go:noinline
func (m *Mutex) lockFor(ctx context.Context, limit time.Duration) (*Lease, error) {
	if limit < m.c.shortestRound() { // masters that are farther away than that would look like masters that are gone
		return m.TryLock(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := m.newWaiter()
	err := m.c.lines.Lock(bounded, &w.Caller)
	over, _ := err.(*gaveUpError)
	if over != nil && over.last == nil && ctx.Err() == nil { // no round was made in time
		var n int
		w.lease, n, err = m.rounds(ctx, "")
		w.Rounds += n
		lease, err := w.ended(ctx, err)
		return lease, m.nameOwner(ctx, err)
	}
	w.nameHolder(err)
	if over != nil && ctx.Err() != nil { // it may have ended while the holder was named, after bounded
		err, over = gaveUp(ctx, m.l, over.last), nil
	}
	if over != nil {
		err = over.last
	}
	m.tellAcquired(bounded, w.lease, err, w.began, w.Rounds, w.Waited)
	if err != nil {
		return nil, err
	}
	w.lease.rebase(ctx)
	return w.lease, nil
}

// outer finds the lease of this lock that ctx carries. It returns the lease if it is to be re-entered, or the field of its write vote if a read
// vote is to join that. It returns neither if the lock must be acquired.
func (m *Mutex) outer(ctx context.Context) (reenter *Lease, joinWrite string, err error) {
	switch err := m.check(); {
	case err != nil:
		return nil, "", err
	case ctx == nil:
		return nil, "", errNilContext
	}
	outer, _ := ctx.Value(m.key).(*Lease)
	if outer == nil {
		return nil, "", nil
	}
	held := outer.hold().Lock
	switch {
	case held.Mode == m.l.Mode && !m.ls.reentrant && outer.Err() == nil:
		if ctx.Err() != nil {
			return nil, "", gaveUp(ctx, m.l, nil)
		}
		return nil, "", fmt.Errorf("%w: %q: the context is that of its lease; use that lease (LeaseFrom), a context without it, or the option WithReentry", ErrNotReentrant, m.l.Name)
	case held.Mode == m.l.Mode:
		return outer, "", nil
	case held.Mode == protocol.Read && m.l.Mode == protocol.Write:
		if err := outer.Err(); err != nil {
			return nil, "", fmt.Errorf("redlock: upgrading %q: %w", m.l.Name, err)
		}
		return nil, "", fmt.Errorf("%w: %q: unlock the read lease first, or lock with a context without it", ErrUpgrade, m.l.Name)
	case held.Mode == protocol.Write && m.l.Mode == protocol.Read:
		if err := outer.Err(); err != nil {
			return nil, "", fmt.Errorf("redlock: downgrading %q: %w", m.l.Name, err)
		}
		return nil, held.Field(outer.hold().Holder), nil
	}
	return nil, "", fmt.Errorf("%w: %q is held as a Mutex and asked for as an RWMutex, or the other way round", ErrConfig, m.l.Name)
}
