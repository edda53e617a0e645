// SPDX-License-Identifier: Apache-2.0

package clock

import "time"

// Watch holds one master's clock against ours. Each reading of the master's TIME
// bounds the offset between the two clocks by the round trip it took; a later
// reading must fit those bounds, widened by what drift allows for the time
// between. One that does not fit tells that the master's clock, by which its
// votes expire, was stepped or runs too fast or slow (docs/safety.md A3, A4).
//
// It cannot tell a step that is smaller than round trip plus drift, nor one that
// happened before its first reading. The zero Watch has read nothing. Not safe
// for concurrent use.
type Watch struct {
	// Invariant: once read, at time at the offset lay in [lo, hi].
	lo, hi, at time.Duration
	read       bool
}

// Observe takes a reading: the master said master (since 1970) to a request sent
// at sent and answered at received, on our clock. It returns 0 when the reading
// fits, or how far outside of what it may be it is. The watch then starts anew
// from this reading.
func (w *Watch) Observe(sent, received, master time.Duration, drift Drift) time.Duration {
	lo, hi := master-received, master-sent
	gap := time.Duration(0)
	if w.read {
		slack := drift.Of(received - w.at)
		switch {
		case hi < w.lo-slack:
			gap = w.lo - slack - hi
		case lo > w.hi+slack:
			gap = lo - w.hi - slack
		default:
			lo, hi = max(lo, w.lo-slack), min(hi, w.hi+slack)
		}
	}
	*w = Watch{lo: lo, hi: hi, at: received, read: true}
	return gap
}
