// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"math"
	"time"
)

const never = time.Duration(math.MaxInt64)

// Terms are the settings of a lock that say how a hold goes on.
type Terms struct {
	TTL     time.Duration
	Every   time.Duration // the renewal interval
	MaxHold time.Duration // 0: renewed for as long as it is held
	MinHold time.Duration // the lock rests for as long as that; 0: it does not
	Fixed   bool          // the hold is not renewed
	Kept    bool          // not passed on within the process: it is for an order alone, or was adopted, and nobody here knows whether it rests
}

// Margin is how long before the end of validity a holder is told that the lease is lost, whose votes last for ttl: the time to stop
// what it does. No safety rests on it; the drift is taken off the validity before.
func Margin(ttl time.Duration) time.Duration { return ttl/100 + time.Millisecond }

// renewalAt is at, or never if a hold that counts from start is not to be renewed then.
func (t *Terms) renewalAt(start, at time.Duration) time.Duration {
	if t.Fixed || t.tooLong(start, at) {
		return never
	}
	return at
}

// tooLong says whether a hold that counts from start has been held for longer than it is to be renewed.
func (t *Terms) tooLong(start, now time.Duration) bool {
	return t.MaxHold > 0 && now-start > t.MaxHold
}
