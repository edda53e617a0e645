// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/redlock"
)

// errTurn is what a function of a worker returns when its turn is over.
var errTurn = errors.New("the turn is over")

// lead campaigns, leads for a while, and resigns. In the history a term is a claim on the election's lock.
func (w *worker) lead(ctx context.Context) {
	e := election.New(w.c, w.spec.Prefix+string(Lead), election.WithPause(time.Hour), election.WithLock(redlock.WithMaxWait(2*w.spec.TTL)))
	running, end := context.WithCancel(ctx)
	defer end()
	campaign := func(stay func(context.Context)) error {
		return e.Run(running, func(term context.Context, _ *election.Term) error {
			stay(term)
			if errors.Is(context.Cause(term), election.ErrResigned) {
				return nil // Resign says how it went
			}
			end() // else Run would campaign for a term that nobody records
			return errTurn
		})
	}
	var in entry
	h := how{mode: history.Exclusive}
	l := w.granted(w.Lock(e.Name(), h.mode, true, func() (*redlock.Lease, error) { return in.enter(campaign) }), h)
	if l == nil {
		return
	}
	w.work(ctx, l, w.hold(40))
	w.Unlock(l.Name(), l.Holder(), func() error {
		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(context.Background()) }()
		<-in.ctx.Done() // Resign has ended it, or the term was over before
		close(in.over)
		err := <-resigned
		end()
		<-in.did
		return err
	})
	w.shows(l.Name(), false)
}

// load is one of those that load the same thing. The store is always empty, so each loads in its turn: a load is the claim of a writer.
func (w *worker) load(ctx context.Context) {
	name := w.spec.Prefix + string(Load)
	empty := func(context.Context) (none struct{}, found bool, err error) { return }
	fill := func(stay func(context.Context)) error {
		_, err := flight.Do(ctx, w.c, name, empty, func(ctx context.Context) (none struct{}, err error) {
			stay(ctx)
			return none, errTurn // without an error Do does not say how giving back the lock went
		}, redlock.WithMaxWait(2*w.spec.TTL))
		return err
	}
	var in entry
	h := how{mode: history.Writing}
	l := w.granted(w.Lock(name, h.mode, false, func() (*redlock.Lease, error) { return in.enter(fill) }), h)
	if l == nil {
		return
	}
	w.work(ctx, l, w.hold(40))
	w.Unlock(name, l.Holder(), func() error {
		close(in.over)
		if err := <-in.did; errors.Is(err, redlock.ErrLost) || errors.Is(err, redlock.ErrUnconfirmed) || errors.Is(err, redlock.ErrClosed) {
			return err
		}
		return nil
	})
	w.shows(name, false)
}

// rest takes a lock that stays taken for a tenth of a TTL: one with a minimum hold, or that of a job which runs once in that time. In the history
// the claim lasts so long since the worker asked, however early it gave the lock back. What is renewed meanwhile is not recorded.
func (w *worker) rest(ctx context.Context) {
	name, least := w.spec.Prefix+string(Rest), w.spec.TTL/10
	var in entry
	leave := func(l *redlock.Lease) error { return l.Unlock(context.Background()) }
	take := func() (*redlock.Lease, error) {
		return w.c.Mutex(name, redlock.WithMinHold(least)).TryLock(ctx)
	}
	if w.rand.IntN(2) == 0 {
		leave = func(*redlock.Lease) error {
			close(in.over)
			return <-in.did
		}
		take = func() (*redlock.Lease, error) {
			return in.enter(func(stay func(context.Context)) error {
				ran, err := w.c.Every(name, least).Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
					stay(ctx)
					return nil
				})
				if !ran && err == nil {
					err = redlock.ErrHeld // it is not time yet
				}
				return err
			})
		}
	}
	asked, h := history.Now(), how{mode: history.Exclusive}
	l := w.granted(w.Lock(name, h.mode, false, take), h)
	if l == nil {
		return
	}
	w.sleep(ctx, w.about(least/2))
	op := history.Op{
		Kind: history.KindUnlock, Client: w.Client, Lock: name, Holder: l.Holder(), Call: history.Now(), Return: history.Never, Outcome: history.Unknown,
	}
	if l.Err() == nil {
		op.Call = max(op.Call, asked+int64(least-least/100)) // clocks may run apart
	}
	w.Add(op) // ahead: the process may be killed while the lock rests
	op.Outcome = history.OK
	if err := leave(l); err != nil {
		op.Outcome, op.Error = Failure(op.Kind, err)
	}
	w.shows(name, false)
	time.Sleep(time.Duration(op.Call - history.Now()))
	op.Return = max(op.Call, history.Now())
	w.Add(op)
}

// pass transfers its lease and adopts it, as another process would. In the history the one gives the lock back and the other, a client of its own, is
// granted it. The one's votes are still on the masters then, and on one that does not answer the other until their TTL is over. So what the one gives
// back is in flight for good.
func (w *worker) pass(ctx context.Context) {
	h := how{mode: history.Exclusive}
	l := w.take(ctx, w.mutex(string(Pass)), h)
	if l == nil {
		return
	}
	w.work(ctx, l, w.hold(120))
	op := history.Op{ // of a client of its own, because it is in flight
		Kind: history.KindUnlock, Client: w.Client + ".voucher." + l.Holder(), Lock: l.Name(), Holder: l.Holder(), Call: history.Now(), Return: history.Never, Outcome: history.Unknown,
	}
	w.Add(op)
	voucher, err := l.Transfer(context.Background())
	w.shows(l.Name(), false)
	if err != nil {
		op.Outcome, op.Error = Failure(op.Kind, errors.Join(err, l.Unlock(context.Background())))
		op.Return = history.Now()
		w.Add(op)
		return
	}
	w.sleep(ctx, w.about(w.spec.TTL/20)) // it travels
	heir := *w
	heir.Recorder = *NewRecorder(w.w, w.Client+".heir")
	adopted := heir.granted(heir.Lock(l.Name(), h.mode, false, func() (*redlock.Lease, error) { return w.c.Adopt(ctx, voucher) }), h)
	if adopted == nil {
		return
	}
	heir.work(ctx, adopted, w.hold(120))
	heir.give(adopted)
}

// entry is a call of something that calls a function while it holds a lock, seen as a lock and an unlock.
type entry struct {
	got  chan context.Context
	over chan struct{}   // to close: the function returns
	did  chan error      // what the call returned
	ctx  context.Context // of the function, once enter returned its lease
}

// enter calls do, whose function calls stay and is held there until over is closed. It returns the lease of that function, or what do returned without
// calling it.
func (in *entry) enter(do func(stay func(context.Context)) error) (*redlock.Lease, error) {
	in.got, in.over, in.did = make(chan context.Context), make(chan struct{}), make(chan error, 1)
	go func() {
		in.did <- do(func(ctx context.Context) {
			in.got <- ctx
			<-in.over
		})
	}()
	select {
	case in.ctx = <-in.got:
		return redlock.LeaseFrom(in.ctx), nil
	case err := <-in.did:
		return nil, err
	}
}
