// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The schedules of the hand-off (docs/handoff.md), in the order of all. Its messages are the command "message": a master sends them when it
// hands its vote to a waiter. A vote that is handed lives for 3 s.

// waits has c wait for the lock for at most d. What it returns waits for the lease; nil if there is none.
func (c *client) waits(d time.Duration) (lease func() *redlock.Lease) {
	got := make(chan *redlock.Lease, 1)
	go func() { got <- c.wait(d) }()
	time.Sleep(100 * time.Millisecond) // it subscribes, and looks again
	return func() *redlock.Lease { return <-got }
}

// lateMessages: the messages that tell b of its votes are late for half of the votes' life, and its extends are lost.
func lateMessages(w *world) error {
	cs, err := w.start("a", "b", "c")
	if err != nil {
		return err
	}
	a, b, c := cs[0], cs[1], cs[2]
	b.renews = true
	lease := a.try(context.Background())
	got := b.waits(2 * ttl)
	healed := w.fault("N10", "messages to b held for 1.5s, its extends lost")
	b.hurt(func(_ int, cmd nodetest.Command) nodetest.Fault {
		switch cmd.Name {
		case "message":
			return nodetest.Fault{ReplyDelay: 1500 * time.Millisecond}
		case "extend":
			return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: true}
		}
		return nodetest.Fault{}
	})
	a.unlock(lease)
	lease = got()
	c.use(c.wait(2 * ttl))
	b.unlock(lease)
	healed()
	return nil
}

// leftPlace: b gives up while it waits, and then the lock is given back.
func leftPlace(w *world) error {
	a, b, err := w.pair()
	if err != nil {
		return err
	}
	lease := a.try(context.Background())
	b.wait(500 * time.Millisecond)
	a.unlock(lease)
	return nil
}

// deadHead: b dies while it waits, and is handed the lock.
func deadHead(w *world) error {
	a, b, err := w.pair()
	if err != nil {
		return err
	}
	b.renews = true
	lease := a.try(context.Background())
	got := b.waits(ttl)
	healed := w.fault("kill-client", "b dead")
	b.reach()
	a.unlock(lease)
	got() // it gives up
	healed()
	return nil
}

// restartedQueue: all masters restart with their data, and so with the place that b has in their queues.
func restartedQueue(w *world) error {
	a, b, err := w.pair()
	if err != nil {
		return err
	}
	lease := a.try(context.Background())
	got := b.waits(3 * ttl)
	healed := w.fault("N2", "all masters restarted with their data")
	for _, m := range w.masters {
		m.Crash()
		m.Restart()
	}
	healed()
	b.use(got())
	a.unlock(lease)
	return nil
}

// downgradedWriter: a goes on as a reader while b waits for the write lock.
func downgradedWriter(w *world) error {
	a, b, err := w.pair()
	if err != nil {
		return err
	}
	a.writes, b.writes, b.renews = true, true, true
	lease := a.try(context.Background())
	if lease == nil {
		return nil
	}
	got := b.waits(2 * ttl)
	read := history.Op{Kind: history.KindLock, Mode: history.Shared, Client: "a.reader", Lock: lock, Call: now()}
	reads, err := a.RWMutex(lock).RLocker().Lock(lease.Context())
	if err != nil {
		return err
	}
	a.unlock(lease)
	read.Return, read.Outcome, read.Holder, read.Token, read.Deadline = now(), history.OK, reads.Holder(), reads.Token(), reads.ValidUntil().UnixNano()
	w.record(read) // it claims nothing before
	time.Sleep(time.Second)
	a.unlock(reads)
	b.use(got())
	return nil
}

// lateHandOff: a gives the lock back when its masters have been left for others, and b waits there.
func lateHandOff(w *world) error {
	w.ttl = 3 * time.Second
	a, err := w.oldList()
	if err != nil {
		return err
	}
	b, err := w.client("b", w.masters[:3])
	if err != nil {
		return err
	}
	b.renews = true
	time.Sleep(time.Second)
	lease := a.try(context.Background())
	got := b.waits(2 * ttl)
	healed := w.fault("N9", "a and b hear nothing of a change of masters")
	var changed error
	var wg sync.WaitGroup
	wg.Go(func() { changed = w.change() })
	time.Sleep(1700 * time.Millisecond)
	a.unlock(lease)
	lease = got()
	wg.Wait()
	if changed != nil {
		return changed
	}
	c, err := w.client("c", w.masters[2:])
	if err != nil {
		return err
	}
	c.use(c.wait(ttl))
	b.unlock(lease)
	healed()
	return nil
}
