// SPDX-License-Identifier: Apache-2.0

package counting

import (
	"sync/atomic"
	"time"
)

// MaxToken is the largest token. Lua's numbers are exact up to it (docs/safety.md A30).
const MaxToken = 1<<53 - 2

// TokenSource proposes tokens: microseconds since 1970, above every token seen. If all
// masters take one proposal, their votes agree and one round trip is enough. Safety does not
// depend on the proposal: if a master refuses it, the round costs a second round trip.
//
// A TokenSource is safe for concurrent use.
type TokenSource struct {
	granted  atomic.Int64 // the largest token seen
	proposed atomic.Int64
}

// Propose returns the next proposal at the time of day wall.
func (s *TokenSource) Propose(wall time.Time) int64 {
	floor := max(s.granted.Load()+1, wall.UnixMicro())
	for {
		last := s.proposed.Load()
		// Attempts of one client in the same microsecond would collide on the
		// counters that their locks share.
		if d := last - floor; d >= 0 && d < 1000 {
			floor = last + 1
		}
		if s.proposed.CompareAndSwap(last, floor) {
			return min(floor, MaxToken)
		}
	}
}

// Saw notes a token that a master gave. Later proposals are larger.
func (s *TokenSource) Saw(token int64) {
	for {
		last := s.granted.Load()
		if token <= last || s.granted.CompareAndSwap(last, token) {
			return
		}
	}
}

// Tokens are the tokens of a round's granted votes. The zero value has none.
type Tokens struct {
	Max   int64  // the largest token of a counted vote, which is the token of the round
	Agree uint64 // the masters whose vote has it
	Below uint64 // the masters whose vote has a smaller one
}

// Add counts the vote of master i.
func (t *Tokens) Add(i int, token int64) {
	switch {
	case token > t.Max:
		t.Max, t.Agree, t.Below = token, 1<<i, t.Below|t.Agree
	case token == t.Max:
		t.Agree |= 1 << i
	default:
		t.Below |= 1 << i
	}
}
