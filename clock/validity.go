// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"math"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
)

// Drift is how far the clocks of a client and of a master may run apart while a TTL passes: Factor
// times the TTL, plus Constant. Factor allows for clocks of different rates. Constant allows for
// the millisecond resolution of a master, and matters for the shortest TTLs.
//
// The Redlock page gives no figure. Its reference code uses 1 % + 2 ms, and so does
// [DefaultDrift]. 1 % is 10 000 ppm. That is ten times what two hosts slewed by ntpd need (500 ppm
// each), and an eighth of what chrony may do by default (83 333 ppm). See docs/safety.md A4.
type Drift struct {
	Factor   float64       // 0.01 is 1 %; from 0 to less than 1
	Constant time.Duration // 0 or more
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

// Of returns how far the clocks may run apart over ttl. A result that would overflow is the largest
// Duration.
func (d Drift) Of(ttl time.Duration) time.Duration {
	share := float64(ttl) * d.Factor
	if share >= float64(math.MaxInt64) {
		return math.MaxInt64
	}
	return add(time.Duration(share), d.Constant)
}

// Validity returns how much of a TTL is left for the client: ttl - elapsed - drift, or 0 if nothing
// is left. elapsed is the time from before the first request was sent to after the last counted
// reply was received (Redlock page, steps 1 and 3). So a pause anywhere in between shortens the
// validity.
//
// Invariant: 0 <= Validity <= max(ttl, 0), whatever the arguments.
func (d Drift) Validity(ttl, elapsed time.Duration) time.Duration {
	if mutants.NoDrift {
		d = Drift{}
	}
	spent := add(max(elapsed, 0), max(d.Of(ttl), 0))
	return max(max(ttl, 0)-spent, 0)
}

// add returns a + b for b >= 0, or the largest Duration if the sum overflows.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
