// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/clock"
)

// instants turns times on a client's clock into times of day. The two clocks are read one after
// the other, so each comparison gives a slightly different result. instants keeps one
// comparison, and replaces it when the clocks have moved apart, as they do in a suspend.
type instants struct {
	clock clock.Clock

	mu      sync.Mutex
	day     time.Time // with the monotonic reading of package time
	elapsed time.Duration
}

// parted is by how much the two clocks may differ before they are compared anew.
const parted = time.Millisecond

func (i *instants) at(elapsed time.Duration) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, on := i.both()
	if i.day.IsZero() || (now.Sub(i.day)-(on-i.elapsed)).Abs() > parted {
		i.day, i.elapsed = now, on
	}
	return i.day.Add(elapsed - i.elapsed)
}

// both reads the two clocks. It reads them again if the goroutine had to wait in between: else that
// wait looks as if the clocks had moved apart.
func (i *instants) both() (now time.Time, on time.Duration) {
	for range 10 {
		now, on = time.Now(), i.clock.Elapsed()
		if time.Since(now) < parted/4 {
			break
		}
	}
	return now, on
}
