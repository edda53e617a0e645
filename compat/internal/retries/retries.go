// SPDX-License-Identifier: Apache-2.0

// Package retries waits for a lock for as long as another library's retries would take.
//
// Other libraries try, pause, and try again. A waiter of this library stands in a queue on the
// masters and is handed the lock, so it needs no retries. What is left of them is how long they
// take together: that bounds the wait.
package retries

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/redlock"
)

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// longest is the largest patience that package redlock takes.
const longest = 365 * 24 * time.Hour

// errNoMore is why a wait ended that had time for all pauses.
var errNoMore = errors.New("no more retries")

// Lock returns a lease of the lock called name of client c. next returns the pause before the next
// retry, or false if there is no further retry. It is called on the caller's goroutine. If it panics, or ends
// the goroutine, so does Lock, and nothing is held.
//
// Lock waits in the queue of the masters for as long as the pauses last together, then tries a last
// time, and returns the error of that. If ctx leaves too little time for it, the error is what the
// wait found. If there is no pause, it only tries. It also waits while no
// quorum of masters answers, unless opts have a redlock.WithOutageTimeout.
func Lock(ctx context.Context, c *redlock.Client, name string, opts []redlock.LockOption, next func() (time.Duration, bool)) (*redlock.Lease, error) {
	m := c.Mutex(name, append([]redlock.LockOption{redlock.WithOutageTimeout(longest)}, opts...)...)
	pause, more := next()
	if ctx == nil || !more {
		return m.TryLock(ctx)
	}
	waiting, stop := context.WithCancelCause(ctx)
	var lease *redlock.Lease
	var err error
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		lease, err = m.Lock(waiting)
	}()
	thrown := true // by next
	defer func() {
		if !thrown {
			return
		}
		stop(errNoMore)
		<-locked
		if err == nil {
			_ = inside.Abandon(lease, ctx)
		}
	}()
	over := pauses(pause, next, locked)
	thrown = false
	stop(errNoMore)
	<-locked
	if err == nil || !over || context.Cause(waiting) != errNoMore {
		return lease, err
	}
	return lastTry(ctx, m, err)
}

// lastTry is the try behind the last pause. waited is the error of the wait, with what its last round found. That counts if there is no time to hear
// the masters once more: a lock that is held must not look like masters that are gone.
func lastTry(ctx context.Context, m *redlock.Mutex, waited error) (*redlock.Lease, error) {
	var last *redlock.RoundError
	if !errors.As(waited, &last) { // there was no time for a round
		return m.TryLock(ctx)
	}
	if ctx.Err() == nil { // it may have ended while the wait asked who has the lock
		lease, err := m.TryLock(ctx)
		if hurried, _ := inside.Hurried(err); err == nil || !hurried && ctx.Err() == nil {
			return lease, err
		}
	}
	return nil, inside.GaveUp(ctx, last)
}

// pauses sleeps for as long as the pauses last together, of which pause is the first, or until locked is closed. It says whether they are over.
//
// It runs on the caller's goroutine, and the wait for the lock does not: next is the program's, which can catch a panic of it there only.
func pauses(pause time.Duration, next func() (time.Duration, bool), locked <-chan struct{}) (over bool) {
	for more := true; more; pause, more = next() {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-locked:
			timer.Stop()
			return false
		}
	}
	return true
}
