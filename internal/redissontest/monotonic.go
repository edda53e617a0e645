// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic turns readings of CLOCK_MONOTONIC into times of this process.
//
// HotSpot's System.nanoTime and Go's monotonic clock both read CLOCK_MONOTONIC on Linux, which is one clock for all
// processes of a machine. Go hides its readings, so one pair (time.Now, CLOCK_MONOTONIC) taken together is needed to
// convert the other process's. Estimating an offset from round trips would also work, but only as well as half a round
// trip, and a wrong overlap of two holders would be as short as that.
type monotonic struct {
	now     time.Time // with its monotonic reading, which Add and Sub keep
	reading int64     // nanoseconds
	// The pair was not read at one instant: a converted time is early by up to this much. Some 100 ns.
	gap time.Duration
}

// readMonotonic takes the pair several times and keeps the tightest: a process that was preempted between the two
// readings would be off by a time slice.
func readMonotonic() (monotonic, error) {
	var best monotonic
	for try := range 20 {
		now := time.Now()
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			return monotonic{}, fmt.Errorf("redissontest: CLOCK_MONOTONIC: %w", err)
		}
		if gap := time.Since(now); try == 0 || gap < best.gap {
			best = monotonic{now: now, reading: ts.Nano(), gap: gap}
		}
	}
	return best, nil
}

// time is the reading as a time that compares with time.Now() of this process.
func (m monotonic) time(reading int64) time.Time {
	return m.now.Add(time.Duration(reading - m.reading))
}

// check returns an error unless the span lies within the span between sent and received, as a call does that was sent
// and answered by them.
func (m monotonic) check(sent, began, ended, received time.Time) error {
	if began.Before(sent.Add(-m.gap)) || ended.Before(began) || ended.After(received) {
		return fmt.Errorf("redissontest: Java's clock is not CLOCK_MONOTONIC: a call made within %v ran from %v to %v after its start",
			received.Sub(sent), began.Sub(sent), ended.Sub(sent))
	}
	return nil
}
