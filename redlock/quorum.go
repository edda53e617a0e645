// SPDX-License-Identifier: Apache-2.0

package redlock

// verdict of a vote.
type verdict uint8

const (
	pending verdict = iota // more votes may decide it either way
	won                    // enough said yes; the rest cannot change that
	lost                   // enough can no longer be reached
)

var verdicts = [...]string{"pending", "won", "lost"}

func (v verdict) String() string {
	if int(v) >= len(verdicts) {
		return "?"
	}
	return verdicts[v]
}

// quorum is the majority of n configured masters, reachable or not.
func quorum(n int) int { return n/2 + 1 }

// tally counts votes and knows nothing of who gave them, of time or of sockets.
// voters is everybody who may vote, need how many must say yes.
//
// Invariant: 0 < need <= voters and yes + no <= voters.
type tally struct {
	voters, need int
	yes, no      int
}

func (t *tally) add(yes bool) {
	if yes {
		t.yes++
	} else {
		t.no++
	}
}

// verdict is decided as early as it can be: won at the need-th yes, lost with
// the first no that leaves fewer than need voters to say yes.
func (t *tally) verdict() verdict {
	switch {
	case t.yes >= t.need:
		return won
	case t.voters-t.no < t.need:
		return lost
	}
	return pending
}
