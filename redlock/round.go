// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/hold"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/wait"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// round is one attempt of this client, of which a lease is made or the error of a caller.
type round struct {
	*attempt.Attempt
	c  *Client
	ls *lockSettings
}

// enter is wait.Lines.Enter that tells of the call if no round may begin.
func (m *Mutex) enter(ctx context.Context) error {
	err := m.c.lines.Enter(ctx, m.l)
	if err != nil {
		m.tellAcquired(ctx, nil, err, m.c.began(), 0, false)
	}
	return err
}

// over returns why the client grants nothing any more, or nil.
func (c *Client) over() error {
	switch {
	case c.closed.Load():
		return ErrClosed
	case c.serving.Err() != nil:
		return context.Cause(c.serving)
	}
	return nil
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
	return nil, attempt.Lost{Verdict: counting.Won, Took: won.Granted - r.Start} // the client was closed, or its clock jumped, or the grant came too late
}

// grant is a hold and its first lease, which are nearly always the only ones: one allocation.
type grant struct {
	hold  hold.Hold
	first Lease
}

// grant makes a lease of a round that was won. It returns nil if the renewer takes none: see [hold.Renewer.Add].
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

// terms are the settings that a hold needs.
func (l *lockSettings) terms() hold.Terms {
	return hold.Terms{TTL: l.TTL, Every: l.every(), MaxHold: l.maxHold, MinHold: l.MinHold, Fixed: l.Fixed, Kept: l.forOrder > 0 || l.adopted}
}

// every is the renewal interval.
func (l *lockSettings) every() time.Duration {
	if l.renewSet {
		return l.renewEvery
	}
	return l.TTL / 3
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
	err.cut = r.Ctx.Err() != nil
	err.hurried = err.cut || r.Timeout < c.masters.RoundTimeout(context.Background(), r.ls.TTL) &&
		r.Timeout < max(2*attempt.HearOutMax, protocol.TripsToWait*c.trip())
	if _, _, silent := b.Sets(); silent != 0 { // who is down says so at once, however little time there is
		err.waited = c.clock.Elapsed() - r.Start
	}
	return err
}

