// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
	"github.com/redlock-go/redlock/semaphore"
)

var deadlyActs = []deadlyAct{
	{"transfer", "", diesTransferring},
	{"adopt", "", diesAdopting},
	{"force", "", diesForcing},
	{"unlock with a minimum hold", "", diesUnlocking},
	{"every", "", diesInAJob},
	{"campaign and resign", "", diesLeading},
	{"campaign behind a leader", "", diesCampaigning},
	{"acquire and release a permit", "", diesWithAPermit},
	{"wait for a permit", "", diesWaitingForAPermit},
	{"lock several", "", diesWithSeveral},
	{"wait for several", "", diesWaitingForSeveral},
	{"change the masters", "record", diesReconfiguring},
}

// The voucher is good if Transfer returned it. Else the lock is free when the TTL is over.
func diesTransferring(d *death) (act func(context.Context), after func()) {
	lease := mustLock(d.t, d.dying.Mutex("x"))
	d.has(lease, nil)
	voucher := ""
	return func(ctx context.Context) {
			v, err := lease.Transfer(ctx)
			if err == nil && !d.fuse.dead.Load() {
				voucher = v
				d.leaves()
			}
		}, func() {
			if voucher == "" {
				d.until = lease.ValidUntil()
				d.next("x", aTTL)
				return
			}
			l, err := d.other.Adopt(d.t.Context(), voucher)
			noErr(d.t, err)
			d.taken(l, time.Second)
			noErr(d.t, l.Unlock(d.t.Context()))
			d.next("x", 2*time.Second)
		}
}

// Another adopter has the lease, or nobody has it before the TTL of the dead one is over.
func diesAdopting(d *death) (act func(context.Context), after func()) {
	giver := d.c.client()
	lease := mustLock(d.t, giver.Mutex("x"))
	d.token = lease.Token()
	voucher := handedOff(d.t, lease)
	return func(ctx context.Context) { d.has(d.dying.Adopt(ctx, voucher)) }, func() {
		if l, err := d.other.Adopt(d.t.Context(), voucher); err == nil {
			d.taken(l, time.Second)
			time.Sleep(20 * time.Second)
			wantErr(d.t, l.Err(), nil)
			noErr(d.t, l.Unlock(d.t.Context()))
			d.at = time.Now()
		}
		d.next("x", aTTL)
	}
}

// The victim goes on as the holder, or is told. In both cases another operator ends it.
func diesForcing(d *death) (act func(context.Context), after func()) {
	holder := d.c.client()
	lease := mustLock(d.t, holder.Mutex("x"))
	d.token = lease.Token()
	return func(ctx context.Context) { _ = d.dying.ForceUnlock(ctx, "x", lease.Holder()) }, func() {
		time.Sleep(toldWithin)
		if lease.Err() == nil {
			if n := d.c.votes("x", lease.Holder()); n < 3 {
				d.t.Errorf("the holder goes on with %d votes", n)
			}
			noErr(d.t, d.other.ForceUnlock(d.t.Context(), "x", lease.Holder()))
			<-lease.Context().Done()
		}
		wantErr(d.t, lease.Err(), redlock.ErrLost)
		d.at = time.Now()
		d.next("x", aTTL)
	}
}

// The lock rests for its minimum hold, whatever the release has reached.
func diesUnlocking(d *death) (act func(context.Context), after func()) {
	const minHold = 15 * time.Second
	lease, err := d.dying.Mutex("x", redlock.WithMinHold(minHold)).Lock(d.t.Context())
	noErr(d.t, err)
	d.has(lease, nil)
	rests := time.Now().Add(minHold - 100*time.Millisecond) // the masters count from when they were asked
	return func(ctx context.Context) {
			d.leaves()
			_ = lease.Unlock(ctx)
		}, func() {
			d.until = rests
			d.next("x", minHold+time.Second)
		}
}

