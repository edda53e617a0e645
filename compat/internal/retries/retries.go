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
	"sync"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// longest is the largest patience that package redlock takes.
const longest = 365 * 24 * time.Hour

// errNoMore is why a wait ended that had time for all pauses.
var errNoMore = errors.New("no more retries")

// Lock returns a lease of the lock called name of client c. next returns the pause before the next
// retry, or false if there is no further retry. It is called by one goroutine at a time, and not
// after Lock has returned.
//
// Lock waits in the queue of the masters for as long as the pauses last together, then tries a last
// time, and returns the error of that. If there is no pause, it only tries. It also waits while no
// quorum of masters answers, unless opts have a redlock.WithOutageTimeout.
func Lock(ctx context.Context, c *redlock.Client, name string, opts []redlock.LockOption, next func() (time.Duration, bool)) (*redlock.Lease, error) {
	m := c.Mutex(name, append([]redlock.LockOption{redlock.WithOutageTimeout(longest)}, opts...)...)
	pause, more := next()
	if ctx == nil || !more {
		return m.TryLock(ctx)
	}
	waiting, stop := context.WithCancelCause(ctx)
	var pauses sync.WaitGroup
	pauses.Go(func() {
		for ; more; pause, more = next() {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-waiting.Done():
				timer.Stop()
				return
			}
		}
		stop(errNoMore)
	})
	lease, err := m.Lock(waiting)
	stop(nil)
	pauses.Wait()
	if err != nil && ctx.Err() == nil && context.Cause(waiting) == errNoMore {
		return m.TryLock(ctx)
	}
	return lease, err
}
