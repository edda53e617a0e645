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