// The job runs again when the period is over, and not before if the dead one ran it.
func diesInAJob(d *death) (act func(context.Context), after func()) {
	const period = 15 * time.Second
	var ran time.Time
	return func(ctx context.Context) {
			_, _ = d.dying.Every("j", period).Do(ctx, func(_ context.Context, l *redlock.Lease) error {
				if d.has(l, nil) != nil {
					ran = time.Now()
				}
				return nil
			})
		}, func() {
			if d.until = (time.Time{}); !ran.IsZero() {
				d.until = ran.Add(period - 100*time.Millisecond)
			}
			for again := false; !again; time.Sleep(100 * time.Millisecond) {
				var err error
				again, err = d.other.Every("j", period).Do(d.t.Context(), func(_ context.Context, l *redlock.Lease) error {
					d.taken(l, period+aTTL)
					return nil
				})
				noErr(d.t, err)
			}
			time.Sleep(period)
		}
}

// lead has the member stand for election until it led for a moment, and resign.
func lead(ctx context.Context, m *member, value string, led func(*redlock.Lease), left func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := election.New(m.Client.Client, "e", election.WithValue(value))
	_ = e.Run(ctx, func(term context.Context, _ *election.Term) error {
		led(redlock.LeaseFrom(term))
		time.Sleep(50 * time.Millisecond)
		go func() {
			_ = e.Resign(ctx)
			cancel()
		}()
		<-term.Done()
		left()
		return nil
	})
}

// leadsNext has another process lead, whom everybody sees as the leader then.
func (d *death) leadsNext() {
	lead(context.Background(), d.other, "the next", func(l *redlock.Lease) {
		d.taken(l, aTTL)
		leader, err := election.New(d.c.client().Client.Client, "e").Leader(d.t.Context())
		if err != nil || leader.Value != "the next" || leader.Token != l.Token() {
			d.t.Errorf("%+v, %v", leader, err)
		}
	}, func() {})
	_, err := election.New(d.other.Client.Client, "e").Leader(d.t.Context())
	wantErr(d.t, err, election.ErrNoLeader)
}

func diesLeading(d *death) (act func(context.Context), after func()) {
	return func(ctx context.Context) {
		lead(ctx, d.dying, "the dead", func(l *redlock.Lease) { d.has(l, nil) }, d.leaves)
	}, d.leadsNext
}

// The one that dies waits behind a leader, who resigns.
func diesCampaigning(d *death) (act func(context.Context), after func()) {
	first := d.c.client()
	ctx, resign := context.WithCancel(context.Background())
	leads, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		_ = election.New(first.Client.Client, "e").Run(ctx, func(term context.Context, t *election.Term) error {
			d.token = t.Token()
			close(leads)
			<-term.Done()
			return nil
		})
	}()
	<-leads
	return func(ctx context.Context) {
			time.AfterFunc(500*time.Millisecond, resign)
			lead(ctx, d.dying, "the dead", func(l *redlock.Lease) { d.has(l, nil) }, d.leaves)
		}, func() {
			if resign(); d.at.IsZero() {
				d.t.Error("nobody died")
			}
			<-over
			d.at = time.Now()
			d.leadsNext()
		}
}

// bothPermits has another process take all permits of s at once.
func (d *death) bothPermits() {
	s := semaphore.New(d.other.Client.Client, "s", 2)
	for range 2 {
		p, err := s.Acquire(d.t.Context())
		noErr(d.t, err)
		if took := time.Since(d.at); took > aTTL {
			d.t.Errorf("slot %d had after %v", p.Slot(), took)
		}
		defer func() { noErr(d.t, p.Release(d.t.Context())) }()
	}
}

func diesWithAPermit(d *death) (act func(context.Context), after func()) {
	s := semaphore.New(d.dying.Client.Client, "s", 2)
	return func(ctx context.Context) {
		if p, err := s.Acquire(ctx); err == nil {
			_ = p.Release(ctx)
		}
	}, d.bothPermits
}

