// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"

	"github.com/redlock-go/redlock/internal/protocol"
)

// RWMutex is a lock by name. Any number of callers may hold it for reading, or one caller for
// writing. Like a [Mutex] it holds no state of a lease, may be used from many goroutines, and
// needs no close. A Mutex and an RWMutex of one name exclude each other; to take one with a context of the other is an [ErrConfig].
//
// Lock, TryLock, Do and TryDo take the lock for writing. RLock, TryRLock,
// RDo and TryRDo take it for reading. Each does what the method of Mutex does, and
// has its errors.
//
// Readers do not pass a writer that waits, [WithoutFairness] or not, so writers do not starve. When a reader dies, its own
// vote ends with its TTL, even if other readers go on.
//
// A downgrade is possible: the holder of a write lease takes a read lease with the context of the
// write lease, and then unlocks the write lease. Nobody else writes in between. A downgrade needs
// no [WithReentry]. The opposite fails with [ErrUpgrade]. The read lease has a token of its own, which is larger than that of the write
// lease: once a resource was shown it, it refuses the other (package fence), so go on with the one of the read lease. Take the read lease
// with RLock, and not with RDo, whose context ends with the write lease. While both are held, a master that lost its data gets back the vote of one of
// them only: if a majority does so, one after the other, one of the two leases ends with [ErrLost], and the other goes on.
type RWMutex struct{ reader, writer *Mutex }

// RWMutex returns the read-write lock called name. Names and options are as in [Client.Mutex]. A
// name or an option that cannot work is reported by the first call on the RWMutex, as
// [ErrConfig].
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{
		reader: c.mutex(name, protocol.Read, opts),
		writer: c.mutex(name, protocol.Write, opts),
	}
}

// Name is the lock's name.
func (rw *RWMutex) Name() string { return rw.core().Name() }

// core returns the side for writing. As a [Locker], an RWMutex is its side for writing.
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

// Do runs fn while it holds the lock for writing. See [Mutex.Do].
func (rw *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return rw.core().Do(ctx, fn)
}

// TryDo is Do that does not wait. See [Mutex.TryDo].
func (rw *RWMutex) TryDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (ran bool, err error) {
	return rw.core().TryDo(ctx, fn)
}

// RLock waits until it has the lock for reading or ctx ends. See [Mutex.Lock].
func (rw *RWMutex) RLock(ctx context.Context) (*Lease, error) { return rw.read().Lock(ctx) }

// TryRLock tries to take the lock for reading now. See [Mutex.TryLock].
func (rw *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return rw.read().TryLock(ctx) }

// RDo runs fn while it holds the lock for reading. See [Mutex.Do].
func (rw *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return rw.read().Do(ctx, fn)
}

// TryRDo is RDo that does not wait. See [Mutex.TryDo].
func (rw *RWMutex) TryRDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (ran bool, err error) {
	return rw.read().TryDo(ctx, fn)
}

func (rw *RWMutex) read() *Mutex {
	if rw == nil {
		return nil
	}
	return rw.reader
}

// Locker is a [Mutex], or one side of an [RWMutex]. It is for code that works with any of them,
// such as package multilock. Only this package implements it. Two Lockers of the same name on the
// same masters exclude each other, unless both are sides for reading.
type Locker interface {
	Name() string
	Lock(ctx context.Context) (*Lease, error)
	TryLock(ctx context.Context) (*Lease, error)
	Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error
	TryDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (ran bool, err error)

	core() *Mutex
}

var (
	_ Locker = (*Mutex)(nil)
	_ Locker = (*RWMutex)(nil)
	_ Locker = (*rlocker)(nil)
)

// Locker returns the side for writing, which is rw itself: its Lock is rw.Lock.
func (rw *RWMutex) Locker() Locker { return rw }

// RLocker returns the side for reading: its Lock is rw.RLock.
func (rw *RWMutex) RLocker() Locker { return (*rlocker)(rw) }

type rlocker RWMutex

func (r *rlocker) Name() string { return (*RWMutex)(r).Name() }

func (r *rlocker) core() *Mutex { return (*RWMutex)(r).read() }

func (r *rlocker) Lock(ctx context.Context) (*Lease, error) { return r.core().Lock(ctx) }

func (r *rlocker) TryLock(ctx context.Context) (*Lease, error) { return r.core().TryLock(ctx) }

func (r *rlocker) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return r.core().Do(ctx, fn)
}

func (r *rlocker) TryDo(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) (ran bool, err error) {
	return r.core().TryDo(ctx, fn)
}
