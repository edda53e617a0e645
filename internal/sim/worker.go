// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/workload"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// worker is one thread of a client's process that takes locks, one at a time. When the process is killed the thread ends where it is, and what it
// had under way is Unknown in the history and never returns.
type worker struct {
	m    *member
	p    *process
	w    *world
	name string
	rnd  *rand.Rand
	rec  history.Recorder
	died bool // the process was killed during the last call

	permit *semaphore.Permit // while the worker has one
}

func newWorker(m *member, p *process, i int) *worker {
	name := fmt.Sprintf("%s-w%d", m.name(p), i)
	k := &worker{m: m, p: p, w: m.w, name: name, rnd: m.w.rand(name)}
	k.rec = history.Recorder{Client: name, Now: m.w.now, Append: k.record, Failure: failure}
	return k
}

// record records what a call came to. If the process was killed meanwhile, the call never returned.
func (k *worker) record(op history.Op) error {
	if k.died = k.p.killed.Load(); k.died {
		op.Return, op.Outcome, op.Error = history.Never, history.Unknown, ""
		if op.Kind == history.KindLock {
			op.Holder, op.Token, op.Deadline = "", 0, 0
			if strings.HasPrefix(op.Lock, semaphoreName) {
				op.Lock = semaphoreName + ":turn" // it does not know of its slot
			}
		}
	}
	k.w.record(op)
	return nil
}

// failure is what a call that returned an error came to.
func failure(kind history.Kind, err error) (history.Outcome, string) {
	switch {
	case kind == history.KindLock:
		return history.Failed, workload.Class(err)
	case errors.Is(err, redlock.ErrLost):
		return history.Failed, ""
	}
	return history.Unknown, ""
}

// about is a random time of mean d, never 0.
func (k *worker) about(d time.Duration) time.Duration {
	return time.Duration(k.rnd.ExpFloat64()*float64(d)) + 1
}

// sleep sleeps for d, or until the process is killed.
func (k *worker) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.p.ctx.Done():
	}
}

func (k *worker) run(until time.Time) {
	for time.Now().Before(until) && (k.w.cfg.Stop == nil || !k.w.cfg.Stop()) {
		k.p.does(DoingNothing)
		k.sleep(k.about(k.w.cfg.Think))
		if k.p.killed.Load() {
			return
		}
		if l := k.w.locks[k.rnd.IntN(len(k.w.locks))]; l.semaphore {
			k.oncePermit()
		} else {
			k.once(l)
		}
	}
}

// once takes a lock in some way, works under it and gives it back.
func (k *worker) once(l *lock) {
	opts := []redlock.LockOption{redlock.WithReentry()}
	if k.rnd.IntN(2) == 0 {
		opts = append(opts, redlock.WithoutRenewal())
	}
	if k.rnd.IntN(4) == 0 {
		opts = append(opts, redlock.WithoutFairness())
	}
	c := k.m.use()
	if c == nil {
		return // its process is being restarted
	}
	m, mode := redlock.Locker(c.Mutex(l.name, opts...)), history.Exclusive
	if !l.rw && k.w.cfg.MinHold > 0 {
		m = c.Mutex(l.name, append(opts, redlock.WithMinHold(k.w.cfg.MinHold))...)
	}
	if l.rw {
		rw := c.RWMutex(l.name, opts...)
		if m, mode = rw.Locker(), history.Writing; k.rnd.IntN(2) == 0 {
			m, mode = rw.RLocker(), history.Shared
		}
	}
	op := history.Op{Kind: history.KindLock, Lock: l.name, Mode: mode}
	var lease *redlock.Lease
	k.p.does(DoingLock)
	err := k.rec.Do(&op, func() (err error) {
		if lease, err = k.take(m); err == nil {
			op.Holder, op.Token, op.Deadline = lease.Holder(), lease.Token(), k.m.claim(lease)
		}
		return err
	})
	if moved := (*redlock.EpochError)(nil); !k.died && k.w.cfg.Operated && errors.As(err, &moved) && k.rnd.IntN(4) == 0 {
		k.m.restart(time.Now())
	}
	if k.died || err != nil {
		return
	}
	k.p.does(DoingHold)
	k.hold(l, m, lease, op)
}

