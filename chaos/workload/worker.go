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
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/fenceredis"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// worker is one loop of a client. It has a random source of its own, so that its choices do not depend on other workers.
type worker struct {
	Recorder
	spec     *Spec
	c        *redlock.Client
	register *redis.Client
	rand     *rand.Rand
	shows    func(lock string, held bool)
}

// coldCrew is how many workers of a client take cold locks. They make most of the grants of a run; the other kinds make its contention.
const coldCrew = 11

// hotCrew is how many workers of a client wait fairly for the hot lock: enough that they take it over from one another.
const hotCrew = 3

// crew says how many workers of each kind a client has, and what such a worker does in one turn.
func crew(k Kind) []func(w *worker, ctx context.Context) {
	switch k {
	case Hot:
		return append(slices.Repeat([]func(*worker, context.Context){(*worker).hotFair}, hotCrew), (*worker).hotUnfair)
	case Cold:
		return slices.Repeat([]func(*worker, context.Context){(*worker).cold}, coldCrew)
	case Nest:
		return []func(*worker, context.Context){(*worker).nest}
	case RW:
		return []func(*worker, context.Context){(*worker).read, (*worker).write}
	case Multi:
		return []func(*worker, context.Context){(*worker).multi}
	case Permits:
		return slices.Repeat([]func(*worker, context.Context){(*worker).permit}, 2)
	case Lead:
		return []func(*worker, context.Context){(*worker).lead}
	case Load:
		return []func(*worker, context.Context){(*worker).load}
	case Rest:
		return slices.Repeat([]func(*worker, context.Context){(*worker).rest}, 2)
	case Pass:
		return []func(*worker, context.Context){(*worker).pass}
	case Fenced:
		return []func(*worker, context.Context){(*worker).fenced}
	case Unfenced:
		return []func(*worker, context.Context){(*worker).unfenced}
	}
	return nil
}

// mutex returns a lock of the run.
func (w *worker) mutex(name string, opts ...redlock.LockOption) *redlock.Mutex {
	return w.c.Mutex(w.spec.Prefix+name, opts...)
}

