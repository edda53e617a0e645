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

import (
	"sync/atomic"
	"time"
)

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

// System returns the clock of this host. Elapsed is the larger of the monotonic clock
// and the system's clock that counts suspend, to a millisecond: the larger, because a
// lease that ends too early costs a retry and one that ends too late costs exclusion.
// The second is CLOCK_BOOTTIME on Linux and CLOCK_MONOTONIC on macOS. On any other
// system each forward step of the time of day counts as a suspend, which is what a
// suspend looks like there.
//
// Under testing/synctest use [Monotonic] instead: CLOCK_BOOTTIME is not faked.
//
// There is one in a process, so that all who ask it mean the same by a time: a
// client and nodes that were made apart, for instance.
func System() Clock { return host }

var host = newSystem()

// Monotonic returns the runtime's monotonic clock, which does not count
// suspend. Call it inside a testing/synctest bubble to get the bubble's time.
func Monotonic() Clock { return monotonic{origin: time.Now()} }

// lookEvery is how often CLOCK_BOOTTIME is read while nothing calls for it, and step
// how far the time of day moves against the monotonic clock when something does.
const lookEvery, step = 10 * time.Millisecond, time.Millisecond

// system reads CLOCK_BOOTTIME seldom, for it is a system call, and the lanes and
// rounds of a lock ask for the time more often than they send anything. What time.Now
// says costs no call: when the host wakes from a suspend, the kernel moves the time of
// day by as much as CLOCK_BOOTTIME, and the monotonic clock by nothing, so that a
// suspend shows as a step between those two, and calls for a look.
//
// What could hide it is a step of the time of day back by the very length of the
// suspend, to the millisecond, before anything asked; then it is seen at the next look.
//
// Without a clock that counts suspend, the step is all there is: see elapsedBySteps.
type system struct {
	origin time.Time
	// The time of day and CLOCK_BOOTTIME at the origin.
	wall int64 // ns since 1970
	boot time.Duration
	// steps: there is no such clock, so forward steps of the time of day are suspends.
	steps bool

	last atomic.Pointer[look]
}

// look is what a reading of CLOCK_BOOTTIME found.
type look struct {
	at        time.Duration // on the monotonic clock
	ahead     time.Duration // by how much the time of day had moved more than that one
	suspended time.Duration // since the origin
}

func newSystem() *system {
	c := &system{origin: time.Now(), boot: boottime()}
	c.steps = c.boot == 0
	c.wall = c.origin.UnixNano()
	c.last.Store(new(look))
	return c
}

// since splits now in the time on the monotonic clock and what the time of day is ahead.
func (c *system) since(now time.Time) (mono, ahead time.Duration) {
	mono = now.Sub(c.origin)
	return mono, time.Duration(now.UnixNano()-c.wall) - mono
}

func (c *system) Elapsed() time.Duration {
	mono, ahead := c.since(time.Now())
	last := c.last.Load()
	if mono-last.at < lookEvery && (ahead-last.ahead).Abs() < step {
		return mono + last.suspended
	}
	if c.steps {
		return c.elapsedBySteps(last, mono, ahead)
	}
	// A suspend from here on is seen next time: ahead is that of before.
	boot := boottime() - c.boot
	mono, _ = c.since(time.Now())
	// Invariant: suspended never falls. It is never too large either, for boot was
	// read first; what a pause between the two readings hid, a later look finds.
	next := &look{at: mono, ahead: ahead, suspended: max(last.suspended, boot-mono)}
	for !c.last.CompareAndSwap(last, next) {
		last = c.last.Load()
		next.suspended = max(last.suspended, next.suspended)
	}
	return mono + next.suspended
}

// elapsedBySteps is Elapsed where no clock counts suspend: the time of day has moved
// ahead by more than the monotonic clock and a slew explain. A step that an operator or
// NTP made counts as well: leases end too early then, never too late.
func (c *system) elapsedBySteps(last *look, mono, ahead time.Duration) time.Duration {
	for {
		next := &look{at: mono, ahead: ahead, suspended: last.suspended}
		slewed := time.Duration(float64(max(mono-last.at, 0)) * slew)
		if moved := ahead - last.ahead; moved > step+slewed {
			next.suspended += moved
		}
		if c.last.CompareAndSwap(last, next) {
			return mono + next.suspended
		}
		last = c.last.Load()
	}
}

func (c *system) Wall() time.Time { return time.Now() }

type monotonic struct{ origin time.Time }

func (c monotonic) Elapsed() time.Duration { return time.Since(c.origin) }
func (c monotonic) Wall() time.Time        { return time.Now() }
