// SPDX-License-Identifier: Apache-2.0

package clock

import "time"

// Watch compares the clock of one master with the client's. It finds a master's clock that was
// stepped, or that runs too fast or too slow. Such a clock makes votes expire at the wrong time
// (docs/safety.md A3, A4).
//
// Each reading of the master's TIME gives bounds of the offset between the two clocks, as far apart
// as the round trip took. The drift's Factor widens the bounds as time passes. A later reading must
// lie within them, or outside by the drift's Constant at most. The Constant is allowed once, and not
// again for each reading. So a clock that gains a little between any two readings is found when it
// has gained more than the Constant.
//
// A Watch does not find a step that is smaller than the round trip plus the drift, or that happened
// before the first reading. The zero Watch has no reading. A Watch is not safe for concurrent use.
type Watch struct {
	// Invariant: if read is true, the offset at the time at lay between lo and hi, or outside
	// by the Constant at most.
	lo, hi, at time.Duration
	read       bool
}

// slew is how fast two good clocks may run apart: ntpd slews each of them by 500 ppm. Observe uses
// it in place of a smaller drift factor. Otherwise it would suspect every master.
const slew = 0.001

// Observe takes a reading. master is what the master answered to TIME, since 1970. sent and received
// are when the client sent the request and received the answer, on its own clock. Observe returns 0
// if the reading fits. Otherwise it returns how far the reading lies outside of what is allowed,
// and begins anew from this reading.
func (w *Watch) Observe(sent, received, master time.Duration, drift Drift) time.Duration {
	lo, hi := master-received, master-sent
	off := time.Duration(0)
	if w.read {
		share := Drift{Factor: max(drift.Factor, slew)}.Of(received - w.at)
		low, high := w.lo-share, w.hi+share
		switch off = max(low-hi, lo-high, 0); {
		case off > drift.Constant:
			off -= drift.Constant
		case off > 0:
			lo, hi, off = low, high, 0
		default:
			lo, hi = max(lo, low), min(hi, high)
		}
	}
	*w = Watch{lo: lo, hi: hi, at: received, read: true}
	return off
}

// Offset returns how far the master's clock is ahead of the client's: the middle of what all readings
// allow. ok is false before the first reading.
func (w *Watch) Offset() (offset time.Duration, ok bool) { return w.lo + (w.hi-w.lo)/2, w.read }
