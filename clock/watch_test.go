// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/replay"
)

const epoch2026 = 1_790_000_000 * time.Second

func TestWatch_stepIsSeen(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, -time.Minute, 300 * time.Millisecond, -300 * time.Millisecond} {
		var w Watch
		at := time.Second
		for range 10 {
			if gap := w.Observe(at, at+time.Millisecond, epoch2026+at, DefaultDrift()); gap != 0 {
				t.Fatalf("a steady clock is %v off", gap)
			}
			at += time.Second
		}
		gap := w.Observe(at, at+time.Millisecond, epoch2026+at+step, DefaultDrift())
		if want := step.Abs() - 20*time.Millisecond; gap < want {
			t.Errorf("a step of %v seen as %v, want %v or more", step, gap, want)
		}
		at += time.Second
		if gap := w.Observe(at, at+time.Millisecond, epoch2026+at+step, DefaultDrift()); gap != 0 {
			t.Errorf("after the step the watch must start anew, it says %v", gap)
		}
	}
}

func TestWatch_rateIsSeen(t *testing.T) {
	for _, tc := range []struct {
		rate float64
		seen bool
	}{{1, false}, {1.0005, false}, {0.9995, false}, {1.009, false}, {0.991, false}, {1.012, true}, {0.988, true}, {1.083, true}, {0.5, true}, {2, true}} {
		// However often it is looked at.
		for _, every := range []time.Duration{100 * time.Microsecond, 5 * time.Millisecond, 500 * time.Millisecond} {
			var w Watch
			seen := false
			for at := time.Duration(0); at < 10*time.Second; at += every {
				master := epoch2026 + time.Duration(float64(at)*tc.rate)
				seen = seen || w.Observe(at, at+200*time.Microsecond, master, DefaultDrift()) != 0
			}
			if seen != tc.seen {
				t.Errorf("rate %v, looked at every %v: seen = %v, want %v", tc.rate, every, seen, tc.seen)
			}
		}
	}
}

// Who allows for no drift has not bought better clocks with that.
func TestWatch_noDriftAllowed_goodClocksPass(t *testing.T) {
	for _, rate := range []float64{1.0009, 0.9991} {
		var w Watch
		for at := time.Duration(0); at < time.Minute; at += 50 * time.Millisecond {
			master := epoch2026 + time.Duration(float64(at)*rate)
			if gap := w.Observe(at, at+200*time.Microsecond, master, Drift{}); gap != 0 {
				t.Fatalf("rate %v: %v off after %v", rate, gap, at)
			}
		}
	}
}

// However slow the network, a good clock is never suspected.
func TestWatch_delayIsNoStep(t *testing.T) {
	replay.Each(t, delayIsNoStep)
}

func delayIsNoStep(t *testing.T, seed uint64) {
	rng := replay.RNG(seed)
	var w Watch
	at := time.Duration(0)
	for range 10_000 {
		at += time.Duration(rng.Int64N(int64(time.Second)))
		there, back := time.Duration(rng.ExpFloat64()*1e8), time.Duration(rng.ExpFloat64()*1e8)
		if gap := w.Observe(at, at+there+back, epoch2026+at+there, DefaultDrift()); gap != 0 {
			t.Fatalf("a delayed reading is called %v off", gap)
		}
		at += there + back
	}
}

// The offset is the middle of what all readings allow: a reading with a short round trip tells more
// than one with a long round trip, whichever is the later.
func TestWatch_offset_narrowedByAllReadings(t *testing.T) {
	var w Watch
	if _, ok := w.Offset(); ok {
		t.Error("an offset without a reading")
	}
	const ms = time.Millisecond
	w.Observe(0, 2*ms, epoch2026+ms, DefaultDrift())
	w.Observe(10*ms, 60*ms, epoch2026+11*ms, DefaultDrift()) // the answer was late
	if got, ok := w.Offset(); !ok || (got-epoch2026).Abs() > ms {
		t.Errorf("%v beside the truth", got-epoch2026)
	}
}
