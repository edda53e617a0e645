// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
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

// The suspend of a host cannot be made in a test; what a suspend does to the two
// clocks can: boottime runs ahead of the monotonic one.
func TestSystem_countsSuspend(t *testing.T) {
	c := &system{origin: time.Now(), boot: boottime()}
	if boottime() == 0 {
		t.Skip("this system has no CLOCK_BOOTTIME")
	}
	before := c.Elapsed()
	c.boot -= time.Hour
	if got := c.Elapsed() - before; got < time.Hour-time.Millisecond {
		t.Fatalf("an hour of suspend counted as %v", got)
	}
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
