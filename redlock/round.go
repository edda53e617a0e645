// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/counting"
	"github.com/redlock-go/redlock/redlock/internal/holding"
)

// releaseGrace is how long after its caller's deadline a round that gave no lease waits for its
// releases. A master that answers at all has answered by then.
const releaseGrace = 3 * time.Millisecond

// roundTimeout is how long a round waits for silent masters. It is what is left of the caller's
// time, or the TTL if that is less, divided by the number of masters. It is 1 ms or more, and
// the node timeout or less.
func (c *Client) roundTimeout(ctx context.Context, ttl time.Duration) time.Duration {
	remain := ttl
	if deadline, ok := ctx.Deadline(); ok {
		remain = min(remain, time.Until(deadline))
	}
	return max(min(remain/time.Duration(len(c.nodes)), c.nodeTimeout), time.Millisecond)
}

// round is one acquire on its way (docs/algorithm.md).
type round struct {
	c       *Client
	ctx     context.Context
	l       *protocol.Lock
	ls      *lockSettings
	holder  string
	start   time.Duration
	timeout time.Duration
	b       *quorumCall
}

// acquire makes one round: see conclude. ct is the contender of a caller that waits, and says
// when each master is asked. If ct is nil, all masters are asked at once.
//
// req has what the kind of acquire adds: a place in the queue, or a write vote to join.
func (c *Client) acquire(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request, ct *contender) (*Lease, []protocol.Reply, error) {
	if err := c.mayLock(ctx, l); err != nil {
		return nil, nil, err
	}
	r := c.prepare(ctx, l, ls, req)
	if ct == nil {
		r.b.send(c.all)
	} else {
		ct.askWhenWoken(&r)
	}
	return r.conclude(ct)
}

// mayLock returns why no round may begin, or nil.
func (c *Client) mayLock(ctx context.Context, l *protocol.Lock) error {
	switch {
	case ctx.Err() != nil:
		return gaveUp(ctx, l, nil)
	case c.closed.Load():
		return ErrClosed
	}
	return nil
}

// prepare makes a round in which no master has been asked.
func (c *Client) prepare(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request) round {
	c.stats.rounds.Add(1)
	r := round{c: c, ctx: ctx, l: l, ls: ls, holder: c.nextHolder(), start: c.clock.Elapsed(), timeout: c.roundTimeout(ctx, ls.ttl)}
	req.Kind, req.Lock, req.Holder, req.TTL = protocol.Acquire, l, r.holder, ls.ttl
	req.Token = c.tokens.Propose(c.clock.Wall())
	req.Start, req.Deadline = r.start, r.start+r.timeout
	r.b = c.newQuorumCall(c.need, req)
	return r
}

// conclude waits for the masters' answers when all were asked. It returns a lease, or a
// *RoundError with the masters' replies, or the caller's own ctx error. If there is no lease,
// every master that granted in time has released its vote. The other masters are sent the
// release behind the acquire.
//
// A contender, nil for a caller that does not wait, keeps its place on the masters
// that granted in vain. It does not wait for them to confirm the release when it is
// going to try again: a slow master would keep it from hearing its wake.
func (r *round) conclude(ct *contender) (*Lease, []protocol.Reply, error) {
	c, b := r.c, r.b
	v := b.await(r.ctx, r.timeout)
	if ct != nil {
		ct.decided(b)
	}
	var token int64
	var overtaken error
	if v == counting.Won {
		token, v, overtaken = c.settleToken(r.ctx, b, r.l, r.holder, r.timeout)
	}
	now := c.clock.Elapsed() // after the last counted reply (Redlock page, step 3)
	if mutants.NoElapsedCheck {
		r.start = now
	}
	if v == counting.Won {
		if lease := r.grant(token, now, ct); lease != nil {
			return lease, nil, nil
		}
	}
	took := now - r.start
	replies, err := r.giveBack(v, took, ct)
	switch {
	case r.ctx.Err() != nil:
		return nil, nil, gaveUp(r.ctx, r.l, err)
	case c.closed.Load():
		return nil, nil, ErrClosed
	case v == counting.Won:
		err.Elapsed = took
	case overtaken != nil && err.Granted >= c.need:
		err.kind = overtaken
	}
	return nil, replies, err
}

