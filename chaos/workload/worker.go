// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/fence"
	"github.com/redlock-go/redlock/redlock/fence/fenceredis"
)

// worker is one loop of a client. Its choices come from its own source, so that a seed gives the same choices whatever the others do.
type worker struct {
	Recorder
	spec     *Spec
	c        *redlock.Client
	register *redis.Client
	rand     *rand.Rand
	shows    func(lock string, held bool)
}

// coldCrew is how many workers of a client are after cold locks: these give a run its numbers, and the other kinds its quarrels.
const coldCrew = 16

// crew is the workers of each kind in one client, in which each does its work as a turn.
func crew(k Kind) []func(w *worker, ctx context.Context) {
	switch k {
	case Hot:
		return []func(*worker, context.Context){(*worker).hotFair, (*worker).hotUnfair}
	case Cold:
		return slices.Repeat([]func(*worker, context.Context){(*worker).cold}, coldCrew)
	case Nest:
		return []func(*worker, context.Context){(*worker).nest}
	case RW:
		return []func(*worker, context.Context){(*worker).read, (*worker).write}
	case Multi:
		return []func(*worker, context.Context){(*worker).multi}
	case Fenced:
		return []func(*worker, context.Context){(*worker).fenced}
	case Unfenced:
		return []func(*worker, context.Context){(*worker).unfenced}
	}
	return nil
}

// run takes turns until ctx ends.
func (w *worker) run(ctx context.Context, turn func(*worker, context.Context)) error {
	for ctx.Err() == nil && w.err == nil {
		turn(w, ctx)
		w.sleep(ctx, w.about(w.spec.Think))
	}
	return w.Err()
}

// about draws a time with the given mean.
func (w *worker) about(mean time.Duration) time.Duration {
	return time.Duration(w.rand.Float64() * 2 * float64(mean))
}

func (w *worker) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// take gets m, waiting for a while, and tells the harness.
func (w *worker) take(ctx context.Context, m *redlock.Mutex, mode history.Mode) *redlock.Lease {
	l := w.Lock(m.Name(), mode, func() (*redlock.Lease, error) { return m.TryLockFor(ctx, 2*w.spec.TTL) })
	if l != nil {
		w.shows(l.Name(), true)
	}
	return l
}

// give gives l back. The context is not the worker's: a client that is told to end still unlocks.
func (w *worker) give(l *redlock.Lease) {
	w.Unlock(l.Name(), l.Holder(), func() error { return l.Unlock(context.Background()) })
	w.shows(l.Name(), false)
}