// run takes turns until ctx ends.
func (w *worker) run(ctx context.Context, turn func(*worker, context.Context)) error {
	for ctx.Err() == nil && w.Err() == nil {
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

// how says how a worker uses a lock.
type how struct {
	mode             history.Mode
	barges, unrenews bool // redlock.WithoutFairness, redlock.WithoutRenewal
}

// take locks m, waits for a while if it has to, and reports the grant to the harness.
func (w *worker) take(ctx context.Context, m redlock.Locker, h how) *redlock.Lease {
	return w.granted(w.Lock(m.Name(), h.mode, !h.barges, func() (*redlock.Lease, error) { return inside.LockFor(ctx, m, 2*w.spec.TTL) }), h)
}

// granted reports a grant to the harness, and has its loss recorded. It returns l, which may be nil.
func (w *worker) granted(l *redlock.Lease, h how) *redlock.Lease {
	if l != nil {
		w.signal(w.spec.Name, l, !h.unrenews)
		w.shows(l.Name(), true)
	}
	return l
}

// give unlocks l. Its context is not the worker's, so that a client that ends still unlocks.
func (w *worker) give(l *redlock.Lease) {
	w.Unlock(l.Name(), l.Holder(), func() error { return l.Unlock(context.Background()) })
	w.shows(l.Name(), false)
}

// work holds a lease with renewal for d, or until the lease is lost.
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

// hold draws how long the worker holds a lock: usually a short time, and sometimes the time of several renewals.
func (w *worker) hold(longOneIn int) time.Duration {
	if w.rand.IntN(longOneIn) == 0 {
		return w.about(w.spec.TTL)
	}
	return w.about(w.spec.TTL / 300)
}

func (w *worker) hotFair(ctx context.Context) { w.hot(ctx, how{mode: history.Exclusive}) }
func (w *worker) hotUnfair(ctx context.Context) {
	w.hot(ctx, how{mode: history.Exclusive, barges: true}, redlock.WithoutFairness())
}

func (w *worker) hot(ctx context.Context, h how, opts ...redlock.LockOption) {
	m := w.mutex(string(Hot), opts...)
	if l := w.take(ctx, m, h); l != nil {
		if w.rand.IntN(2) == 0 { // else it is brief
			w.work(ctx, l, w.hold(40))
		}
		w.give(l)
	}
}

// cold tries to take one of many locks. It holds the lock without renewal, and sometimes extends it itself, also too late.
func (w *worker) cold(ctx context.Context) {
	m := w.mutex(coldLocks[w.rand.IntN(len(coldLocks))], redlock.WithoutRenewal())
	h := how{mode: history.Exclusive, unrenews: true}
	var l *redlock.Lease
	if w.rand.IntN(2) == 0 {
		l = w.granted(w.Lock(m.Name(), h.mode, false, func() (*redlock.Lease, error) { return m.TryLock(ctx) }), h)
	} else {
		l = w.take(ctx, m, h)
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

// nest takes its lock a second time, by its context or by its lease, and unlocks in either order. It records only the outermost hold.
func (w *worker) nest(ctx context.Context) {
	m := w.mutex(string(Nest), redlock.WithReentry())
	l := w.take(ctx, m, how{mode: history.Exclusive})
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
		_ = inner.Unlock(context.Background()) // the last Unlock returns the same error
	}
	w.work(ctx, l, w.hold(40))
	w.give(l)
}

func (w *worker) read(ctx context.Context) {
	if l := w.take(ctx, w.c.RWMutex(w.spec.Prefix+string(RW)).RLocker(), how{mode: history.Shared}); l != nil {
		w.work(ctx, l, w.hold(40))
		w.give(l)
	}
}

func (w *worker) write(ctx context.Context) {
	if l := w.take(ctx, w.c.RWMutex(w.spec.Prefix+string(RW)).Locker(), how{mode: history.Writing}); l != nil {
		w.work(ctx, l, w.hold(40))
		w.give(l)
	}
}

// multi takes two locks as one. In the history each of the two is taken by a client of its own, because both are taken at the same time.
func (w *worker) multi(ctx context.Context) {
	i := w.rand.IntN(len(multiLocks))
	names := []string{w.spec.Prefix + multiLocks[i], w.spec.Prefix + multiLocks[(i+1)%len(multiLocks)]}
	both := multilock.New(w.c.Mutex(names[0], redlock.WithoutRenewal()), w.c.Mutex(names[1], redlock.WithoutRenewal()))
	of := func(i int) string { return fmt.Sprintf("%s.%d", w.Client, i) }
	call := history.Now()
	wait, cancel := context.WithTimeout(ctx, 2*w.spec.TTL)
	l, err := both.Lock(wait)
	cancel()
	for i, name := range names {
		op := history.Op{Kind: history.KindLock, Client: of(i), Lock: name, Mode: history.Exclusive, Call: call}
		if err != nil {
			op.Outcome, op.Error = history.Failed, Class(err)
		} else {
			m := l.Members()[i]
			op.Outcome, op.Holder, op.Token, op.Deadline = history.OK, m.Holder(), m.Token(), deadline(m)
		}
		op.Return = history.Now()
		if err == nil {
			op.Voters = voters(l.Members()[i])
			w.signal(w.spec.Name, l.Members()[i], false)
		}
		w.Add(op)
	}
	if err != nil {
		return
	}
	w.sleep(ctx, w.hold(40))
	// One Unlock releases both locks, so its error says nothing about one of them. The outcome is Unknown; the call ends the claims.
	call = history.Now()
	for i, m := range l.Members() {
		w.Add(history.Op{Kind: history.KindUnlock, Client: of(i), Lock: m.Name(), Holder: m.Holder(), Call: call, Return: history.Never, Outcome: history.Unknown})
	}
	err = l.Unlock(context.Background())
	outcome := history.Unknown
	if err == nil {
		outcome = history.OK
	}
	for i, m := range l.Members() {
		op := history.Op{Kind: history.KindUnlock, Client: of(i), Lock: m.Name(), Holder: m.Holder(), Call: call, Return: history.Now(), Outcome: outcome}
		if err != nil {
			op.Error = Class(err)
		}
		w.Add(op)
	}
}

// permit takes a permit of a semaphore. In the history it is the lock of its slot. A call without a permit is not recorded, because it is
// of no slot.
func (w *worker) permit(ctx context.Context) {
	s := semaphore.New(w.c, w.spec.Prefix+string(Permits), len(slots))
	op := history.Op{Kind: history.KindLock, Client: w.Client, Mode: history.Exclusive, Outcome: history.OK, Call: history.Now()}
	wait, cancel := context.WithTimeout(ctx, 2*w.spec.TTL)
	p, err := s.Acquire(wait)
	cancel()
	if err != nil {
		return
	}
	l := redlock.LeaseFrom(p.Context())
	op.Lock, op.Holder, op.Token, op.Deadline = p.Name(), p.Holder(), p.Token(), deadline(p)
	op.Return, op.Voters = history.Now(), voters(l)
	w.Add(op)
	w.granted(l, how{mode: history.Exclusive})
	w.work(ctx, l, w.hold(40))
	w.Unlock(p.Name(), p.Holder(), func() error { return p.Release(context.Background()) })
	w.shows(p.Name(), false)
}

func (w *worker) fenced(ctx context.Context)   { w.update(ctx, Fenced) }
func (w *worker) unfenced(ctx context.Context) { w.update(ctx, Unfenced) }

// update adds one to a register: it reads, pauses and writes. It does not check its lease in between, on purpose, and its pause is
// sometimes longer than the lease. A pause of the whole process has the same effect on any program (docs/safety.md, A1).
func (w *worker) update(ctx context.Context, k Kind) {
	l := w.take(ctx, w.mutex(string(k), redlock.WithoutRenewal()), how{mode: history.Exclusive, unrenews: true})
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

// registerTimeout bounds a command to the register server, which has no faults.
const registerTimeout = 2 * time.Second

// get reads the register. It shows the token if there is one.
func (w *worker) get(k Kind, token int64) (int64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	op := history.Op{Kind: history.KindRead, Client: w.Client, Lock: string(k), Fenced: k == Fenced, Token: token, Call: history.Now()}
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
	w.Add(op)
	return op.Value, err == nil
}

// set writes the register. It shows the token if there is one. It records the write before it sends it, because the register server may
// execute the write while the client is killed.
func (w *worker) set(k Kind, token, value int64) {
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	op := history.Op{
		Kind: history.KindWrite, Client: w.Client, Lock: string(k), Fenced: k == Fenced, Token: token, Value: value,
		Call: history.Now(), Return: history.Never, Outcome: history.Unknown,
	}
	w.Add(op)
	var err error
	if k == Fenced {
		err = fenceredis.Set(ctx, w.register, string(k), token, value)
	} else {
		err = w.register.Set(ctx, string(k), value, 0).Err()
	}
	op.Outcome, op.Error = registered(err)
	op.Return = history.Now()
	w.Add(op)
}

func registered(err error) (history.Outcome, string) {
	switch {
	case err == nil:
		return history.OK, ""
	case errors.Is(err, fence.ErrStale), errors.Is(err, fence.ErrNotPresented):
		return history.Failed, Class(err)
	}
	return history.Unknown, Class(err)
}
