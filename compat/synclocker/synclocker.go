// SPDX-License-Identifier: Apache-2.0

// Package synclocker makes a sync.Locker of a lock, for code that takes nothing else.
//
//	l := synclocker.New(client.Mutex("invoice/4711"), func(err error) {
//		if errors.Is(err, redlock.ErrLost) {
//			log.Fatal(err) // the code under the lock goes on otherwise
//		}
//		log.Print(err) // Lock tries again
//	})
//	cond := sync.NewCond(l)
//
// A sync.Locker has neither a context nor an error, so it cannot say that the masters are down or that
// the lock was lost. Use [redlock.Mutex.Do] where you can: the context of its function ends before the
// lock does.
package synclocker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// pause is how long Lock waits after a failure before it tries again.
const pause = 100 * time.Millisecond

// New returns a sync.Locker on l: a Mutex, or a side of an RWMutex. It is safe for concurrent use.
// Callers that share it also exclude each other without the masters, as with a sync.Mutex.
//
// fail is told what Lock and Unlock cannot return:
//
//   - Lock failed. Lock returns only with the lock. When fail returns, Lock tries again after 100 ms. If
//     fail panics, Lock gives up and the panic goes on.
//   - The lock was lost while it was held: redlock.ErrLost, or redlock.ErrClosed. fail is told before
//     another can have the lock, on a goroutine of its own, once. The code under the lock goes on unless
//     fail ends the program.
//   - Unlock was called while nobody held the lock: redlock.ErrReleased.
//
// A nil fail panics with the error: then the program ends rather than do without the lock.
func New(l redlock.Locker, fail func(err error)) sync.Locker {
	if fail == nil {
		fail = func(err error) { panic(err) }
	}
	return &locker{l: l, fail: fail, turn: make(chan struct{}, 1)}
}

type locker struct {
	l    redlock.Locker
	fail func(error)
	turn chan struct{} // full from Lock to Unlock; no mutex, so that synctest sees who waits

	mu   sync.Mutex
	held *hold
}

// hold is one turn of one caller.
type hold struct {
	lease *redlock.Lease
	watch func() bool // ends the watch; false if fail is told
}

// Lock implements sync.Locker.
func (l *locker) Lock() {
	l.turn <- struct{}{}
	locked := false
	defer func() {
		if !locked {
			<-l.turn // fail panicked
		}
	}()
	for {
		lease, err := l.lock()
		if err == nil {
			l.mu.Lock()
			l.held = &hold{lease, context.AfterFunc(lease.Context(), func() { l.fail(lease.Err()) })}
			l.mu.Unlock()
			locked = true
			return
		}
		l.fail(err)
		time.Sleep(pause)
	}
}

func (l *locker) lock() (*redlock.Lease, error) {
	if l.l == nil {
		return nil, fmt.Errorf("%w: a nil Locker; make one with Client.Mutex", redlock.ErrConfig)
	}
	return l.l.Lock(context.Background())
}

// Unlock implements sync.Locker.
func (l *locker) Unlock() {
	l.mu.Lock()
	h := l.held
	l.held = nil
	l.mu.Unlock()
	if h == nil {
		l.fail(fmt.Errorf("%w: Unlock of a lock that this Locker does not hold", redlock.ErrReleased))
		return
	}
	defer func() { <-l.turn }()
	watched := h.watch()
	err := h.lease.Unlock(context.Background())
	if watched && (errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrClosed)) {
		l.fail(err)
	}
}
