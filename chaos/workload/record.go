// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
)

// deadline is the lease's end on the history's clock. The instant is read first and what is left last, so a stop of the process in
// between makes it too early, which claims too little, and never too late.
func deadline(l interface{ ValidUntil() time.Time }) int64 {
	now := history.Now()
	return now + int64(time.Until(l.ValidUntil()))
}

// voters returns the names of the masters that have given a lease their votes.
func voters(l *redlock.Lease) string {
	return strings.Join(redlock.Engine(engine.Key{}).Voters(l), ", ")
}

// class is the history's word for an error: few words, nothing of the run in it.
func class(err error) string {
	for _, c := range []struct {
		is   error
		word string
	}{
		{redlock.ErrHeld, "held"}, {redlock.ErrUnreachable, "unreachable"}, {redlock.ErrRecovering, "recovering"},
		{redlock.ErrRefused, "refused"}, {redlock.ErrLost, "lost"}, {redlock.ErrReleased, "released"},
		{redlock.ErrUnconfirmed, "unconfirmed"}, {redlock.ErrClosed, "closed"}, {redlock.ErrConfig, "config"},
		{redlock.ErrUpgrade, "upgrade"}, {fence.ErrStale, "stale"}, {fence.ErrNotPresented, "not presented"},
		{context.DeadlineExceeded, "gave up"}, {context.Canceled, "gave up"}, {node.ErrClock, "clock"},
	} {
		if errors.Is(err, c.is) {
			return c.word
		}
	}
	return "other"
}

// Recorder writes the operations of one thread of control, which has one in flight at a time.
type Recorder struct {
	w    *history.Writer
	name string
	err  error // the first that could not be written: the client gives up
}

// NewRecorder returns a Recorder for the client called name in w's history.
func NewRecorder(w *history.Writer, name string) *Recorder { return &Recorder{w: w, name: name} }

func (r *Recorder) append(op history.Op) {
	if r.err == nil {
		r.err = r.w.Append(op)
	}
}

// Err is why an operation could not be written: the record is then incomplete.
func (r *Recorder) Err() error {
	if r.err != nil {
		return fmt.Errorf("workload: %s: %w", r.name, r.err)
	}
	return nil
}

// Lock records an attempt to get the lock called name, and returns its lease, or nil. A refused one is Failed: the library says that it
// never will be granted, and nobody claims it. fair says that get waits in the queue of the lock.
func (r *Recorder) Lock(name string, mode history.Mode, fair bool, get func() (*redlock.Lease, error)) *redlock.Lease {
	op := history.Op{Kind: history.KindLock, Client: r.name, Lock: name, Mode: mode, Fair: fair, Call: history.Now()}
	l, err := get()
	if err != nil {
		op.Outcome, op.Error, op.Return = history.Failed, class(err), history.Now()
		r.append(op)
		return nil
	}
	op.Outcome, op.Holder, op.Token, op.Deadline = history.OK, l.Holder(), l.Token(), deadline(l)
	op.Return = history.Now()
	op.Voters = voters(l)
	r.append(op)
	return l
}

// Unlock records the end of a claim, and what came of giving the lock back. It is written before the call too: an unlock that was
// executed while the client was killed would otherwise leave a claim that nobody makes.
func (r *Recorder) Unlock(lock, holder string, give func() error) {
	op := history.Op{Kind: history.KindUnlock, Client: r.name, Lock: lock, Holder: holder, Call: history.Now(), Return: history.Never, Outcome: history.Unknown}
	r.append(op)
	err := give()
	op.Return = history.Now()
	switch {
	case err == nil:
		op.Outcome = history.OK
	case errors.Is(err, redlock.ErrUnconfirmed), errors.Is(err, redlock.ErrClosed):
		op.Error = class(err)
	default:
		op.Outcome, op.Error = history.Failed, class(err)
	}
	r.append(op)
}

// signal records when the context of l ends, unless an unlock ends it. The library renews l if renewed is set.
func (r *Recorder) signal(process string, l *redlock.Lease, renewed bool) {
	ctx := l.Context()
	context.AfterFunc(ctx, func() {
		at := history.Now()
		if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrReleased) {
			// After an error the next operation of the worker returns it too.
			_ = r.w.Append(history.Signal{
				Process: process, Lock: l.Name(), Holder: l.Holder(), At: at, Deadline: deadline(l), Cause: class(cause), Renewed: renewed,
			})
		}
	})
}

// extend records an extend that the worker asks for.
func (r *Recorder) extend(ctx context.Context, l *redlock.Lease) {
	op := history.Op{Kind: history.KindExtend, Client: r.name, Lock: l.Name(), Holder: l.Holder(), Call: history.Now()}
	err := l.Extend(ctx)
	switch {
	case err == nil:
		op.Outcome, op.Deadline = history.OK, deadline(l)
	case errors.Is(err, redlock.ErrUnreachable), ctx.Err() != nil:
		op.Outcome, op.Error = history.Unknown, class(err)
	default:
		op.Outcome, op.Error = history.Failed, class(err)
	}
	op.Return = history.Now()
	r.append(op)
}

// renewed records a renewal by the library, which shows as a deadline that has moved since. It is seen a little late, which claims too
// little and never too much. It is a client of its own, since it runs beside what the worker does.
func (r *Recorder) renewed(l *redlock.Lease, before int64) int64 {
	call := history.Now()
	d := deadline(l)
	if d <= before+int64(time.Millisecond) {
		return before
	}
	r.append(history.Op{
		Kind: history.KindExtend, Client: r.name + "+", Lock: l.Name(), Holder: l.Holder(), Call: call, Return: history.Now(),
		Outcome: history.OK, Deadline: d,
	})
	return d
}
