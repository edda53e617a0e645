// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The schedules of defences that were added after faults from outside (docs/track-record.md), in the order of all.

// evictedQuorum: three masters evict the lock that a holds.
func evictedQuorum(w *world, a, b *client) error {
	lease := a.try(context.Background())
	time.Sleep(100 * time.Millisecond)
	healed := w.fault("fill-memory", "m0, m1 and m2 evict the lock")
	for _, m := range w.masters[:3] {
		m.Evict(lock)
	}
	time.Sleep(100 * time.Millisecond)
	b.use(b.wait(2 * ttl))
	a.unlock(lease)
	healed()
	return nil
}

// lateHands: three masters hand b the lock, and the other two a moment later. Then one of the three loses its data. Four have b's vote.
func lateHands(w *world, a, b *client) error {
	b.renews = true
	lease := a.try(context.Background())
	got := b.waits(2 * ttl)
	healed := w.fault("wipe-minority", "m1 flushed right after a hand")
	a.hurt(on("release", nodetest.Fault{Delay: 5 * time.Millisecond}, 3, 4))
	a.unlock(lease)
	if lease = got(); lease == nil {
		return nil
	}
	time.Sleep(10 * time.Millisecond)
	w.masters[1].Flush()
	select {
	case <-lease.Context().Done():
	case <-time.After(w.ttl):
	}
	w.look(lease)
	b.unlock(lease)
	time.Sleep(2 * w.ttl) // m1 votes again
	healed()
	return nil
}

// restingLock: a takes the lock with a minimum hold and gives it back at once. On record a has it until the minimum hold is over.
func restingLock(w *world, a, b *client) error {
	minHold := w.ttl / 2
	op := history.Op{Kind: history.KindLock, Mode: history.Exclusive, Client: a.name, Lock: lock, Call: now(), Outcome: history.OK}
	lease, err := a.Mutex(lock, redlock.WithMinHold(minHold)).TryLock(context.Background())
	if err != nil {
		return err
	}
	op.Return, op.Holder, op.Token, op.Deadline = now(), lease.Holder(), lease.Token(), op.Call+int64(minHold)
	w.record(op)
	if err := lease.Unlock(context.Background()); err != nil {
		return err
	}
	b.use(b.wait(2 * ttl))
	return nil
}

// adoptedLease: a hands its lease off, and b adopts it.
func adoptedLease(w *world, a, b *client) error {
	lease := a.try(context.Background())
	if lease == nil {
		return nil
	}
	time.Sleep(100 * time.Millisecond)
	op := history.Op{Kind: history.KindUnlock, Client: a.name, Lock: lock, Holder: lease.Holder(), Call: now(), Outcome: history.OK}
	ticket, err := lease.Transfer(context.Background())
	if err != nil {
		return err
	}
	op.Return = now()
	w.record(op)
	b.use(b.take(context.Background(), func(ctx context.Context) (*redlock.Lease, error) { return b.Adopt(ctx, ticket) }))
	return nil
}
