// SPDX-License-Identifier: Apache-2.0

// Package clock has the times by which leases end: elapsed time that counts suspend ([Clock]), how
// much of a TTL is left after elapsed time and drift ([Drift]), and a check of a master's clock
// ([Watch]).
//
// Go's own monotonic clock stands still while the machine is suspended (golang/go#24595). By that
// clock a holder that was suspended for an hour would still believe in its lease. [System]
// counts that hour. If a hypervisor stops the whole machine, no clock of the machine counts the
// pause. Then only the fencing token protects the resource (docs/safety.md A5).
package clock

import (
	"sync/atomic"
	"time"
)

// Clock is the clock by which a client times its leases. Implementations must be safe for
// concurrent use. Timers and pauses use package time instead, so that they run under
// testing/synctest.
type Clock interface {
	// Elapsed returns the time since an origin that is fixed for this Clock. It never goes
	// back. Compare it only with other times of the same Clock.
	Elapsed() time.Duration
	// Wall returns the time of day. It may jump, so exclusion does not depend on it.
	Wall() time.Time
}

// System returns the clock of this host. Every call returns the same Clock, so a client and nodes
// that were made separately can compare times.
//
// Elapsed is the larger of two clocks, to a millisecond: Go's monotonic clock, and the system's
// clock that counts suspend. It is the larger one because a lease that ends too early costs a
// retry, and a lease that ends too late costs exclusion. The clock that counts suspend is
// CLOCK_BOOTTIME on Linux and CLOCK_MONOTONIC on macOS. On other systems each forward step of the
// time of day counts as a suspend, because a suspend looks like such a step.
//
// Under testing/synctest use [Monotonic] instead, because CLOCK_BOOTTIME is not faked.
func System() Clock { return host }

var host = newSystem()

// Monotonic returns a new Clock that reads Go's monotonic clock, which does not count suspend. Its
// origin is the time of the call. Call it inside a testing/synctest bubble to get the bubble's
// time.
func Monotonic() Clock { return monotonic{origin: time.Now()} }

// lookEvery is after how long Elapsed reads CLOCK_BOOTTIME again in any case. step is how far the
// time of day must move against the monotonic clock for Elapsed to read it at once.
const lookEvery, step = 10 * time.Millisecond, time.Millisecond

// system reads CLOCK_BOOTTIME seldom, because that is a system call, and a lock asks for the time
// more often than it sends anything. time.Now needs no system call. When the host wakes from a
// suspend, the kernel moves the time of day by as much as CLOCK_BOOTTIME, and does not move the
// monotonic clock. So after a suspend the time of day is ahead of the monotonic clock by a step,
// and that step makes Elapsed read CLOCK_BOOTTIME.
//
// The step is hidden if the time of day is also set back by the length of the suspend, to the
// millisecond. Elapsed then sees the suspend within lookEvery.
//
// If there is no clock that counts suspend, only the step shows a suspend: see elapsedBySteps.
type system struct {
	origin time.Time
	// The time of day and CLOCK_BOOTTIME at the origin.
	wall int64 // ns since 1970
	boot time.Duration
	// steps says that no clock counts suspend, so forward steps of the time of day count.
	steps bool

	last atomic.Pointer[look]
}

// look is one reading of CLOCK_BOOTTIME.
type look struct {
	at        time.Duration // on the monotonic clock
	ahead     time.Duration // how far the time of day had moved ahead of the monotonic clock
	suspended time.Duration // since the origin
}

func newSystem() *system {
	c := &system{origin: time.Now(), boot: boottime()}
	c.steps = c.boot == 0
	c.wall = c.origin.UnixNano()
	c.last.Store(new(look))
	return c
}

// since returns the time since the origin on the monotonic clock, and how far the time of day has
// moved ahead of that clock.
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
	// A suspend from here on is seen by the next call, because ahead was read before.
	boot := boottime() - c.boot
	mono, _ = c.since(time.Now())
	// Invariant: suspended never falls. It is never too large, because boot was read before
	// mono. A pause between the two readings makes it too small, and a later look corrects it.
	next := &look{at: mono, ahead: ahead, suspended: max(last.suspended, boot-mono)}
	for !c.last.CompareAndSwap(last, next) {
		last = c.last.Load()
		next.suspended = max(last.suspended, next.suspended)
	}
	return mono + next.suspended
}

// elapsedBySteps is Elapsed on a system where no clock counts suspend. If the time of day has moved
// ahead of the monotonic clock by more than a slew explains, the difference counts as a suspend.
// A step by an operator or NTP counts too. Leases then end too early, never too late.
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