// work holds a lease that renews itself for d, or until it is lost.
func (w *worker) work(ctx context.Context, l *redlock.Lease, d time.Duration) {
	before := deadline(l)
	end := time.After(d)
	look := time.NewTicker(max(w.spec.TTL/20, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-look.C:
			before = w.renewed(l, before)
		case <-end:
			w.renewed(l, before)
			return
		case <-l.Context().Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// hold is how long a lock is worked under: mostly shortly, and once in so many times past several renewals.
func (w *worker) hold(longOneIn int) time.Duration {
	if w.rand.IntN(longOneIn) == 0 {
		return w.about(w.spec.TTL)
	}
	return w.about(w.spec.TTL / 300)
}

func (w *worker) hotFair(ctx context.Context)   { w.hot(ctx) }
func (w *worker) hotUnfair(ctx context.Context) { w.hot(ctx, redlock.Unfair()) }

func (w *worker) hot(ctx context.Context, opts ...redlock.LockOption) {
	m := w.c.Mutex(string(Hot), opts...)
	if l := w.take(ctx, m, history.Exclusive); l != nil {
		w.work(ctx, l, w.hold(40))
		w.give(l)
	}
}

// cold tries a lock of many; it holds it without renewal and extends it itself now and then, also when it is too late.
func (w *worker) cold(ctx context.Context) {
	m := w.c.Mutex(coldLocks[w.rand.IntN(len(coldLocks))], redlock.WithoutRenewal())
	var l *redlock.Lease
	if w.rand.IntN(2) == 0 {
		if l = w.Lock(m.Name(), history.Exclusive, func() (*redlock.Lease, error) { return m.TryLock(ctx) }); l != nil {
			w.shows(l.Name(), true)
		}
	} else {
		l = w.take(ctx, m, history.Exclusive)
	}
	if l == nil {
		return
	}
	for w.rand.IntN(4) == 0 {
		w.sleep(ctx, w.hold(120))
		w.extend(ctx, l)
	}
	w.sleep(ctx, w.hold(120))
	w.give(l)
}

// nest takes its lock again, by its context or by its lease, and gives back in either order. Only the outermost hold is recorded.
func (w *worker) nest(ctx context.Context) {
	m := w.c.Mutex(string(Nest))
	l := w.take(ctx, m, history.Exclusive)
	if l == nil {
		return
	}
	var inner *redlock.Lease
	var err error
	if w.rand.IntN(2) == 0 {
		inner, err = m.Lock(l.Context())
	} else {
		inner, err = l.Reenter(ctx)
	}
	if err == nil {
		w.work(ctx, inner, w.hold(40))
		if w.rand.IntN(2) == 0 {
			l, inner = inner, l
		}
		_ = inner.Unlock(context.Background()) // what it says, the last Unlock says again
	}
	w.work(ctx, l, w.hold(40))
	w.give(l)
}

func (w *worker) read(ctx context.Context) {
	if l := w.take(ctx, w.c.RWMutex(string(RW)).Reader(), history.Shared); l != nil {
		w.work(ctx, l, w.hold(40))
		w.give(l)
	}
}

func (w *worker) write(ctx context.Context) {
	if l := w.take(ctx, w.c.RWMutex(string(RW)).Writer(), history.Writing); l != nil {
		w.work(ctx, l, w.hold(40))
		w.give(l)
	}
}

// multi takes two locks as one. Each member is a lock of its own in the history, of a client of its own, since both are taken at once.
func (w *worker) multi(ctx context.Context) {
	i := w.rand.IntN(len(multiLocks))
	names := []string{multiLocks[i], multiLocks[(i+1)%len(multiLocks)]}
	both, err := multilock.New(w.c.Mutex(names[0], redlock.WithoutRenewal()), w.c.Mutex(names[1], redlock.WithoutRenewal()))
	if err != nil {
		w.err = err
		return
	}
	of := func(i int) string { return fmt.Sprintf("%s.%d", w.name, i) }
	call := history.Now()
	wait, cancel := context.WithTimeout(ctx, 2*w.spec.TTL)
	l, err := both.Lock(wait)
	cancel()
	for i, name := range names {
		op := history.Op{Kind: history.KindLock, Client: of(i), Lock: name, Mode: history.Exclusive, Call: call}
		if err != nil {
			op.Outcome, op.Error = history.Failed, class(err)
		} else {
			m := l.Members()[i]
			op.Outcome, op.Holder, op.Token, op.Deadline = history.OK, m.Holder(), m.Token(), deadline(m)
		}
		op.Return = history.Now()
		w.append(op)
	}
	if err != nil {
		return
	}
	w.sleep(ctx, w.hold(40))
	// One unlock gives both back, so what it says cannot be told of each: Unknown stands, and the call ends the claim.
	call = history.Now()
	for i, m := range l.Members() {
		w.append(history.Op{Kind: history.KindUnlock, Client: of(i), Lock: m.Name(), Holder: m.Holder(), Call: call, Return: history.Never, Outcome: history.Unknown})
	}
	err = l.Unlock(context.Background())
	outcome := history.Unknown
	if err == nil {
		outcome = history.OK
	}
	for i, m := range l.Members() {
		op := history.Op{Kind: history.KindUnlock, Client: of(i), Lock: m.Name(), Holder: m.Holder(), Call: call, Return: history.Now(), Outcome: outcome}
		if err != nil {
			op.Error = class(err)
		}
		w.append(op)
	}
}

func (w *worker) fenced(ctx context.Context)   { w.update(ctx, Fenced) }
func (w *worker) unfenced(ctx context.Context) { w.update(ctx, Unfenced) }

// update adds one to a register: read, pause, write. It is careless on purpose: it does not look at its lease between, and now and
// then its pause is longer than the lease. That is what a pause of the whole process is to any program (docs/safety.md A1).
func (w *worker) update(ctx context.Context, k Kind) {
	l := w.take(ctx, w.c.Mutex(string(k), redlock.WithoutRenewal()), history.Exclusive)
	if l == nil {
		return
	}
	defer w.give(l)
	token := int64(0)
	if k == Fenced {
		token = l.Token()
	}
	n, ok := w.get(k, token)
	if !ok {
		return
	}
	pause := w.about(w.spec.TTL / 100)
	if w.rand.IntN(20) == 0 {
		pause = w.spec.TTL + w.about(w.spec.TTL/2)
	}
	w.sleep(ctx, pause)
	w.set(k, token, n+1)
}

// registerTimeout bounds a command to the register, which nothing hurts.
const registerTimeout = 2 * time.Second

// get presents the token, if any, and reads.
func (w *worker) get(k Kind, token int64) (int64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	op := history.Op{Kind: history.KindRead, Client: w.name, Lock: string(k), Fenced: k == Fenced, Token: token, Call: history.Now()}
	var err error
	if k == Fenced {
		err = fenceredis.Present(ctx, w.register, string(k), token)
	}
	if err == nil {
		op.Value, err = w.register.Get(ctx, string(k)).Int64()
		if errors.Is(err, redis.Nil) {
			err = nil // a register begins at 0
		}
	}
	op.Outcome, op.Error = registered(err)
	op.Return = history.Now()
	w.append(op)
	return op.Value, err == nil
}

// set writes, under the token if any. The write is recorded before it is sent, for it may be executed while the client is killed.
func (w *worker) set(k Kind, token, value int64) {
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	op := history.Op{
		Kind: history.KindWrite, Client: w.name, Lock: string(k), Fenced: k == Fenced, Token: token, Value: value,
		Call: history.Now(), Return: history.Never, Outcome: history.Unknown,
	}
	w.append(op)
	var err error
	if k == Fenced {
		err = fenceredis.Set(ctx, w.register, string(k), token, value)
	} else {
		err = w.register.Set(ctx, string(k), value, 0).Err()
	}
	op.Outcome, op.Error = registered(err)
	op.Return = history.Now()
	w.append(op)
}

func registered(err error) (history.Outcome, string) {
	switch {
	case err == nil:
		return history.OK, ""
	case errors.Is(err, fence.ErrStale), errors.Is(err, fence.ErrNotPresented):
		return history.Failed, class(err)
	}
	return history.Unknown, class(err)
}