// late returns a function that returns e, what a round of which the caller sleeps has found, with the answers that have come since, or nil. The
// votes that messages have brought meanwhile may be a quorum: then e stands.
func (r *round) late(e *RoundError) func() error {
	c, l, call := r.c, r.Lock, r.Call
	return func() error {
		if e.Unknown == 0 {
			return nil
		}
		now := c.roundError(l, call.Replies())
		if now.Unknown >= e.Unknown || now.Granted >= now.Quorum {
			return nil
		}
		now.hurried, now.waited, now.cut, e = e.hurried, e.waited, e.cut, now
		return now
	}
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

// unbounded is the outcome of a round whose context was made from ctx, and ended with a maximum wait: what the round found, unless ctx has ended.
func unbounded(ctx context.Context, lease *Lease, err error) (*Lease, error) {
	if over, _ := err.(*gaveUpError); over != nil && over.last != nil {
		err = endedMeanwhile(ctx, over.last)
	}
	if lease != nil {
		lease.rebase(ctx)
	}
	return lease, err
}

// tryAll is internals.TryAll.
func tryAll(ctx context.Context, lockers []Locker, wait time.Duration) ([]*Lease, []error) {
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if wait >= quorum.ShortestRound {
		bounded, cancel = context.WithTimeout(ctx, wait)
	}
	defer cancel()
	ms := make([]*Mutex, len(lockers))
	for i, l := range lockers {
		ms[i] = l.core()
	}
	leases, errs := make([]*Lease, len(ms)), make([]error, len(ms))
	var g errgroup.Group
	try := func(i int, get func() (*Lease, error)) {
		g.Go(func() error {
			leases[i], errs[i] = get()
			return nil
		})
	}
	reqs, last := make([]protocol.Request, len(ms)), make(map[*Client]int)
	for i, m := range ms {
		var outer *Lease
		if outer, reqs[i].JoinWrite, errs[i] = m.outer(ctx); outer != nil {
			try(i, func() (*Lease, error) { return outer.Reenter(ctx) })
		} else if errs[i] == nil {
			if errs[i] = m.enter(ctx); errs[i] == nil {
				reqs[i].More, last[m.c] = true, i
			}
		}
	}
	for _, i := range last {
		reqs[i].More = false
	}
	for i, m := range ms {
		if last, ok := last[m.c]; ok && (reqs[i].More || i == last) {
			a := m.c.tries.Begin(ctx, m.l, m.ls.Settings, &reqs[i])
			a.Ctx = bounded // the round has its whole time, and not a part of what is left: no other one may follow
			r := round{&a, m.c, &m.ls}
			r.Call.Send(m.c.masters.All)
			try(i, func() (*Lease, error) {
				defer m.c.lines.Leave()
				lease, err := r.conclude()
				lease, err = unbounded(ctx, lease, err)
				m.tellAcquired(bounded, lease, err, r.Start, 1, false)
				return lease, err
			})
		}
	}
	_ = g.Wait()
	return leases, errs
}

// waiter is one call of [Mutex.Lock]: it makes the lease of the round that wins, and the errors of those that do not.
type waiter struct {
	wait.Caller
	m     *Mutex
	lease *Lease

	// began is when it called, and told when the Observers were told of it last, if there are any.
	began, told time.Duration
	recovers    bool // the Observers were told that it waits for masters that recover
}

// newWaiter begins a call. It is not inlined, as [waiter.ended] is not, so that what it needs is not on the stack of the goroutines that wait.
//
//go:noinline
func (m *Mutex) newWaiter() *waiter {
	w := &waiter{m: m, began: m.c.began()}
	w.Face, w.Lock = w, m.l
	return w
}

// ended is the end of a call, with err.
//
//go:noinline
func (w *waiter) ended(ctx context.Context, err error) (*Lease, error) {
	w.nameHolder(err)
	w.m.tellAcquired(ctx, w.lease, err, w.began, w.Rounds, w.Waited)
	return w.lease, err
}

// Terms implements wait.Face, as all that follows.
func (w *waiter) Terms() wait.Terms {
	ls := &w.m.ls
	// For a reader a lock that readers hold is free: readers that overlap, and pass the places ahead, would keep a writer waiting for ever.
	unfair := ls.unfair && w.Lock.Mode != protocol.Read
	return wait.Terms{Unfair: unfair, Within: ls.forOrder, Patience: ls.patience}
}

func (w *waiter) Begin(ctx context.Context, place *protocol.Wait) *attempt.Attempt {
	a := w.m.c.tries.Begin(ctx, w.m.l, w.m.ls.Settings, &protocol.Request{Wait: place})
	return &a
}

func (w *waiter) TakeOver(ctx context.Context, o *attempt.Offer) *attempt.Attempt {
	a := w.m.c.tries.Begin(ctx, w.m.l, w.m.ls.Settings, o.Request())
	return &a
}

func (w *waiter) Win(a *attempt.Attempt, v counting.Verdict) (attempt.Lost, bool) {
	r := round{a, w.m.c, &w.m.ls}
	lease, end := r.win(v)
	w.lease = lease
	return end, lease != nil
}

func (w *waiter) Alone(ctx context.Context) bool {
	lease, n, _ := w.m.rounds(ctx, "")
	w.lease = lease
	w.Rounds += n
	return lease != nil
}

func (w *waiter) Failed(a *attempt.Attempt, end attempt.Lost) wait.Failed {
	r := round{a, w.m.c, &w.m.ls}
	err := r.why(end, r.failed(end, true))
	f := wait.Failed{Err: err, Final: true}
	if e := failedRound(err); e != nil {
		if e.Unknown > 0 && end.Verdict == counting.Lost {
			f.Late = r.late(e)
		}
		f.Final, f.Silent = errors.Is(e, ErrRefused), errors.Is(e, ErrUnreachable)
		f.Hurried = e.hurried && !errors.Is(r.c.keeper.Board.Ready(), ErrUnreachable) // what the client knows, no round hides
		_, _, silent := a.Call.Sets()
		f.Deaf = f.Hurried && end.Took < r.c.shortestRound() && silent != 0 // a lane that knows that its master is down answers at once
		f.Saw = waiting.Round{RetryAfter: e.RetryAfter, Granted: e.Granted > 0, MayVote: e.Granted + e.Held + e.silent,
			Held: errors.Is(e, ErrHeld), Recovering: errors.Is(e, ErrRecovering)}
	}
	return f
}

// waits are the lines of the callers of this client that wait. The Observers are known by then.
func (c *Client) waits() wait.Config {
	cfg := wait.Config{
		Masters: &c.masters, Namespace: c.namespace, Client: c.id, Jitter: c.jitter, Over: c.over,
		GaveUp: func(ctx context.Context, l *protocol.Lock, last error) error {
			return gaveUp(ctx, l, failedRound(last))
		},
	}
	if len(c.tells.waits) > 0 {
		cfg.Waits = c.tellWaits
	}
	if len(c.tells.voted) > 0 {
		cfg.Handed = c.tellHanded
	}
	return cfg
}

// tellWaits tells of a caller that waits, and notes when it did. last is the error of the last round of its line, or nil.
func (c *Client) tellWaits(ctx context.Context, call *wait.Caller, last error) {
	w := call.Face.(*waiter)
	now := c.clock.Elapsed()
	e := event.Wait{Lock: call.Lock.Name, Mode: call.Lock.Mode.Name(), First: !call.Waited, Waited: now - w.began, Last: last}
	if last != nil {
		e.Recovers = !w.recovers && errors.Is(last, ErrRecovering)
		w.recovers = w.recovers || e.Recovers
	}
	if !e.First {
		e.Before = w.told - w.began
	}
	tellOf(ctx, c.tells.waits, e)
	w.told = now
}

// tellHanded tells of a vote that master i gave by a message.
func (c *Client) tellHanded(i int, lock string) {
	tell(c.tells.voted, event.Vote{Master: c.masters.Nodes[i].Name(), Lock: lock, Answer: event.VoteGranted, Handed: true})
}
