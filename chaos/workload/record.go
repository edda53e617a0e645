// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

// voters returns the names of the masters that have given a lease their votes.
func voters(l *redlock.Lease) string {
	return strings.Join(inside.Voters(l), ", ")
}

// Class is the history's word for an error: few words, nothing of the run in it.
func Class(err error) string {
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

// Failure is what a call of the library that returned an error came to, and the word for the error. A refused lock is Failed: the library says
// that it never will be granted.
func Failure(kind history.Kind, err error) (history.Outcome, string) {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case kind == history.KindUnlock && is(redlock.ErrUnconfirmed, redlock.ErrClosed),
		kind == history.KindExtend && is(redlock.ErrUnreachable, context.Canceled, context.DeadlineExceeded):
		return history.Unknown, Class(err)
	}
	return history.Failed, Class(err)
}

// Recorder writes the operations of one thread of control, which has one in flight at a time.
type Recorder struct {
	history.Recorder
	w *history.Writer
}

// NewRecorder returns a Recorder for the client called name in w's history.
func NewRecorder(w *history.Writer, name string) *Recorder {
	return &Recorder{w: w, Recorder: history.Recorder{
		Client: name, Now: history.Now, Ahead: true, Failure: Failure, Append: func(op history.Op) error { return w.Append(op) },
	}}
}

// Err is why an operation could not be written: the record is then incomplete.
func (r *Recorder) Err() error {
	if err := r.Recorder.Err(); err != nil {
		return fmt.Errorf("workload: %s: %w", r.Client, err)
	}
	return nil
}

// Lock records an attempt to get the lock called name, and returns its lease, or nil. fair says that get waits in the queue of the lock.
func (r *Recorder) Lock(name string, mode history.Mode, fair bool, get func() (*redlock.Lease, error)) (l *redlock.Lease) {
	op := history.Op{Kind: history.KindLock, Lock: name, Mode: mode, Fair: fair}
	_ = r.Do(&op, func() (err error) {
		if l, err = get(); err == nil {
			op.Holder, op.Token, op.Deadline, op.Voters = l.Holder(), l.Token(), deadline(l), voters(l)
		}
		return err
	})
	return l
}

// Unlock records the end of a claim, and what came of giving the lock back.
func (r *Recorder) Unlock(lock, holder string, give func() error) {
	_ = r.Do(&history.Op{Kind: history.KindUnlock, Lock: lock, Holder: holder}, give)
}

// signal records when the context of l ends, unless an unlock ends it. The library renews l if renewed is set.
func (r *Recorder) signal(process string, l *redlock.Lease, renewed bool) {
	ctx := l.Context()
	context.AfterFunc(ctx, func() {
		at := history.Now()
		if cause := context.Cause(ctx); !errors.Is(cause, redlock.ErrReleased) {
			// After an error the next operation of the worker returns it too.
			_ = r.w.Append(history.Signal{
				Process: process, Lock: l.Name(), Holder: l.Holder(), At: at, Deadline: deadline(l), Cause: Class(cause), Renewed: renewed,
			})
		}
	})
}

// extend records an extend that the worker asks for.
func (r *Recorder) extend(ctx context.Context, l *redlock.Lease) {
	op := history.Op{Kind: history.KindExtend, Lock: l.Name(), Holder: l.Holder()}
	_ = r.Do(&op, func() error {
		err := l.Extend(ctx)
		if err == nil {
			op.Deadline = deadline(l)
		}
		return err
	})
}

// renewed records a renewal by the library, which shows as a deadline that has moved since. It is seen a little late, which claims too
// little and never too much. It is a client of its own, since it runs beside what the worker does.
func (r *Recorder) renewed(l *redlock.Lease, before int64) int64 {
	call := history.Now()
	d := deadline(l)
	if d <= before+int64(time.Millisecond) {
		return before
	}
	r.Add(history.Op{
		Kind: history.KindExtend, Client: r.Client + "+", Lock: l.Name(), Holder: l.Holder(), Call: call, Return: history.Now(),
		Outcome: history.OK, Deadline: d,
	})
	return d
}
