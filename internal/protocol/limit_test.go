// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"
	"time"
)

func TestLimit_timerLate_goesOnOnceForAsLongAsItWasLate(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct{ wait, late, more time.Duration }{
		{150 * ms, 0, 0},
		{150 * ms, 2 * ms, 0}, // as timers are
		{150 * ms, 3 * ms, 3 * ms},
		{150 * ms, 49 * ms, 49 * ms},
		{150 * ms, time.Hour, 50 * ms},
		{5 * ms, time.Hour, 5 * ms},
		{0, time.Hour, 0}, // nothing was to be waited for
		{-5 * ms, time.Hour, 0},
	} {
		l := NewLimit(tc.wait)
		if l.Over(l.At.Add(-1)) {
			t.Errorf("%v: over before its time", tc)
		}
		now := l.At.Add(tc.late)
		if over := l.Over(now); over != (tc.more == 0) {
			t.Errorf("%v: over is %v", tc, over)
			continue
		}
		if tc.more == 0 {
			continue
		}
		if got := l.At.Sub(now); got != tc.more {
			t.Errorf("%v: it goes on for %v, want %v", tc, got, tc.more)
		}
		if l.Over(l.At.Add(-1)) || !l.Over(l.At.Add(time.Hour)) {
			t.Errorf("%v: it does not go on once", tc)
		}
	}
}