func (k *worker) take(m redlock.Locker) (*redlock.Lease, error) {
	ctx := k.p.ctx
	switch k.rnd.IntN(5) {
	case 0:
		return m.TryLock(ctx)
	case 1:
		return inside.LockFor(ctx, m, k.about(20*time.Millisecond))
	case 2: // the caller gives up, most often while the masters' votes are on their way
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(k.about(time.Millisecond), cancel).Stop()
		return m.Lock(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, k.about(500*time.Millisecond))
	defer cancel()
	return m.Lock(ctx)
}

// hold is the life of one lease. One in fifty holders is paused: it works on without a look at its lease, as a process does
// that was stopped, and only the register's fence stands between it and a lost update.
func (k *worker) hold(l *lock, m redlock.Locker, lease *redlock.Lease, grant history.Op) {
	lingers := k.rnd.IntN(100) < k.w.cfg.Linger
	paused := lingers && k.w.cfg.does("freeze-client") && k.rnd.IntN(2) == 0
	value, ok := k.register(l, grant, history.KindRead, 0)
	work := k.about(k.w.cfg.Think)
	if lingers {
		work = k.about(k.w.cfg.MaxTTL)
	}
	if k.w.cfg.Operated && k.rnd.IntN(6) == 0 {
		work = k.about(k.w.cfg.MaxTTL / 2)
	}
	for range 4 { // renewals that came to something are noted although the lease may be lost by the end
		k.sleep(work / 4)
		k.extended(lease, grant)
		if k.p.killed.Load() {
			return // nobody gives the lock back
		}
	}
	switch what := k.rnd.IntN(8); {
	case what == 0 && m != nil:
		k.reenter(m, lease, grant)
	case what == 1:
		_ = lease.Extend(k.p.ctx)
		k.extended(lease, grant)
	}
	if ok && grant.Mode != history.Shared && (paused || lease.Err() == nil) {
		k.register(l, grant, history.KindWrite, value+1)
	}
	if k.p.killed.Load() || k.w.cfg.Operated && errors.Is(lease.Err(), redlock.ErrClosed) {
		return // its process is gone: the claim stands as long as it was given
	}
	var reads *redlock.Lease
	asked := k.w.now()
	if c := k.m.use(); c != nil && grant.Mode == history.Writing && k.w.cfg.Downgrade > 0 && k.rnd.IntN(100) < k.w.cfg.Downgrade {
		reads, _ = c.RWMutex(l.name).RLocker().Lock(lease.Context())
	}
	if k.unlock(lease, grant) && reads != nil {
		k.read(reads, grant, asked)
	}
}

// unlock gives a lease back. It says whether the process lived to see it.
func (k *worker) unlock(lease *redlock.Lease, grant history.Op) bool {
	op := history.Op{Kind: history.KindUnlock, Lock: grant.Lock, Holder: grant.Holder}
	k.p.does(DoingUnlock)
	unlock := lease.Unlock
	if k.permit != nil {
		unlock = k.permit.Release
	}
	rec := k.rec
	rec.Client = grant.Client // a writer's that goes on to read is another
	if _ = rec.Do(&op, func() error { return unlock(k.p.ctx) }); k.died {
		return false
	}
	k.w.mu.Lock()
	k.w.stats.Operations++
	k.w.mu.Unlock()
	return true
}

// read goes on with the read lease that a writer took at the time asked, and gives it back. The claim begins when the writer's is over.
func (k *worker) read(lease *redlock.Lease, writer history.Op, asked int64) {
	grant := history.Op{Kind: history.KindLock, Client: writer.Client + "-reader", Lock: writer.Lock, Mode: history.Shared, Call: asked, Return: k.w.now(),
		Outcome: history.OK, Holder: lease.Holder(), Token: lease.Token(), Deadline: k.m.claim(lease)}
	k.w.record(grant)
	k.p.does(DoingHold)
	k.sleep(k.about(k.w.cfg.Think))
	k.extended(lease, grant)
	if !k.p.killed.Load() {
		k.unlock(lease, grant)
	}
}

func (k *worker) reenter(m redlock.Locker, lease *redlock.Lease, grant history.Op) {
	inner, err := m.Lock(lease.Context())
	if err != nil {
		return
	}
	k.sleep(k.about(k.w.cfg.Think))
	k.extended(lease, grant)
	if k.p.killed.Load() {
		return
	}
	_ = inner.Unlock(k.p.ctx)
	k.w.mu.Lock()
	k.w.stats.Reentries++
	k.w.stats.Operations += 2
	k.w.mu.Unlock()
}

// extended notes that the lease has stood without a break since its grant, and until when it is claimed now: what the
// renewals in the background have come to.
func (k *worker) extended(lease *redlock.Lease, grant history.Op) {
	deadline := k.m.claim(lease)
	if lease.Err() != nil || deadline <= grant.Deadline {
		return
	}
	k.w.record(history.Op{Kind: history.KindExtend, Client: k.name + "-renewal", Lock: grant.Lock, Holder: grant.Holder,
		Call: grant.Return, Return: grant.Return, Deadline: deadline, Outcome: history.OK})
}

// register reads or writes the register with the grant's token, after a moment on the way there.
func (k *worker) register(l *lock, grant history.Op, kind history.Kind, value int64) (int64, bool) {
	op := history.Op{Kind: kind, Client: k.name, Lock: l.name, Call: k.w.now(), Fenced: true, Token: grant.Token, Outcome: history.OK}
	time.Sleep(k.about(100 * time.Microsecond))
	l.mu.Lock()
	switch {
	case grant.Token < l.fence:
		op.Outcome = history.Failed
	case kind == history.KindRead:
		l.fence, op.Value = grant.Token, l.value
	default:
		l.fence, l.value, op.Value = grant.Token, value, value
	}
	l.mu.Unlock()
	op.Return = k.w.now()
	if k.rec.Add(op); k.died { // the message arrived, the reply did not
		return 0, false
	}
	return op.Value, op.Outcome == history.OK
}
