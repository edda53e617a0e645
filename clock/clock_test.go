// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/quick"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSystem_neverGoesBackAndFollowsMonotonic(t *testing.T) {
	c := System()
	start := time.Now()
	first := c.Elapsed()
	last := first
	for time.Since(start) < 20*time.Millisecond {
		now := c.Elapsed()
		if now < last {
			t.Fatalf("Elapsed went back from %v to %v", last, now)
		}
		last = now
	}
	if got := c.Elapsed() - first; got < 19*time.Millisecond || got > time.Minute {
		t.Fatalf("Elapsed counted %v over 20ms", got)
	}
}

// The suspend of a host cannot be made in a test; what it does to the clocks can: both
// boottime and the time of day run ahead of the monotonic one.
func suspend(c *system, d time.Duration) {
	c.boot -= d
	c.wall -= int64(d)
}

func TestSystem_countsSuspend(t *testing.T) {
	if boottime() == 0 {
		t.Skip("this system has no CLOCK_BOOTTIME")
	}
	c := newSystem()
	for _, d := range []time.Duration{time.Hour, 3 * time.Millisecond, time.Second} {
		before := c.Elapsed()
		suspend(c, d)
		if got := c.Elapsed() - before; got < d-step {
			t.Errorf("%v of suspend counted as %v", d, got)
		}
	}
}

// Where no clock counts suspend, the step of the time of day tells of it. A slew of the
// time of day is none, and neither is a step back.
func TestSystem_noClockOfSuspends_stepsOfTheDayCount(t *testing.T) {
	c := newSystem()
	c.steps = true
	for _, d := range []time.Duration{time.Hour, 3 * time.Millisecond, time.Second} {
		before := c.Elapsed()
		c.wall -= int64(d)
		if got := c.Elapsed() - before; got < d-step || got > d+time.Minute {
			t.Errorf("%v of suspend counted as %v", d, got)
		}
	}
	before := c.Elapsed()
	c.wall += int64(time.Hour)
	if got := c.Elapsed() - before; got < 0 || got > time.Minute {
		t.Errorf("an hour back counted as %v", got)
	}
	c.last.Store(&look{at: -time.Hour, ahead: c.last.Load().ahead, suspended: 0})
	c.wall -= int64(time.Second) // 280 ppm of the hour since
	if got := c.Elapsed() - before; got > time.Minute {
		t.Errorf("a slew counted as %v", got)
	}
}

// The time of day was set back by the length of the suspend meanwhile, so that nothing
// calls for a look.
func TestSystem_countsHiddenSuspend(t *testing.T) {
	if boottime() == 0 {
		t.Skip("this system has no CLOCK_BOOTTIME")
	}
	c := newSystem()
	before := c.Elapsed()
	c.boot -= time.Hour
	time.Sleep(lookEvery)
	if got := c.Elapsed() - before; got < time.Hour {
		t.Errorf("an hour of suspend counted as %v after %v", got, lookEvery)
	}
}

// Steps of the time of day alone are no time that passed.
func TestSystem_ignoresWallClock(t *testing.T) {
	c := newSystem()
	before := c.Elapsed()
	for range 10 {
		c.wall -= int64(time.Hour)
		c.Elapsed()
		c.wall += int64(2 * time.Hour)
		c.Elapsed()
	}
	if got := c.Elapsed() - before; got > time.Minute {
		t.Errorf("ten steps of the time of day counted as %v", got)
	}
}

func TestSystem_neverGoesBackForAnybody(t *testing.T) {
	c := newSystem()
	start := time.Now()
	var most atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for time.Since(start) < 10*lookEvery {
				before := most.Load()
				now := int64(c.Elapsed())
				if now < before {
					t.Errorf("Elapsed went back from %v to %v", time.Duration(before), time.Duration(now))
					return
				}
				for last := before; now > last && !most.CompareAndSwap(last, now); last = most.Load() {
				}
			}
		})
	}
	wg.Wait()
}

func TestMonotonic_followsTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Monotonic()
		start := c.Elapsed()
		time.Sleep(time.Hour)
		if got := c.Elapsed() - start; got != time.Hour {
			t.Fatalf("Elapsed = %v after an hour of bubble time", got)
		}
	})
}

func TestDrift_Validity(t *testing.T) {
	const ms = time.Millisecond
	d := DefaultDrift()
	for _, tc := range []struct {
		name               string
		drift              Drift
		ttl, elapsed, want time.Duration
	}{
		{"10s, nothing spent", d, 10 * time.Second, 0, 9898 * ms},
		{"10s, 400ms spent", d, 10 * time.Second, 400 * ms, 9498 * ms},
		{"spent more than the TTL", d, time.Second, 2 * time.Second, 0},
		{"TTL eaten by the constant", d, 2 * ms, 0, 0},
		{"no drift", Drift{}, time.Second, ms, 999 * ms},
		{"clock that went back", d, time.Second, -time.Hour, 988 * ms},
		{"longest TTL, longest wait", d, math.MaxInt64, math.MaxInt64, 0},
		{"longest constant", Drift{Constant: math.MaxInt64}, time.Second, ms, 0},
		{"negative TTL", d, -time.Second, 0, 0},
		{"most negative TTL", d, math.MinInt64, math.MaxInt64, 0},
	} {
		if got := tc.drift.Validity(tc.ttl, tc.elapsed); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestDrift_Validity_staysInBounds(t *testing.T) {
	inBounds := func(ttl, elapsed time.Duration, factor float64, constant time.Duration) bool {
		d := Drift{Factor: math.Abs(math.Mod(factor, 1)), Constant: max(constant, 0)}
		if d.Check() != nil {
			return true
		}
		v := d.Validity(ttl, elapsed)
		return v >= 0 && v <= max(ttl, 0)
	}
	if err := quick.Check(inBounds, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Fatal(err)
	}
}

func TestDrift_Check(t *testing.T) {
	for _, bad := range []Drift{
		{Factor: math.NaN()}, {Factor: -0.01}, {Factor: 1}, {Factor: math.Inf(1)}, {Constant: -1},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v passed", bad)
		}
	}
	if err := DefaultDrift().Check(); err != nil {
		t.Error(err)
	}
}
