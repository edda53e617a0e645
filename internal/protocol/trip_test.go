// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestNextTrip_fallsAtOnceAndRisesSlowly(t *testing.T) {
	for _, tc := range []struct{ trip, seen, want time.Duration }{
		{0, 300 * ms, 300 * ms},
		{300 * ms, ms, ms},
		{ms, 0, 1}, // in virtual time
		{ms, 2 * time.Second, 12 * ms},
		{100 * ms, 120 * ms, 120 * ms},
	} {
		if got := NextTrip(tc.trip, tc.seen); got != tc.want {
			t.Errorf("%v after %v gives %v, want %v", tc.seen, tc.trip, got, tc.want)
		}
	}
	trip, n := ms, 0
	for ; trip < 250*ms; n++ { // the way became longer
		trip = NextTrip(trip, 300*ms)
	}
	if n > 5 {
		t.Errorf("%d answers until the longer way is known", n)
	}
}

func TestNodeTimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		trips []time.Duration
		need  int
		want  time.Duration
	}{
		"near":                       {[]time.Duration{ms, ms, ms}, 2, 150 * ms},
		"nothing is known":           {[]time.Duration{0, 0, 0}, 2, 150 * ms},
		"far":                        {[]time.Duration{120 * ms, 120 * ms, 120 * ms}, 2, 360 * ms},
		"a minority is far":          {[]time.Duration{ms, 300 * ms, 2 * ms}, 2, 150 * ms},
		"a far one is needed":        {[]time.Duration{ms, 300 * ms, 0}, 2, 900 * ms},
		"too few, and they are far":  {[]time.Duration{0, 0, 200 * ms}, 2, 600 * ms},
		"longer than the TTL allows": {[]time.Duration{900 * ms, 900 * ms, 900 * ms}, 2, 2000 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NodeTimeout(QuorumTrip(tc.trips, tc.need), DefaultNodeTimeout, 2*time.Second); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
	if got := NodeTimeout(time.Second, DefaultNodeTimeout, 10*ms); got != DefaultNodeTimeout {
		t.Errorf("%v with a short TTL", got)
	}
}
