// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/logline"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// This file calls the Observers. No function of theirs is called while a mutex of the client is locked.

// telling has the functions of all Observers of a client, by event. A list that is empty is all
// that an event costs then: the event is not even made.
type telling struct {
	opening  []func(context.Context, event.Opening)
	opened   []func(event.Client)
	closed   []func(event.Client)
	waits    []func(context.Context, event.Wait)
	acquired []func(context.Context, event.Acquire)
	voted    []func(event.Vote)
	extended []func(event.Extend)
	ended    []func(event.End)
	unlocked []func(context.Context, event.Unlock)
	master   []func(event.Master)
	clock    []func(event.Clock)
	epoch    []func(event.Epoch)
}

func newTelling(c *Client, observers []event.Observer) (t telling) {
	for i := range observers {
		o, g := &observers[i], &guard{c: c}
		t.opening = guardedOf(t.opening, g, "Opening", o.Opening)
		t.opened = guarded(t.opened, g, "Opened", o.Opened)
		t.closed = guarded(t.closed, g, "Closed", o.Closed)
		t.waits = guardedOf(t.waits, g, "Waits", o.Waits)
		t.acquired = guardedOf(t.acquired, g, "Acquired", o.Acquired)
		t.voted = guarded(t.voted, g, "Voted", o.Voted)
		t.extended = guarded(t.extended, g, "Extended", o.Extended)
		t.ended = guarded(t.ended, g, "Ended", o.Ended)
		t.unlocked = guardedOf(t.unlocked, g, "Unlocked", o.Unlocked)
		t.master = guarded(t.master, g, "Master", o.Master)
		t.clock = guarded(t.clock, g, "Clock", o.Clock)
		t.epoch = guarded(t.epoch, g, "Epoch", o.Epoch)
	}
	return t
}

// guard is what a client knows of one Observer.
type guard struct {
	c   *Client
	off atomic.Bool // a function panicked: none is called any more
}

// guarded appends f to list, if there is one, as a function that recovers.
func guarded[E any](list []func(E), g *guard, name string, f func(E)) []func(E) {
	if f == nil {
		return list
	}
	return append(list, func(e E) {
		if !g.off.Load() {
			defer g.recover(name)
			f(e)
		}
	})
}

// guardedOf is guarded for an event of a caller.
func guardedOf[E any](list []func(context.Context, E), g *guard, name string, f func(context.Context, E)) []func(context.Context, E) {
	if f == nil {
		return list
	}
	return append(list, func(ctx context.Context, e E) {
		if !g.off.Load() {
			defer g.recover(name)
			f(ctx, e)
		}
	})
}

// recover is deferred. If the function called name panics, the Observer is switched off: half of its
// functions would tell half of what happened.
func (g *guard) recover(name string) {
	p := recover()
	if p == nil || g.off.Swap(true) {
		return
	}
	g.c.stats.panics.Add(1)
	g.c.logPanic("Observer."+name, p)
}

// logPanic is internals.LogPanic. It is called by the function that recovered p.
func (c *Client) logPanic(what string, p any) (logged bool) {
	if c.isZero() || c.logger == nil {
		return false
	}
	defer func() { _ = recover() }() // it may be the logger that panics
	logline.Panicked.To(context.Background(), c.logger,
		slog.String("function", what), slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
	return true
}

// tell calls the functions with e. It and tellOf are not inlined, so that what they need is not on
// the stack of the goroutines that wait in [Mutex.Lock].
//
//go:noinline
func tell[E any](functions []func(E), e E) {
	for _, f := range functions {
		f(e)
	}
}

// tellOf is tell for an event of a caller.
//
//go:noinline
func tellOf[E any](ctx context.Context, functions []func(context.Context, E), e E) {
	for _, f := range functions {
		f(ctx, e)
	}
}

// began is when a call began, for tellAcquired. It is 0 if nobody wants to know.
func (c *Client) began() time.Duration {
	if len(c.tells.acquired) == 0 && len(c.tells.waits) == 0 {
		return 0
	}
	return c.clock.Elapsed()
}

// tellAcquired tells of a call for the lock that has ended.
func (m *Mutex) tellAcquired(ctx context.Context, lease *Lease, err error, began time.Duration, rounds int, waited bool) {
	c := m.c
	if len(c.tells.acquired) == 0 {
		return
	}
	e := event.Acquire{Lock: m.l.Name, Mode: m.l.Mode.Name(), Waited: waited, Rounds: rounds, Err: err}
	if lease == nil {
		e.Took = c.clock.Elapsed() - began
	} else {
		h := lease.hold()
		e.Took, e.Token, e.Holder, e.Validity = h.Granted-began, h.Token, h.Holder, h.Until()-h.Granted
	}
	tellOf(ctx, c.tells.acquired, e)
}

// tellVoted tells of the reply of master i to an acquire.
func (c *Client) tellVoted(i int, l *protocol.Lock, r *protocol.Reply) {
	e := event.Vote{Master: c.masters.Nodes[i].Name(), Lock: l.Name, Err: r.Err}
	switch r.Outcome {
	case protocol.Granted:
		e.Answer = event.VoteGranted
	case protocol.Held:
		e.Answer = event.VoteHeld
	case protocol.Refused:
		e.Answer = event.VoteRefused
	case protocol.NotSent:
		e.Answer = event.VoteNotAsked
	}
	tell(c.tells.voted, e)
}
