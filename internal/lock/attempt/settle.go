// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// settle finds the token of an attempt that was won, the largest counted vote, and the masters
// that stand for it. A quorum of masters must have the token. A master has it if its vote is the token, or if a script found
// the vote still held and raised the master's counter (docs/safety.md, "Fencing tokens", R3 to
// R5).
//
// Invariant: a vote above the token is not counted. A vote that arrives after this point is
// ignored.
//
// Readers of one lock raise the counters at the same time, so another reader's token may pass
// this one. The attempt is lost then, and overtaken is errs.ErrHeld.
func (a *Attempt) settle() (token int64, stand uint64, v counting.Verdict, overtaken error) {
	t := a.Call.Tokens()
	a.t.Tokens.Saw(t.Max)
	missing := a.t.Masters.Need - bits.OnesCount64(t.Agree)
	if a.set.MinHold > 0 {
		return a.settleAtRest(t)
	}
	if missing <= 0 {
		return t.Max, t.Agree, counting.Won, nil
	}
	if mutants.NoWriteBack {
		return t.Max, t.Agree | t.Below, counting.Won, nil
	}
	a.t.SecondRounds.Add(1)
	confirm := a.confirm(t.Below, missing, t.Max, 0)
	v = confirm.Await(a.Ctx, a.Timeout)
	if v == counting.Lost && confirm.Absent() > 0 {
		// The vote is gone, or another reader's token has passed this one. These
		// masters have answered, so the error must not call them silent.
		overtaken = errs.ErrHeld
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
func (a *Attempt) settleAtRest(t counting.Tokens) (token int64, stand uint64, v counting.Verdict, overtaken error) {
	m := a.t.Masters
	a.lift = a.Holder
	confirm := a.confirm(m.All, m.Need, t.Max, roundUp(a.set.MinHold))
	defer confirm.Done()
	v = confirm.Await(a.Ctx, a.Timeout)
	rests, _, _ := confirm.Sets()
	stand = t.Agree | rests&a.Call.VotesUpTo(t.Max)
	if v == counting.Won && bits.OnesCount64(stand) >= m.Need {
		return t.Max, stand, v, nil
	}
	return t.Max, stand, counting.Lost, errNoRest
}

// errNoRest is why an attempt with enough votes was not granted a lock with a minimum hold.
var errNoRest = fmt.Errorf("%w: too few confirmed that the lock rests for its minimum hold", errs.ErrUnreachable)

// roundUp is d in whole milliseconds, as the masters get it.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// confirm asks the masters in the set to confirm the attempt's votes with the token, and to have the lock rest for rests.
func (a *Attempt) confirm(set uint64, need int, token int64, rests time.Duration) *quorum.Call {
	m := a.t.Masters
	now := m.Clock.Elapsed()
	return m.Poll(set, need, &protocol.Request{Kind: protocol.Confirm, Lock: a.Lock, Holder: a.Holder, Token: token, Rest: rests,
		Start: now, Deadline: now + a.Timeout})
}
