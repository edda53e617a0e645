// SPDX-License-Identifier: Apache-2.0

package instants

import (
	"testing"
	"testing/synctest"
	"time"
)

// lateClock is a clock whose readings are late, as those of a goroutine that had to wait are.
type lateClock struct {
	start time.Time
	late  []time.Duration // of the next readings
	drift time.Duration   // how far it has moved away from package time
}

func (c *lateClock) Elapsed() time.Duration {
	if len(c.late) > 0 {
		time.Sleep(c.late[0])
		c.late = c.late[1:]
	}
	return time.Since(c.start) + c.drift
}

func (c *lateClock) Wall() time.Time { return time.Now() }

func TestInstants_goroutineHadToWait_sameInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &lateClock{start: time.Now()}
		i := Instants{Clock: c}
		until := c.Elapsed() + time.Second
		first := i.At(until)
		c.late = []time.Duration{2 * time.Millisecond, 50 * time.Millisecond}
		if next := i.At(until); !next.Equal(first) {
			t.Errorf("%v, and then %v later", first, next.Sub(first))
		}
		c.drift = time.Hour // a suspend
		if next := i.At(until); next.Sub(first) != -time.Hour {
			t.Errorf("%v after an hour of suspend", next.Sub(first))
		}
	})
}