// grant makes a lease of a round that was won, with the token that it settled, if enough of
// the validity is left at now. Else it returns nil.
//
// A cancel that races a win wins: a lease is never given for a context that is done. So when
// Lock returns no error the caller still wants the lock.
func (r *round) grant(token int64, now time.Duration, ct *contender) *Lease {
	c, ls := r.c, r.ls
	if c.drift.Validity(ls.ttl, now-r.start) <= ls.minValidity || r.ctx.Err() != nil {
		return nil
	}
	h := &hold{c: c, l: r.l, ls: *ls, holder: r.holder, token: token, acquireCall: r.b,
		start: r.start, grant: holding.New(c.need, c.all, r.start, c.drift.Validity(ls.ttl, 0)), pos: -1}
	lease := h.leaseLocked(r.ctx)
	if !c.renewer.add(h) {
		return nil
	}
	if ct != nil {
		ct.granted(r.b)
	}
	c.stats.granted.Add(1)
	return lease
}

// giveBack releases what a round that gave no lease may have taken, and says what the masters
// answered. took is how long the round took until its verdict v.
func (r *round) giveBack(v counting.Verdict, took time.Duration, ct *contender) ([]protocol.Reply, *RoundError) {
	c, ctx, b := r.c, r.ctx, r.b
	if v == counting.Lost {
		// Without a quorum of answers nobody knows whether the lock is held or the
		// masters are out of reach.
		b.hear(ctx, c.need, r.timeout-took)
	}
	err := c.roundError(r.l, b.replies())
	goesOn := ct != nil && ctx.Err() == nil && (errors.Is(err, ErrHeld) || errors.Is(err, ErrRecovering))
	if v == counting.Lost && !goesOn {
		r.hearOut(took)
	}
	granted, maybe, _ := b.votes()
	if mutants.ReleaseOnCaller && ctx.Err() != nil {
		maybe = 0
	}
	replies := b.replies()
	err = c.roundError(r.l, replies)
	err.hurried = r.timeout < c.nodeTimeout
	req := protocol.Request{Lock: r.l, Holder: r.holder, Deadline: r.start + r.ls.ttl + c.drift.Of(r.ls.ttl)}
	if ct != nil {
		req.Wait = ct.lost(replies)
	}
	switch {
	case ctx.Err() != nil:
		granted = maybe // the masters were not given their time to answer
	case goesOn:
		granted = 0
	}
	c.release(ctx, &req, maybe&granted, maybe&^granted)
	b.done()
	return replies, err
}

// hearOut waits, after a round that was lost after took, for the masters that have not answered.
// It waits for a few times as long, so that the error does not call a slow master silent.
func (r *round) hearOut(took time.Duration) {
	r.b.hear(r.ctx, everybody, min(max(3*took, hearOutMin), hearOutMax, r.timeout-took))
}

const hearOutMin, hearOutMax = time.Millisecond, 10 * time.Millisecond

// release releases what a failed attempt may have, on all masters at once. It waits for the
// masters in granted, so that none of them has a key of the attempt when the caller goes on. A
// cancel of the caller's context does not end that wait, because a cancel is often what ended
// the attempt. The caller's deadline ends it, releaseGrace later. release does not wait for the
// masters in others, which have not answered the acquire: they execute the release after it.
func (c *Client) release(ctx context.Context, req *protocol.Request, granted, others uint64) {
	req.Kind, req.Start = protocol.Release, c.clock.Elapsed()
	if others != 0 {
		c.poll(others, 0, req).done()
	}
	if granted == 0 {
		return
	}
	timeout := c.nodeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(min(time.Until(deadline), timeout), 0)+releaseGrace)
	}
	b := c.poll(granted, 0, req)
	b.await(context.Background(), timeout)
	b.done()
}
