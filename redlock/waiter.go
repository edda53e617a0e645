// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/wait"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

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
	if w.Joined() {
		w.nameHolder(err)
		w.m.tellAcquired(ctx, w.lease, err, w.began, w.Rounds, w.Waited)
	}
	return w.lease, err
}

// Terms implements wait.Face, as all that follows.
func (w *waiter) Terms() wait.Terms {
	ls := &w.m.ls
	return wait.Terms{Unfair: ls.unfair, Within: ls.forOrder, Patience: ls.patience}
}

func (w *waiter) Begin(ctx context.Context, place *protocol.Wait) *attempt.Attempt {
	a := w.m.c.newAttempt(ctx, w.m.l, &w.m.ls, &protocol.Request{Wait: place})
	return &a
}

func (w *waiter) Win(a *attempt.Attempt, v counting.Verdict) (attempt.Lost, bool) {
	r := round{a, w.m.c, &w.m.ls}
	lease, end := r.win(v)
	w.lease = lease
	return end, lease != nil
}

func (w *waiter) Failed(a *attempt.Attempt, end attempt.Lost) wait.Failed {
	r := round{a, w.m.c, &w.m.ls}
	err := r.why(end, r.failed(end, true))
	f := wait.Failed{Err: err, Final: true}
	if e := failedRound(err); e != nil {
		f.Final, f.Silent, f.Hurried = errors.Is(e, ErrRefused), errors.Is(e, ErrUnreachable), e.hurried
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
