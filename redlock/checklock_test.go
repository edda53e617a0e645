// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/redlock-go/redlock/internal/lock/hold"
)

// A lease whose settings passed can be renewed: its renewal is due before its
// holder would be told that it is lost.
func TestCheckLock_whatPasses_canBeRenewed(t *testing.T) {
	check := func(ttl, every uint32, factor, constant uint16) bool {
		s := defaults()
		s.drift.Factor, s.drift.Constant = float64(factor)/65536, time.Duration(constant)*time.Microsecond
		s.maxTTL = time.Hour
		l := &s.lock
		l.TTL = (time.Duration(ttl) * time.Microsecond).Truncate(time.Millisecond)
		if every%4 != 0 {
			l.renewSet, l.renewEvery = true, l.TTL-time.Duration(every%2_000_000)*time.Microsecond/10
		}
		if s.check() != nil {
			return true
		}
		return l.every() < s.drift.Validity(l.TTL, 0)-hold.Margin(l.TTL)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 200_000}); err != nil {
		t.Error(err)
	}
}