// The one that dies waits for a permit, which is given back to it.
func diesWaitingForAPermit(d *death) (act func(context.Context), after func()) {
	holder := semaphore.New(d.c.client().Client.Client, "s", 2)
	var held []*semaphore.Permit
	for range 2 {
		p, err := holder.Acquire(d.t.Context())
		noErr(d.t, err)
		held = append(held, p)
	}
	release := func(p *semaphore.Permit) { noErr(d.t, p.Release(context.Background())) }
	s := semaphore.New(d.dying.Client.Client, "s", 2)
	first := make(chan struct{})
	return func(ctx context.Context) {
			time.AfterFunc(500*time.Millisecond, func() {
				release(held[0])
				close(first)
			})
			if p, err := s.Acquire(ctx); err == nil {
				_ = p.Release(ctx)
			}
		}, func() {
			<-first
			release(held[1])
			d.at = time.Now()
			d.bothPermits()
		}
}

// locks has three locks of a member.
func threeOf(m *member) *multilock.Lock {
	return multilock.New(m.Mutex("c"), m.Mutex("a"), m.Mutex("b"))
}

// allThree has another process take all of them.
func (d *death) allThree() {
	l, err := threeOf(d.other).Lock(d.t.Context())
	noErr(d.t, err)
	for _, m := range l.Members() {
		d.taken(m, aTTL)
	}
	noErr(d.t, l.Unlock(d.t.Context()))
}

// takesThree is the act: all three are held for a moment.
func (d *death) takesThree(ctx context.Context) {
	l, err := threeOf(d.dying).Lock(ctx)
	if err != nil {
		return
	}
	for _, m := range l.Members() {
		d.has(m, nil)
	}
	time.Sleep(10 * time.Millisecond)
	d.leaves()
	_ = l.Unlock(ctx)
}

func diesWithSeveral(d *death) (act func(context.Context), after func()) {
	d.token = 0
	return d.takesThree, func() {
		d.token = 0 // each lock has tokens of its own
		d.allThree()
	}
}

// Another has one of the three, and gives it back while the one that dies waits for it.
func diesWaitingForSeveral(d *death) (act func(context.Context), after func()) {
	held := mustLock(d.t, d.c.client().Mutex("b"))
	free := make(chan struct{})
	return func(ctx context.Context) {
			time.AfterFunc(500*time.Millisecond, func() {
				noErr(d.t, held.Unlock(context.Background()))
				close(free)
			})
			d.takesThree(ctx)
		}, func() {
			<-free
			d.at, d.token = time.Now(), 0
			d.allThree()
		}
}

// An operator dies in a change of masters, at each write of a record. Another operator ends the change, while a client of the old list has a
// lock, which is over before anybody of the new one has it.
func diesReconfiguring(d *death) (act func(context.Context), after func()) {
	first, second := []int{0, 1, 2}, []int{2, 3, 4}
	d.c.recovery = true
	list, done := d.c.list(first...)
	noErr(d.t, admin.Init(d.t.Context(), list, nil, admin.NothingWasEverLocked))
	done()
	var l ledger
	lease := mustLock(d.t, d.c.on(first...).Mutex("x"))
	l.add(lease, 0, "of the old list")
	old, doneOld := d.c.list(first...)
	next, doneNext := d.c.list(second...)
	d.watched(old.Nodes)
	d.watched(next.Nodes)
	return func(ctx context.Context) {
			_ = admin.Reconfigure(ctx, old, next, nil)
		}, func() {
			defer doneOld()
			defer doneNext()
			if err := d.reconfigured(first, second); err != nil {
				d.t.Error(err)
				return
			}
			taken, err := d.c.on(second...).Mutex("x").Lock(d.t.Context())
			noErr(d.t, err)
			l.add(taken, 0, "of the new list")
			wantErr(d.t, lease.Err(), redlock.ErrLost)
			noErr(d.t, taken.Unlock(d.t.Context()))
			l.judge(d.t)
		}
}

// reconfigured has another operator change the masters. That is done already if the one that died had written all.
func (d *death) reconfigured(from, to []int) error {
	old, doneOld := d.c.list(from...)
	defer doneOld()
	next, doneNext := d.c.list(to...)
	defer doneNext()
	if err := admin.Reconfigure(d.t.Context(), old, next, nil); err != nil {
		return fmt.Errorf("another operator: %w", err)
	}
	return nil
}
