// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/hold"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
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
	return max(min(remain/time.Duration(len(c.masters.Nodes)), c.timeout()), time.Millisecond)
}

// round is one acquire on its way (docs/algorithm.md).
type round struct {
	c       *Client
	ctx     context.Context
	l       *protocol.Lock
	ls      *lockSettings
	holder  string
	start   time.Duration
	asked   time.Duration // when the last master was asked
	timeout time.Duration
	b       *quorum.Call
	slept   bool   // its caller slept while it was open: the masters were given their time to answer
	lift    string // the holder, if masters were asked to have the lock rest; else empty
}

// acquire makes one round of a caller that does not wait: see conclude. req has what the kind of
// acquire adds, as a write vote to join.
func (c *Client) acquire(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request) (*Lease, error) {
	if err := c.mayLock(ctx, l); err != nil {
		return nil, err
	}
	if err := c.waiting.enter(); err != nil {
		return nil, err
	}
	defer c.waiting.callers.Done()
	r := c.prepare(ctx, l, ls, req)
	r.b.Send(c.masters.All)
	return r.conclude()
}

// mayLock returns why no round may begin, or nil.
func (c *Client) mayLock(ctx context.Context, l *protocol.Lock) error {
	if ctx.Err() != nil {
		return gaveUp(ctx, l, nil)
	}
	return c.over()
}

// mayAsk returns why the masters may not be asked about a lock, or nil.
func (c *Client) mayAsk(ctx context.Context, l *protocol.Lock) error {
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
	return c.newAttempt(ctx, l, ls, req)
}

// newAttempt makes a holder id and its call.
func (c *Client) newAttempt(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request) round {
	r := round{c: c, ctx: ctx, l: l, ls: ls, holder: c.nextHolder(), start: c.clock.Elapsed(), timeout: c.roundTimeout(ctx, ls.ttl)}
	r.asked = r.start
	req.Kind, req.Lock, req.Holder, req.TTL = protocol.Acquire, l, r.holder, ls.ttl
	req.Token = c.tokens.Propose(c.clock.Wall())
	req.Start, req.Deadline = r.start, r.start+r.timeout
	r.b = c.masters.Call(c.masters.Need, req)
	return r
}

// conclude waits for the masters' answers when all were asked, for a caller that does not wait
// for the lock. It returns a lease, or a *RoundError, or the caller's own ctx error. If there is
// no lease, every master that granted in time has released its vote. The other masters are sent
// the release behind the acquire.
func (r *round) conclude() (*Lease, error) {
	v := r.b.Await(r.ctx, r.timeout)
	lease, end := r.win(v)
	if lease != nil {
		return lease, nil
	}
	err := r.failed(end, false)
	r.giveBack()
	return nil, r.why(end, err)
}

// ending is how a round ended that gave no lease.
type ending struct {
	verdict   counting.Verdict
	took      time.Duration
	overtaken error // why the votes did not get a token; nil if that is not why
}

// win settles the token of a round with the verdict v. It returns a lease, or how the round ended.
func (r *round) win(v counting.Verdict) (*Lease, ending) {
	c := r.c
	var token int64
	var stand uint64
	var overtaken error
	if v == counting.Won {
		token, stand, v, overtaken = r.settleToken()
	}
	now := c.clock.Elapsed() // after the last counted reply (Redlock page, step 3)
	if mutants.NoElapsedCheck {
		r.start = now
	}
	if v == counting.Won {
		if lease := r.grant(token, stand, now); lease != nil {
			return lease, ending{}
		}
	}
	return nil, ending{v, now - r.start, overtaken}
}

// grant is a hold and its first lease, which are nearly always the only ones: one allocation.
type grant struct {
	hold  hold.Hold
	first Lease
}

