// SPDX-License-Identifier: Apache-2.0

package clock

import "time"

// Watch holds one master's clock against ours. Each reading of the master's TIME
// bounds the offset between the two clocks by the round trip it took; a later
// reading must fit those bounds, widened by the drift's share of the time between,
// to within the drift's constant. One that does not fit tells that the master's
// clock, by which its votes expire, was stepped or runs too fast or slow
// (docs/safety.md A3, A4).
//
// The constant is allowed once, not again with each reading: a clock that gains a
// little between any two readings, too little to be seen then, is seen when it has
// gained more than the constant.
//
// It cannot tell a step that is smaller than round trip plus drift, nor one that
// happened before its first reading. The zero Watch has read nothing. Not safe
// for concurrent use.
type Watch struct {
	// Invariant: once read, at time at the offset lay in [lo, hi], or outside by the
	// constant at most.
	lo, hi, at time.Duration
	read       bool
}

// slew is how fast two good clocks may part: ntpd slews each by 500 ppm. A drift that
// allows for less is taken for this much here, or every master would be suspected.
const slew = 0.001

// Observe takes a reading: the master said master (since 1970) to a request sent
// at sent and answered at received, on our clock. It returns 0 when the reading
// fits, or how far outside of what it may be it is. The watch then starts anew
// from this reading.
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
