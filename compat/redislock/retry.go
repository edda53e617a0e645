// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"sync/atomic"
	"time"
)

// RetryStrategy says how long a caller waits. One call of [Client.Obtain] or [Lock.Refresh] at a time
// may use it, unless its methods are safe for concurrent use. Those of this package are.
type RetryStrategy interface {
	// NextBackoff returns the pause before the next retry. 0 or less means that there is none.
	NextBackoff() time.Duration
}

type strategy func() time.Duration

func (s strategy) NextBackoff() time.Duration { return s() }

// NoRetry does not wait.
func NoRetry() RetryStrategy { return LinearBackoff(0) }

// LinearBackoff pauses for backoff each time, without end.
func LinearBackoff(backoff time.Duration) RetryStrategy {
	return strategy(func() time.Duration { return backoff })
}

// LimitRetry is s for max retries.
func LimitRetry(s RetryStrategy, max int) RetryStrategy {
	var used atomic.Int64
	return strategy(func() time.Duration {
		if s == nil || used.Add(1) > int64(max) {
			return 0
		}
		return s.NextBackoff()
	})
}

// ExponentialBackoff pauses for 4 ms, and then for twice as long each time, up to 2^26 ms. No pause is
// shorter than shortest, or longer than longest unless longest is 0.
func ExponentialBackoff(shortest, longest time.Duration) RetryStrategy {
	var n atomic.Int64
	return strategy(func() time.Duration {
		d := max(shortest, time.Millisecond<<(1+min(n.Add(1), 25)))
		if longest != 0 {
			d = min(d, longest)
		}
		return d
	})
}
