// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/hold"
	"github.com/redlock-go/redlock/internal/protocol"
)

// round is one attempt of this client, of which a lease is made or the error of a caller.
type round struct {
	*attempt.Attempt
	c  *Client
	ls *lockSettings
}

// acquire makes one round of a caller that does not wait: see conclude. req has what the kind of
// acquire adds, as a write vote to join.
func (c *Client) acquire(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request) (*Lease, error) {
	if err := c.enter(ctx, l); err != nil {
		return nil, err
	}
	defer c.lines.Leave()
	a := c.newAttempt(ctx, l, ls, req)
	a.Call.Send(c.masters.All)
	r := round{&a, c, ls}
	return r.conclude()
}

// enter counts a round of a caller that does not wait, until lines.Leave, or returns why no round may begin.
func (c *Client) enter(ctx context.Context, l *protocol.Lock) error {
	if ctx.Err() != nil {
		return gaveUp(ctx, l, nil)
	}
	if err := c.over(); err != nil {
		return err
	}
	return c.lines.Enter()
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

// newAttempt makes a round in which no master has been asked.
func (c *Client) newAttempt(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request) attempt.Attempt {
	if req.Kind != protocol.Adopt && (req.Wait == nil || !req.Wait.Only) { // those ask for no votes
		c.stats.rounds.Add(1)
	}
	set := attempt.Settings{TTL: ls.ttl, MinValidity: ls.minValidity, MinHold: ls.minHold, Whole: ls.fixed}
	return c.tries.Begin(ctx, l, set, req)
}

// conclude waits for the masters' answers when all were asked, for a caller that does not wait
// for the lock. It returns a lease, or a *RoundError, or the caller's own ctx error. If there is
// no lease, every master that granted in time has released its vote. The other masters are sent
// the release behind the acquire.
func (r *round) conclude() (*Lease, error) {
	v := r.Call.Await(r.Ctx, r.Timeout)
	lease, end := r.win(v)
	if lease != nil {
		return lease, nil
	}
	err := r.failed(end, false)
	r.GiveBack()
	return nil, r.why(end, err)
}

// win settles the token of a round with the verdict v. It returns a lease, or how the round ended.
func (r *round) win(v counting.Verdict) (*Lease, attempt.Lost) {
	won, lost, ok := r.Win(v)
	if !ok {
		return nil, lost
	}
	if lease := r.grant(&won); lease != nil {
		return lease, lost
	}
	return nil, attempt.Lost{Verdict: counting.Won, Took: won.Granted - r.Start} // the client was closed, or its clock jumped
}

// grant is a hold and its first lease, which are nearly always the only ones: one allocation.
type grant struct {
	hold  hold.Hold
	first Lease
}

// grant makes a lease of a round that was won. It returns nil if the client is over.
func (r *round) grant(won *attempt.Won) *Lease {
	c, ls := r.c, r.ls
	g := &grant{first: Lease{c: c, parent: r.Ctx}}
	g.hold.Init(c.renewer, won, ls.terms(), &g.first.share)
	renewAt := won.From + ls.every()
	if won.Short {
		renewAt = min(renewAt, won.Granted+(won.Until-won.Granted)/3)
	}
	if !c.renewer.Add(&g.hold, renewAt) {
		return nil
	}
	c.stats.granted.Add(1)
	return &g.first
}

// failed returns what a round found that gave no lease. waits says that its caller goes on waiting
// for the lock, and does not listen to slow masters: they would keep it from hearing its wake.
func (r *round) failed(end attempt.Lost, waits bool) *RoundError {
	c, b := r.c, r.Call
	if end.Verdict == counting.Lost {
		// Without a quorum of answers nobody knows whether the lock is held or the
		// masters are out of reach.
		b.Hear(r.Ctx, c.masters.Need, r.Timeout-end.Took)
	}
	err := c.roundError(r.Lock, b.Replies())
	goesOn := waits && r.Ctx.Err() == nil && (errors.Is(err, ErrHeld) || errors.Is(err, ErrRecovering))
	if end.Verdict == counting.Lost && !goesOn {
		r.HearOut(end.Took)
		err = c.roundError(r.Lock, b.Replies())
	}
	err.hurried = r.Timeout < c.masters.RoundTimeout(context.Background(), r.ls.ttl)
	return err
}

// why is the error of a round that ended so and failed for err.
func (r *round) why(end attempt.Lost, err *RoundError) error {
	switch {
	case r.Ctx.Err() != nil:
		return gaveUp(r.Ctx, r.Lock, err)
	case r.c.over() != nil:
		return r.c.over()
	case end.Verdict == counting.Won:
		err.Elapsed = end.Took
	case end.Overtaken != nil && err.Granted >= r.c.masters.Need:
		err.kind = end.Overtaken
	}
	return err
}
