// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// More schedules, in the order of all.

// plainUnlock: a takes the lock and gives it back.
func plainUnlock(w *world, a, _ *client) error {
	a.use(a.try(context.Background()))
	return nil
}

// untold: a holds the lock for longer than its validity, and does not look at its lease meanwhile. It is on record when it is told.
func untold(w *world, a, _ *client) error {
	lease := a.try(context.Background())
	pulse := history.Pulse{Process: "a", At: now()} // no timer of a is late
	deadline := lease.ValidUntil().UnixNano()
	context.AfterFunc(lease.Context(), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.h.Signals = append(w.h.Signals, history.Signal{Process: "a", Lock: lock, Holder: lease.Holder(), At: now(), Deadline: deadline, Cause: "lost"})
	})
	time.Sleep(3 * ttl / 2)
	a.unlock(lease)
	time.Sleep(time.Second)
	w.h.Pulses = append(w.h.Pulses, pulse, history.Pulse{Process: "a", At: now()})
	return nil
}

// frozenAcquire: three masters are frozen with an unread acquire of a, for longer than the TTL. They execute it as they go on.
func frozenAcquire(w *world, a, _ *client) error {
	healed := w.fault("freeze-masters", "m0, m1 and m2 stopped for two TTLs")
	for _, m := range w.masters[:3] {
		m.Pause()
	}
	a.try(context.Background())
	time.Sleep(2 * ttl)
	for _, m := range w.masters[:3] {
		m.Resume()
	}
	time.Sleep(time.Second)
	healed()
	return nil
}

// readersAtOnce: two readers hold the lock together. a's token is of m0, and b finds the same one on m3. Their quorums share m1 and m2,
// which a's confirms reach after b's (docs/safety.md, section 3, "Readers").
func readersAtOnce(w *world, a, b *client) error {
	raise(w.clients[2], 0, 3)
	a.reads, b.reads = true, true
	a.reach(0, 1, 2)
	b.reach(1, 2, 3)
	healed := w.fault("reorder", "two confirms held for 50ms")
	a.hurt(on("confirm", nodetest.Fault{Delay: 50 * time.Millisecond}, 1, 2))
	var late *redlock.Lease
	var wg sync.WaitGroup
	wg.Go(func() { late = a.try(context.Background()) })
	time.Sleep(10 * time.Millisecond)
	b.use(b.try(context.Background()))
	wg.Wait()
	a.unlock(late)
	healed()
	return nil
}

// change moves the locks from m0, m1 and m2 to the last three masters.
func (w *world) change() error {
	clk := clock.Monotonic()
	var nodes []node.Node
	for _, m := range w.masters {
		n := m.Node(node.Config{Clock: clk})
		defer n.Close()
		nodes = append(nodes, n)
	}
	opts := append(w.options(), redlock.WithClock(clk))
	return admin.Reconfigure(context.Background(), admin.List{Nodes: nodes[:3], Options: opts}, admin.List{Nodes: nodes[len(nodes)-3:], Options: opts}, nil)
}

// emptiedOldList: the locks moved from m0, m1 and m2 to m3, m4 and m5. The old masters then restart without data, and a still has the old
// list (docs/internals/membership.md, rule 1).
func emptiedOldList(w *world, _, _ *client) error {
	w.masters = simtest.New(6)
	a, err := w.oldList()
	if err != nil {
		return err
	}
	a.reach()
	if err := w.change(); err != nil {
		return err
	}
	time.Sleep(2 * ttl) // a cannot vouch for the old list any more
	healed := w.fault("wipe-minority", "m0, m1 and m2, which the list had before, restarted without data")
	for _, m := range w.masters[:3] {
		m.Crash()
		m.Flush()
		m.Restart()
	}
	a.reach(0, 1, 2)
	b, err := w.client("b", w.masters[3:])
	if err != nil {
		return err
	}
	lease := b.try(context.Background())
	for range 30 {
		time.Sleep(ttl / 10)
		b.extend(lease)
		a.use(a.try(context.Background()))
	}
	b.unlock(lease)
	healed()
	return nil
}

// lockedThroughAChange: a holds the lock on m0, m1 and m2 when the locks move to m2, m3 and m4, and does not learn of it.
func lockedThroughAChange(w *world, _, _ *client) error {
	a, err := w.oldList()
	if err != nil {
		return err
	}
	lease := a.try(context.Background())
	healed := w.fault("partition", "a cut off from all masters while they are changed")
	a.reach()
	if err := w.change(); err != nil {
		return err
	}
	b, err := w.client("b", w.masters[2:])
	if err != nil {
		return err
	}
	b.use(b.wait(ttl))
	a.unlock(lease)
	healed()
	return nil
}

// oldList opens a on m0, m1 and m2, which vote from then on. The probe takes the lock on the last three masters.
func (w *world) oldList() (a *client, err error) {
	w.moves, w.probed = true, w.masters[len(w.masters)-3:]
	if err := w.begin(w.masters[:3]); err != nil {
		return nil, err
	}
	if a, err = w.client("a", w.masters[:3]); err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	return a, nil
}
