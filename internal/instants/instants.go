// SPDX-License-Identifier: Apache-2.0

// Package instants turns readings of a client's clock into times of day.
package instants

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/clock"
)

// Instants turns times on Clock into times of day. The two clocks are read one after
// the other, so each comparison gives a slightly different result. Instants keeps one
// comparison, and replaces it when the clocks have moved apart, as they do in a suspend.
type Instants struct {
	Clock clock.Clock

	mu      sync.Mutex
	day     time.Time // with the monotonic reading of package time
	elapsed time.Duration
}

// parted is by how much the two clocks may differ before they are compared anew.
const parted = time.Millisecond

// At is the time of day when Clock shows elapsed.
func (i *Instants) At(elapsed time.Duration) time.Time {
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
func (i *Instants) both() (now time.Time, on time.Duration) {
	for range 10 {
		now, on = time.Now(), i.Clock.Elapsed()
		if time.Since(now) < parted/4 {
			break
		}
	}
	return now, on
}
