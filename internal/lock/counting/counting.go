// SPDX-License-Identifier: Apache-2.0

// Package counting counts votes and tokens. It is pure: no type of it reads a clock, opens a
// socket or starts a goroutine, and package redlock tells it everything that it counts.
//
//   - [Tally] says when a quorum call is won or lost.
//   - [Tokens] finds the token of a round that was won, and the masters that still need it.
//   - [TokenSource] proposes tokens.
//   - [FreeAfter] says when a quorum could be free.
//
// To change when a round is won, change [Tally.Verdict]. To change which token a lease gets,
// change [Tokens.Add] and read docs/safety.md, "Fencing tokens", first.
//
// Sets of masters are bits of a uint64. Bit i is the i-th configured master.
package counting

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// MaxMasters is the largest number of masters that a set has room for.
const MaxMasters = 63

// Verdict is the outcome of a vote.
type Verdict uint8

const (
	Pending Verdict = iota // more votes may decide it either way
	Won                    // enough voters said yes; the other voters cannot change that
	Lost                   // too few voters are left that could say yes
)

var verdicts = [...]string{"pending", "won", "lost"}

func (v Verdict) String() string {
	if int(v) >= len(verdicts) {
		return "?"
	}
	return verdicts[v]
}

// Quorum is the majority of n configured masters. It counts masters that are out of reach,
// because two clients may reach different masters.
func Quorum(n int) int { return n/2 + 1 }

// Tally counts yes and no. Voters is how many masters may vote, Need is how many of them
// must say yes.
//
// Invariant: Yes + No <= Voters, and 0 < Need <= Voters where Verdict is asked for.
type Tally struct {
	Voters, Need int
	Yes, No      int
}

// Add counts one vote.
func (t *Tally) Add(yes bool) {
	if yes {
		t.Yes++
	} else {
		t.No++
	}
}

// Retract takes back a no of a master that is asked again.
func (t *Tally) Retract() { t.No-- }

// All says whether every voter has voted.
func (t *Tally) All() bool { return t.Yes+t.No == t.Voters }

// Verdict decides as early as possible. The vote is won at the Need-th yes. It is lost at the
// first no that leaves fewer than Need voters which could say yes.
func (t *Tally) Verdict() Verdict {
	switch {
	case t.Yes >= t.Need:
		return Won
	case t.Voters-t.No < t.Need:
		return Lost
	}
	return Pending
}

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

// Propose returns the next proposal at the time of day wall. It is that far above the one before, in a burst.
func (s *TokenSource) Propose(wall time.Time, apart int64) int64 {
	floor := max(s.granted.Load()+1, wall.UnixMicro())
	for {
		last := s.proposed.Load()
		// Attempts of one client in the same microsecond would collide on the
		// counters that their locks share.
		if d := last - floor; d >= 0 && d < 1000*ReadersApart {
			floor = last + apart
		}
		if s.proposed.CompareAndSwap(last, floor) {
			return min(floor, MaxToken)
		}
	}
}

// ReadersApart is how far a client's proposals for readers are from one another. A master that got requests of readers the other way round counts past
// what one of them proposed, by as many as there were. Were the next proposal not above that, its vote would be larger there than elsewhere, and be
// that of the proposal after it: no reader of the burst would have its token confirmed. Those that exclude each other have no need of it, and with 64 a
// busy client's tokens would outrun the clock.
const ReadersApart = 8

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

// FreeAfter is the shortest time after which need masters may grant. It is the need-th
// smallest of the times that the masters have left:
//
//   - a master that granted is free at once;
//   - a master that holds the lock for another is free when that vote's TTL is over;
//   - a master that recovers is free after its wait, which waits has;
//   - a master that did not answer, or that holds a key without TTL, is never free.
//
// FreeAfter is 0 when fewer than need masters will be free.
func FreeAfter(replies []protocol.Reply, waits []time.Duration, need int) time.Duration {
	left := slices.Clone(waits)
	for _, r := range replies {
		switch {
		case r.Outcome == protocol.Granted:
			left = append(left, 0)
		case r.Outcome == protocol.Held && r.Remaining >= 0:
			left = append(left, r.Remaining)
		}
	}
	if len(left) < need {
		return 0
	}
	slices.Sort(left)
	return left[need-1]
}

// Until is how long a quorum of votes lasts that end at ends: the need-th latest of them. It is 0
// if there are fewer. Votes end at different times when a master handed some of them.
func Until(ends []time.Duration, need int) time.Duration {
	if len(ends) < need {
		return 0
	}
	slices.Sort(ends)
	return ends[len(ends)-need]
}
