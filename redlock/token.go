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

// settleToken finds the token of a round that was won: the largest counted vote,
// on a quorum of masters whose counter has reached it while the vote was held. A
// master counts where its vote is the token, or where a script found the vote
// still held and raised the counter (docs/safety.md, rules R3 to R5).
//
// Invariant: a vote above the token is not counted. It can only be one that
// arrives after this looked, and it is not looked at again.
//
// Readers raise the counters side by side, so one may be overtaken: it is told so by
// the error, and its attempt is lost as one of two that came at the same time.
func (c *Client) settleToken(ctx context.Context, b *quorumCall, l *protocol.Lock, holder string, timeout time.Duration) (int64, counting.Verdict, error) {
	t := b.tokens()
	c.tokens.Saw(t.Max)
	missing := c.need - bits.OnesCount64(t.Agree)
	if missing <= 0 || mutants.NoWriteBack {
		return t.Max, counting.Won, nil
	}
	c.stats.secondRounds.Add(1)
	now := c.clock.Elapsed()
	confirm := c.poll(t.Below, missing, &protocol.Request{
		Kind: protocol.Confirm, Lock: l, Holder: holder, Token: t.Max,
		Start: now, Deadline: now + timeout,
	})
	v := confirm.await(ctx, timeout)
	var overtaken error
	if v == counting.Lost && confirm.absent() > 0 {
		// The vote is gone or another reader's token has passed ours: masters that
		// answer like that are no masters that are silent.
		overtaken = ErrHeld
	}
	confirm.done()
	return t.Max, v, overtaken
}

// tokens counts the tokens of the votes that were granted by now.
func (q *quorumCall) tokens() (t counting.Tokens) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.ops {
		if r := &q.ops[i].Reply; q.answered&(1<<i) != 0 && r.Outcome == protocol.Granted {
			t.Add(i, r.Token)
		}
	}
	return t
}
