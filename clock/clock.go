// SPDX-License-Identifier: Apache-2.0

// Package clock says what time a lock may believe: elapsed time that counts
// suspend, and how much of a TTL is left after elapsed time and drift.
//
// A lease is only as good as the clock that ends it. Go's own monotonic clock
// stands still while the machine is suspended (golang/go#24595), so a holder
// that slept for an hour would wake up sure of its lease; [System] counts that
// hour. What no clock of this host can count is a hypervisor that stops the
// whole machine: there the fencing token at the resource decides
// (docs/safety.md A5).
package clock

import "time"

// Clock is the time a client lives by. Implementations are safe for concurrent
// use. Everything that is not read from here (timers, back-off) uses package
// time, so that it runs under testing/synctest as it is.
type Clock interface {
	// Elapsed is the time since an origin that is fixed for this Clock.
	// It never goes back. Only differences mean anything.
	Elapsed() time.Duration
	// Wall is the time of day. It may jump; nothing that must be safe reads it.
	Wall() time.Time
}

// System returns the clock of this host. Elapsed is the larger of the monotonic
// clock and, on Linux, CLOCK_BOOTTIME: the larger, because a lease that ends too
// early costs a retry and one that ends too late costs exclusion.
//
// Under testing/synctest use [Monotonic] instead: CLOCK_BOOTTIME is not faked.
//
// There is one in a process, so that all who ask it mean the same by a time: a
// client and nodes that were made apart, for instance.
func System() Clock { return host }

var host = &system{origin: time.Now(), boot: boottime()}

// Monotonic returns the runtime's monotonic clock, which does not count
// suspend. Call it inside a testing/synctest bubble to get the bubble's time.
func Monotonic() Clock { return monotonic{origin: time.Now()} }

type system struct {
	origin time.Time
	boot   time.Duration
}

func (c *system) Elapsed() time.Duration {
	return max(time.Since(c.origin), boottime()-c.boot)
}

func (c *system) Wall() time.Time { return time.Now() }

type monotonic struct{ origin time.Time }

func (c monotonic) Elapsed() time.Duration { return time.Since(c.origin) }
func (c monotonic) Wall() time.Time        { return time.Now() }
