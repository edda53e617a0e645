// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// settleToken finds the token of a round that was won, the largest counted vote, and the masters
// that stand for it. A quorum of masters must have the token. A master has it if its vote is the token, or if a script found
// the vote still held and raised the master's counter (docs/safety.md, "Fencing tokens", R3 to
// R5).
//
// Invariant: a vote above the token is not counted. A vote that arrives after this point is
// ignored.
//
// Readers of one lock raise the counters at the same time, so another reader's token may pass
// this one. The attempt is lost then, and the error is ErrHeld.
func (r *round) settleToken() (token int64, stand uint64, v counting.Verdict, overtaken error) {
	c, t := r.c, r.b.Tokens()
	c.tokens.Saw(t.Max)
	missing := c.masters.Need - bits.OnesCount64(t.Agree)
	if r.ls.minHold > 0 {
		return r.settleAtRest(t)
	}
	if missing <= 0 {
		return t.Max, t.Agree, counting.Won, nil
	}
	if mutants.NoWriteBack {
		return t.Max, t.Agree | t.Below, counting.Won, nil
	}
	c.stats.secondRounds.Add(1)
	confirm := r.confirm(t.Below, missing, t.Max, 0)
	v = confirm.Await(r.ctx, r.timeout)
	if v == counting.Lost && confirm.Absent() > 0 {
		// The vote is gone, or another reader's token has passed this one. These
		// masters have answered, so the error must not call them silent.
		overtaken = ErrHeld
	}
	confirmed, _, _ := confirm.Sets()
	confirm.Done()
	return t.Max, t.Agree | confirmed, v, overtaken
}

// settleAtRest settles the token of a lock with a minimum hold. By the same trip each master that gave its vote has the lock rest:
// it gives no vote to anybody else before the minimum hold is over, whatever becomes of this one. A quorum of masters must have
// said so. All masters are asked: one that has not answered the acquire yet may have voted by the time that it reads this.
//
// A master stands for the token if its vote is the token, or if it confirmed and its vote is smaller (R3 and R4).
func (r *round) settleAtRest(t counting.Tokens) (token int64, stand uint64, v counting.Verdict, overtaken error) {
	c := r.c
	r.lift = r.holder
	confirm := r.confirm(c.masters.All, c.masters.Need, t.Max, roundUp(r.ls.minHold))
	defer confirm.Done()
	v = confirm.Await(r.ctx, r.timeout)
	rests, _, _ := confirm.Sets()
	stand = t.Agree | rests&r.b.VotesUpTo(t.Max)
	if v == counting.Won && bits.OnesCount64(stand) >= c.masters.Need {
		return t.Max, stand, v, nil
	}
	return t.Max, stand, counting.Lost, errNoRest
}

// errNoRest is why a round with enough votes gave no lease of a lock with a minimum hold.
var errNoRest = fmt.Errorf("%w: too few confirmed that the lock rests for its minimum hold", ErrUnreachable)

// roundUp is d in whole milliseconds, as the masters get it.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// confirm asks the masters in the set to confirm the round's votes with the token, and to have the lock rest for rests.
func (r *round) confirm(set uint64, need int, token int64, rests time.Duration) *quorum.Call {
	now := r.c.clock.Elapsed()
	return r.c.masters.Poll(set, need, &protocol.Request{Kind: protocol.Confirm, Lock: r.l, Holder: r.holder, Token: token, Rest: rests,
		Start: now, Deadline: now + r.timeout})
}
