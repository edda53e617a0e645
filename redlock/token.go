// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// maxToken keeps tokens where Lua's numbers are exact (docs/safety.md A30).
const maxToken = 1<<53 - 2

// tokenSource proposes tokens: microseconds since 1970, above every token seen.
// When all masters take one proposal their votes agree, and one round trip is
// enough. Nothing rests on it: a proposal that a master does not take costs a
// second round trip, no more.
type tokenSource struct {
	granted  atomic.Int64 // the largest token seen
	proposed atomic.Int64
}

func (s *tokenSource) propose(wall time.Time) int64 {
	floor := max(s.granted.Load()+1, wall.UnixMicro())
	for {
		last := s.proposed.Load()
		// Attempts of one client in the same microsecond would collide on the
		// counters that their locks share.
		if d := last - floor; d >= 0 && d < 1000 {
			floor = last + 1
		}
		if s.proposed.CompareAndSwap(last, floor) {
			return min(floor, maxToken)
		}
	}
}

func (s *tokenSource) saw(token int64) {
	for {
		last := s.granted.Load()
		if token <= last || s.granted.CompareAndSwap(last, token) {
			return
		}
	}
}

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
func (c *Client) settleToken(ctx context.Context, b *quorumCall, l *protocol.Lock, holder string, timeout time.Duration) (int64, verdict, error) {
	token, agree, below := b.tokens()
	c.tokens.saw(token)
	missing := c.need - bits.OnesCount64(agree)
	if missing <= 0 || mutants.NoWriteBack {
		return token, won, nil
	}
	c.stats.secondRounds.Add(1)
	now := c.clock.Elapsed()
	confirm := c.poll(below, missing, &protocol.Request{
		Kind: protocol.Confirm, Lock: l, Holder: holder, Token: token,
		Start: now, Deadline: now + timeout,
	})
	v := confirm.await(ctx, timeout)
	var overtaken error
	if v == lost && confirm.absent() > 0 {
		// The vote is gone or another reader's token has passed ours: masters that
		// answer like that are no masters that are silent.
		overtaken = ErrHeld
	}
	confirm.done()
	return token, v, overtaken
}

// tokens looks at the votes once: the largest, who gave it, and who gave less.
func (b *quorumCall) tokens() (token int64, agree, below uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.ops {
		if b.answered&(1<<i) == 0 || b.ops[i].Reply.Outcome != protocol.Granted {
			continue
		}
		switch t := b.ops[i].Reply.Token; {
		case t > token:
			token, agree, below = t, 1<<i, below|agree
		case t == token:
			agree |= 1 << i
		default:
			below |= 1 << i
		}
	}
	return token, agree, below
}
