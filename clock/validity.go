// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"math"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
)

// Drift bounds how far the clocks of a client and of a master may run apart
// while a TTL passes: Factor of the TTL, for the difference in rate, plus
// Constant, for a master's millisecond resolution and the smallest TTLs.
//
// The Redlock page gives no figure; 1 % + 2 ms is what its reference code uses
// and what [DefaultDrift] holds. 1 % is 10 000 ppm: ten times what two hosts
// slewed by ntpd need (500 ppm each) and an eighth of what an untended chrony may
// do (83 333 ppm). See docs/safety.md A4.
type Drift struct {
	Factor   float64
	Constant time.Duration
}

// DefaultDrift is 1 % + 2 ms.
func DefaultDrift() Drift { return Drift{Factor: 0.01, Constant: 2 * time.Millisecond} }

// Check returns an error unless 0 <= Factor < 1 and Constant >= 0.
func (d Drift) Check() error {
	if !(d.Factor >= 0 && d.Factor < 1) { // written so that NaN fails
		return fmt.Errorf("drift factor %v: want at least 0 and below 1 (0.01 is 1 %%)", d.Factor)
	}
	if d.Constant < 0 {
		return fmt.Errorf("drift constant %v: want 0 or more (2ms is usual)", d.Constant)
	}
	return nil
}

// Of is the drift to allow for over ttl. It saturates instead of overflowing.
func (d Drift) Of(ttl time.Duration) time.Duration {
	share := float64(ttl) * d.Factor
	if share >= float64(math.MaxInt64) {
		return math.MaxInt64
	}
	return add(time.Duration(share), d.Constant)
}

// Validity is what a client may still count on of a TTL that it asked for
// elapsed ago: ttl - elapsed - drift, and 0 when nothing is left. elapsed runs
// from before the first request went out to after the last counted reply came
// in (Redlock page, steps 1 and 3), so a pause anywhere between is paid for.
//
// Invariant: 0 <= Validity <= max(ttl, 0), whatever the arguments.
func (d Drift) Validity(ttl, elapsed time.Duration) time.Duration {
	if mutants.NoDrift {
		d = Drift{}
	}
	spent := add(max(elapsed, 0), max(d.Of(ttl), 0))
	return max(max(ttl, 0)-spent, 0)
}

// add is a + b for b >= 0, saturating.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