// grant makes a lease of a round that was won, with the token that it settled, if enough of
// the validity is left at now. Else it returns nil. stand are the masters that stand for the token.
// Only their votes count, each for as long as it lasts: a master whose vote has ended may have
// forgotten the token since (H18 in docs/handoff.md).
//
// A cancel that races a win wins: a lease is never given for a context that is done. So when
// Lock returns no error the caller still wants the lock.
func (r *round) grant(token int64, stand uint64, now time.Duration) *Lease {
	c, ls := r.c, r.ls
	full := c.drift.Validity(ls.ttl, 0)
	from, until := hold.Lasts(r.b, c.masters.Need, stand&c.masters.All, r.start, full)
	short := until-from < full // a quorum needs votes that a master handed, which end sooner
	// A lease that is not renewed must have its whole TTL.
	if until-now <= ls.minValidity || short && ls.fixed || r.ctx.Err() != nil {
		return nil
	}
	g := &grant{first: Lease{c: c, parent: r.ctx}}
	g.hold.Init(c.renewer, hold.Won{Lock: r.l, Holder: r.holder, Token: token, From: from, Until: until, Granted: now, Call: r.b},
		ls.terms(), &g.first.share)
	renewAt := from + ls.every()
	if short {
		renewAt = min(renewAt, now+(until-now)/3)
	}
	if !c.renewer.Add(&g.hold, renewAt) {
		return nil
	}
	c.stats.granted.Add(1)
	return &g.first
}

// failed returns what a round found that gave no lease. waits says that its caller goes on waiting
// for the lock, and does not listen to slow masters: they would keep it from hearing its wake.
func (r *round) failed(end ending, waits bool) *RoundError {
	c, b := r.c, r.b
	if end.verdict == counting.Lost {
		// Without a quorum of answers nobody knows whether the lock is held or the
		// masters are out of reach.
		b.Hear(r.ctx, c.masters.Need, r.timeout-end.took)
	}
	err := c.roundError(r.l, b.Replies())
	goesOn := waits && r.ctx.Err() == nil && (errors.Is(err, ErrHeld) || errors.Is(err, ErrRecovering))
	if end.verdict == counting.Lost && !goesOn {
		r.hearOut(end.took)
	}
	err = c.roundError(r.l, b.Replies())
	err.hurried = r.timeout < c.roundTimeout(context.Background(), r.ls.ttl)
	return err
}

// why is the error of a round that ended so and failed for err.
func (r *round) why(end ending, err *RoundError) error {
	switch {
	case r.ctx.Err() != nil:
		return gaveUp(r.ctx, r.l, err)
	case r.c.over() != nil:
		return r.c.over()
	case end.verdict == counting.Won:
		err.Elapsed = end.took
	case end.overtaken != nil && err.Granted >= r.c.masters.Need:
		err.kind = end.overtaken
	}
	return err
}

// giveBack releases what a round that gave no lease may have taken: votes, and places in queues.
// It waits for the masters that granted. If the caller's time was over before the masters had theirs
// to answer, it waits for those that may have granted too.
func (r *round) giveBack() {
	c, b := r.c, r.b
	b.End()
	granted, maybe, _ := b.Sets()
	places := b.Places()
	if r.ctx.Err() != nil && !r.slept {
		granted = maybe
	}
	if mutants.KeepPlaces {
		places = 0
	}
	if mutants.ReleaseOnCaller && r.ctx.Err() != nil {
		maybe, places = 0, 0
	}
	req := r.releases(places != 0)
	c.release(r.ctx, req, maybe&granted, (maybe|places)&^granted)
	b.Done()
}

// releases is the request that gives back what the round took. A rest that masters may have put is lifted: nobody has used the
// lock. That is tried for as long as the rest lasts, because else nobody could have the lock although nothing was done.
func (r *round) releases(places bool) *protocol.Request {
	req := &protocol.Request{Kind: protocol.Release, Lock: r.l, Holder: r.holder, Lift: r.lift, Deadline: r.start + r.ls.ttl + r.c.drift.Of(r.ls.ttl)}
	if r.lift != "" {
		req.Deadline = max(req.Deadline, r.c.masters.RestOver(r.ls.minHold))
	}
	if places {
		req.Deadline = max(req.Deadline, r.c.clock.Elapsed()+hold.LeaveFor)
	}
	return req
}

// hearOut waits, after a round that was lost after took, for the masters that have not answered.
// It waits for a few times as long, so that the error does not call a slow master silent.
func (r *round) hearOut(took time.Duration) {
	r.b.Hear(r.ctx, quorum.Everybody, min(max(3*took, hearOutMin), hearOutMax, r.timeout-took))
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
		c.masters.Poll(others, 0, req).Done()
	}
	if granted == 0 {
		return
	}
	timeout := c.timeout()
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(min(time.Until(deadline), timeout), 0)+releaseGrace)
	}
	b := c.masters.Poll(granted, 0, req)
	b.Await(context.Background(), timeout)
	b.Done()
}
