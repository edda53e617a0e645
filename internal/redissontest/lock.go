// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"context"
	"strconv"
	"time"
)

// Kind says which of Redisson's locks is meant.
type Kind string

// The kinds. The first four live on the one master that Lock.Master names.
const (
	Plain    Kind = "plain"    // getLock
	Fair     Kind = "fair"     // getFairLock
	Read     Kind = "read"     // getReadWriteLock, its read side
	Write    Kind = "write"    // getReadWriteLock, its write side
	Multi    Kind = "multi"    // getMultiLock over plain locks of all Names, on one master
	Red      Kind = "red"      // getRedLock over plain locks of one name, one on each master
	RedRead  Kind = "redread"  // getRedLock over read sides, one on each master
	RedWrite Kind = "redwrite" // getRedLock over write sides, one on each master
)

// Lock names one Java lock.
type Lock struct {
	Kind   Kind
	Names  []string // one, but for Multi
	Master int      // index into Config.Masters; of no meaning to the Red kinds
}

// Handle is one lock in the hands of one Java thread: in Redisson the thread is the owner, so a lock taken through a
// handle is given back, or taken again, only through a handle of the same session and lock. All methods may be called
// by any goroutine; the thread does one call after the other, in the order they were sent. A context that ends
// abandons the answer, not the call: Java goes on, and may still take the lock.
type Handle struct {
	peer    *Peer
	session string
	lock    Lock
}

// Handle gives lock into the hands of the thread called session, which is started at its first call.
func (p *Peer) Handle(session string, lock Lock) Handle {
	return Handle{peer: p, session: session, lock: lock}
}

// Lock waits for the lock. A lease of 0 leaves it to the watchdog, which renews it until Unlock or the end of the peer.
// It was held from Reply.Ended on.
func (h Handle) Lock(ctx context.Context, lease time.Duration) (Reply, error) {
	return h.do(ctx, Request{Op: "lock", Lease: lease})
}

// TryLock waits at most for wait, in whole milliseconds, and says whether the lock is held now. With wait and lease 0
// it is Java's tryLock() without arguments. See Lock for the lease.
func (h Handle) TryLock(ctx context.Context, wait, lease time.Duration) (held bool, reply Reply, err error) {
	reply, err = h.do(ctx, Request{Op: "tryLock", Wait: wait, Lease: lease})
	return reply.Value == "true", reply, err
}

// Unlock gives the lock back. It was certainly held until Reply.Began. Where the thread does not hold it, the error is
// a *JavaError with class java.lang.IllegalMonitorStateException.
func (h Handle) Unlock(ctx context.Context) (Reply, error) {
	return h.do(ctx, Request{Op: "unlock"})
}

// IsLocked says whether anybody holds the lock. It is asked from a thread of its own, so a session that waits in Lock
// does not hold it up. Java refuses it for Multi and the Red kinds, as it does ForceUnlock and Remaining.
func (h Handle) IsLocked(ctx context.Context) (bool, error) {
	reply, err := h.anyThread().do(ctx, Request{Op: "isLocked"})
	return reply.Value == "true", err
}

// ForceUnlock removes the lock whoever holds it, and says whether anybody did. From a thread of its own, like IsLocked.
func (h Handle) ForceUnlock(ctx context.Context) (bool, error) {
	reply, err := h.anyThread().do(ctx, Request{Op: "forceUnlock"})
	return reply.Value == "true", err
}

// Remaining is the lock's remaining TTL in whole milliseconds: -2 ms where it is free, -1 ms where it has none. From a
// thread of its own, like IsLocked.
func (h Handle) Remaining(ctx context.Context) (time.Duration, error) {
	reply, err := h.anyThread().do(ctx, Request{Op: "remaining"})
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(reply.Value, 10, 64)
	return time.Duration(ns), err
}

// Loop says what Handle.Loop does.
type Loop struct {
	Times int           // how often the lock is asked for
	Hold  time.Duration // how long it is kept each time
	Wait  time.Duration // 0: wait for it every time; otherwise give up a turn after this long
	Lease time.Duration // 0: the watchdog's
}

// Loop takes the lock, holds it and gives it back, Times times, all within Java, so that the contention is not slowed
// down by this protocol. It returns every span of holding, oldest first, also those before an error: a failing unlock
// or acquire ends the loop, the span before a failing unlock included.
func (h Handle) Loop(ctx context.Context, l Loop) ([]Interval, error) {
	reply, err := h.do(ctx, Request{Op: "loop", Times: l.Times, Hold: l.Hold, Wait: l.Wait, Lease: l.Lease})
	return reply.Held, err
}

func (h Handle) anyThread() Handle {
	h.session = ""
	return h
}

func (h Handle) do(ctx context.Context, r Request) (Reply, error) {
	r.Session, r.Lock = h.session, h.lock
	return h.peer.Do(ctx, r)
}
