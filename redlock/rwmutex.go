// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// ErrUpgrade: a read lease cannot become a write lease. Two readers that both
// waited for the other to stop reading would wait for ever; unlock the read
// lease first.
var ErrUpgrade = errors.New("redlock: a read lease cannot be upgraded to a write lease")

// RWMutex is a lock by name that any number may hold for reading, or one for
// writing. Like a [Mutex] it holds no state of a hold, may be used by many goroutines, and
// needs no close. Readers do not pass a writer that waits, so writers do not starve. A
// reader that dies frees its own part when its TTL is over, whoever else reads.
//
// Lock, TryLock, TryLockFor, Do and TryDo take it for writing; RLock, TryRLock,
// TryRLockFor, RDo and TryRDo for reading. Each does what the method of Mutex does, with
// its errors, and leaves behind what it leaves behind.
//
// The holder of a write lease may take a read lease with the write lease's
// context and unlock the write lease then: a downgrade, with nobody writing in
// between. It needs no [Reentrant]. The other way is [ErrUpgrade].
//
// One name must not be used for a Mutex and an RWMutex.
type RWMutex struct{ reader, writer *Mutex }

// RWMutex returns the read-write lock called name. Name and options are
// [Client.Mutex]'s.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{
		reader: c.mutex(name, protocol.Read, opts),
		writer: c.mutex(name, protocol.Write, opts),
	}
}

// Name is the lock's name.
func (rw *RWMutex) Name() string { return rw.core().Name() }

// core is the side for writing: an RWMutex is that as a [Locker].
func (rw *RWMutex) core() *Mutex {
	if rw == nil {
		return nil
	}
	return rw.writer
}

// Lock waits until it has the lock for writing or ctx ends. See [Mutex.Lock].
func (rw *RWMutex) Lock(ctx context.Context) (*Lease, error) { return rw.core().Lock(ctx) }

// TryLock tries to take the lock for writing now. See [Mutex.TryLock].
func (rw *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return rw.core().TryLock(ctx) }

// TryLockFor is Lock that waits for at most wait. See [Mutex.TryLockFor].
func (rw *RWMutex) TryLockFor(ctx context.Context, wait time.Duration) (*Lease, error) {
	return rw.core().TryLockFor(ctx, wait)
}

// Do runs fn while it holds the lock for writing. See [Mutex.Do].
func (rw *RWMutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return rw.core().Do(ctx, fn)
}

// TryDo is Do that does not wait. See [Mutex.TryDo].
func (rw *RWMutex) TryDo(ctx context.Context, fn func(ctx context.Context) error) error {
	return rw.core().TryDo(ctx, fn)
}

// RLock waits until it has the lock for reading or ctx ends. See [Mutex.Lock].
func (rw *RWMutex) RLock(ctx context.Context) (*Lease, error) { return rw.read().Lock(ctx) }

// TryRLock tries to take the lock for reading now. See [Mutex.TryLock].
func (rw *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return rw.read().TryLock(ctx) }

// TryRLockFor is RLock that waits for at most wait. See [Mutex.TryLockFor].
func (rw *RWMutex) TryRLockFor(ctx context.Context, wait time.Duration) (*Lease, error) {
	return rw.read().TryLockFor(ctx, wait)
}

// RDo runs fn while it holds the lock for reading. See [Mutex.Do].
func (rw *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context) error) error {
	return rw.read().Do(ctx, fn)
}

// TryRDo is RDo that does not wait. See [Mutex.TryDo].
func (rw *RWMutex) TryRDo(ctx context.Context, fn func(ctx context.Context) error) error {
	return rw.read().TryDo(ctx, fn)
}

func (rw *RWMutex) read() *Mutex {
	if rw == nil {
		return nil
	}
	return rw.reader
}

// Locker is one way to hold one lock, for code that works with any: a [Mutex], or a side
// of an [RWMutex]. Package multilock takes it. Only this package implements it. Two Lockers
// exclude each other unless both are read sides of one RWMutex.
type Locker interface {
	Name() string
	Lock(ctx context.Context) (*Lease, error)
	TryLock(ctx context.Context) (*Lease, error)
	TryLockFor(ctx context.Context, wait time.Duration) (*Lease, error)
	Do(ctx context.Context, fn func(ctx context.Context) error) error
	TryDo(ctx context.Context, fn func(ctx context.Context) error) error

	core() *Mutex
}

var (
	_ Locker = (*Mutex)(nil)
	_ Locker = (*RWMutex)(nil)
	_ Locker = (*rlocker)(nil)
)

// Locker is the lock for writing: its Lock is rw.Lock. It is rw itself, which is a
// [Locker] as a sync.RWMutex is a sync.Locker.
func (rw *RWMutex) Locker() Locker { return rw }

// RLocker is the lock for reading: its Lock is rw.RLock.
func (rw *RWMutex) RLocker() Locker { return (*rlocker)(rw) }

type rlocker RWMutex

func (r *rlocker) Name() string { return (*RWMutex)(r).Name() }

func (r *rlocker) core() *Mutex { return (*RWMutex)(r).read() }

func (r *rlocker) Lock(ctx context.Context) (*Lease, error) { return r.core().Lock(ctx) }

func (r *rlocker) TryLock(ctx context.Context) (*Lease, error) { return r.core().TryLock(ctx) }

func (r *rlocker) TryLockFor(ctx context.Context, wait time.Duration) (*Lease, error) {
	return r.core().TryLockFor(ctx, wait)
}

func (r *rlocker) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return r.core().Do(ctx, fn)
}

func (r *rlocker) TryDo(ctx context.Context, fn func(ctx context.Context) error) error {
	return r.core().TryDo(ctx, fn)
}
