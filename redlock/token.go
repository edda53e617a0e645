// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/counting"
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
func (c *Client) settleToken(ctx context.Context, b *quorumCall, l *protocol.Lock, holder string, timeout time.Duration) (token int64, stand uint64, v counting.Verdict, overtaken error) {
	t := b.tokens()
	c.tokens.Saw(t.Max)
	missing := c.need - bits.OnesCount64(t.Agree)
	if missing <= 0 {
		return t.Max, t.Agree, counting.Won, nil
	}
	if mutants.NoWriteBack {
		return t.Max, t.Agree | t.Below, counting.Won, nil
	}
	c.stats.secondRounds.Add(1)
	now := c.clock.Elapsed()
	confirm := c.poll(t.Below, missing, &protocol.Request{
		Kind: protocol.Confirm, Lock: l, Holder: holder, Token: t.Max,
		Start: now, Deadline: now + timeout,
	})
	v = confirm.await(ctx, timeout)
	if v == counting.Lost && confirm.absent() > 0 {
		// The vote is gone, or another reader's token has passed this one. These
		// masters have answered, so the error must not call them silent.
		overtaken = ErrHeld
	}
	confirmed, _, _ := confirm.sets()
	confirm.done()
	return t.Max, t.Agree | confirmed, v, overtaken
}

// tokens counts the tokens of the votes that were granted by now.
func (q *quorumCall) tokens() (t counting.Tokens) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		if r := &q.ops[i].Reply; q.handed&(1<<i) != 0 {
			t.Add(i, q.votes[i].token)
		} else if q.answered&(1<<i) != 0 && r.Outcome == protocol.Granted {
			t.Add(i, r.Token)
		}
	}
	return t
}
