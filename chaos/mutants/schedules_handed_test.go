// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The schedules of the hand-off (docs/internals/handoff.md), in the order of all. Its messages are the command "message": a master sends them when it
// hands its vote to a waiter. A vote that is handed lives for 3 s.

// waits has c wait for the lock for at most d. What it returns waits for the lease; nil if there is none.
func (c *client) waits(d time.Duration) (lease func() *redlock.Lease) {
	got := make(chan *redlock.Lease, 1)
	go func() { got <- c.wait(d) }()
	time.Sleep(100 * time.Millisecond) // it subscribes, and looks again
	return func() *redlock.Lease { return <-got }
}

// lateMessages: the messages that tell b of its votes are late for half of the votes' life, and its extends are lost.
func lateMessages(w *world, a, b *client) error {
	c := w.clients[2]
	b.renews = true
	lease := a.try(context.Background())
	got := b.waits(2 * ttl)
	healed := w.fault("reorder", "messages to b held for 1.5s, its extends lost")
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

// askedTwice: b has two votes, and asks m0 a second time, because of a wake that was for nothing. Before that arrives, a's release does, and m0
// hands b its vote. So the answer to b tells it of a vote that is on its way already.
func askedTwice(w *world, a, b *client) error {
	c := w.clients[2]
	b.renews = true
	lease := b.try(context.Background())
	wakes := protocol.Wake(lease.Holder()[:36])
	b.unlock(lease)
	lease = a.try(context.Background())
	b.reach(0, 1, 2, 3)
	got := b.waits(2 * ttl)
	healed := w.fault("reorder", "a's release held for 15ms to m0 and for 1s to m3; b's second request to m0 held for 15ms, m3's answer for 60ms, m0's message for 200ms, extends lost")
	a.hurt(func(i int, cmd nodetest.Command) nodetest.Fault {
		if cmd.Name == "release" {
			return nodetest.Fault{Delay: [masters]time.Duration{0: 15 * time.Millisecond, 3: time.Second}[i]}
		}
		return nodetest.Fault{}
	})
	asked := 0
	b.hurt(func(i int, cmd nodetest.Command) nodetest.Fault {
		switch {
		case cmd.Name == "acquire" && i == 0:
			if asked++; asked == 2 {
				return nodetest.Fault{Delay: 15 * time.Millisecond}
			}
		case cmd.Name == "acquire" && i == 3:
			return nodetest.Fault{ReplyDelay: 60 * time.Millisecond}
		case cmd.Name == "message" && i == 0 && cmd.Args[1] != lock:
			return nodetest.Fault{ReplyDelay: 200 * time.Millisecond}
		case cmd.Name == "extend":
			return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: true}
		}
		return nodetest.Fault{}
	})
	a.unlock(lease)
	time.Sleep(8 * time.Millisecond)
	if err := w.masters[0].Do(func(db *nodetest.DB) { db.Publish(wakes, lock) }); err != nil {
		return err
	}
	lease = got()
	c.reach(0, 3, 4)
	c.use(c.wait(2 * ttl))
	b.unlock(lease)
	healed()
	return nil
}

// vanishedHand: b has two votes, and asks m0 a second time. Before that arrives, m0 hands b its vote, the vote vanishes, and c has the lock for a
// moment. So b has another vote on m0 than the one that it was told of, and c has had the same token.
func vanishedHand(w *world, a, b *client) error {
	c, d := w.clients[2], w.clients[3]
	b.renews, c.unfair = true, true
	lease := b.try(context.Background())
	wakes := protocol.Wake(lease.Holder()[:36])
	b.unlock(lease)
	a.reach(0, 1, 2, 4)
	b.reach(0, 1, 2, 3)
	c.reach(0, 3, 4)
	d.reach(3)
	lease = a.try(context.Background())
	d.hurt(on("release", nodetest.Fault{Delay: 112 * time.Millisecond}, 3))
	var lost sync.WaitGroup
	lost.Go(func() { d.try(context.Background()) }) // so that m3 does not grant b's first requests
	time.Sleep(time.Millisecond)
	got := b.waits(2 * ttl)
	healed := w.fault("delete-lock", "the lock's key deleted on m0; a's release and b's second request to m0 held for 15ms, b's to m3 for 60ms, a message for 2ms")
	a.hurt(on("release", nodetest.Fault{Delay: 15 * time.Millisecond}, 0))
	asked := 0
	b.hurt(func(i int, cmd nodetest.Command) nodetest.Fault {
		switch {
		case cmd.Name == "acquire" && i == 0:
			if asked++; asked == 2 {
				return nodetest.Fault{Delay: 15 * time.Millisecond}
			}
		case cmd.Name == "acquire" && i == 3:
			return nodetest.Fault{Delay: 60 * time.Millisecond}
		case cmd.Name == "message" && i == 0 && cmd.Args[1] != lock:
			return nodetest.Fault{ReplyDelay: 2 * time.Millisecond}
		}
		return nodetest.Fault{}
	})
	a.unlock(lease)
	time.Sleep(8 * time.Millisecond)
	if err := w.masters[0].Do(func(db *nodetest.DB) { db.Publish(wakes, lock) }); err != nil {
		return err
	}
	time.Sleep(8 * time.Millisecond)
	if err := w.vanish(); err != nil {
		return err
	}
	c.unlock(c.wait(ttl))
	b.use(got())
	lost.Wait()
	healed()
	return nil
}

// vanish deletes the lock on m0. The counter there is then such that the next token is that of b's vote on m1: as if a lock that shares the counter
// had been taken meanwhile.
func (w *world) vanish() error {
	counter, at := protocol.NewLock(lock, protocol.Plain).Counter, int64(0)
	err := w.masters[1].Do(func(db *nodetest.DB) {
		text, _ := db.HGet(protocol.RecordKey, counter)
		at, _ = strconv.ParseInt(text, 10, 64)
	})
	return errors.Join(err, w.masters[0].Do(func(db *nodetest.DB) {
		db.Del(lock)
		db.HSet(protocol.RecordKey, counter, strconv.FormatInt(at-1, 10))
	}))
}

// leftPlace: b gives up while it waits, and then the lock is given back.
func leftPlace(w *world, a, b *client) error {
	lease := a.try(context.Background())
	b.wait(500 * time.Millisecond)
	a.unlock(lease)
	return nil
}

// deadHead: b dies while it waits, and is handed the lock. Its host does not say so: its connections stand half open, so the masters still count it
// among those who listen.
func deadHead(w *world, a, b *client) error {
	b.renews = true
	lease := a.try(context.Background())
	got := b.waits(ttl)
	healed := w.fault("kill-client", "b dead, its connections half open")
	b.hurt(func(_ int, cmd nodetest.Command) nodetest.Fault {
		if cmd.Name == "message" {
			return nodetest.Fault{Lose: nodetest.LoseReply}
		}
		return nodetest.Fault{Lose: nodetest.LoseCommand}
	})
	a.unlock(lease)
	got() // it gives up
	healed()
	return nil
}

// restartedQueue: all masters restart with their data, and so with the place that b has in their queues. They vote again, and b has the lock by another
// request. b goes on listening, because it waits for another lock, so its old place looks alive. What b hears is late.
func restartedQueue(w *world, a, b *client) error {
	lease := a.try(context.Background())
	got := b.waits(3 * ttl)
	healed := w.fault("kill-majority", "all masters restarted with their data; messages to b held for 3s")
	b.hurt(on("message", nodetest.Fault{ReplyDelay: 3 * time.Second}, 0, 1, 2, 3, 4))
	for _, m := range w.masters {
		m.Crash()
		m.Restart()
	}
	late := got()
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	if _, err := a.Mutex("other").Lock(ctx); err != nil { // some masters vote a moment later
		return err
	}
	go func() { _, _ = b.Mutex("other").Lock(context.Background()) }() // until the world is closed
	b.use(late)
	a.unlock(lease)
	healed()
	return nil
}

// downgradedWriter: a goes on as a reader while b waits for the write lock.
func downgradedWriter(w *world, a, b *client) error {
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

// lateHandOff: a's releases are on their way while the masters are left for others, and b waits there.
func lateHandOff(w *world, _, _ *client) error {
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
	healed := w.fault("reorder", "three releases held for 1.8s, while the masters are changed")
	a.hurt(on("release", nodetest.Fault{Delay: 1800 * time.Millisecond}, 0, 1, 2))
	a.unlock(lease)
	if err := w.change(); err != nil {
		return err
	}
	lease = got()
	c, err := w.client("c", w.masters[2:])
	if err != nil {
		return err
	}
	c.use(c.wait(ttl))
	b.unlock(lease)
	healed()
	return nil
}

// unseenVote: the clock of m2 jumps over the TTL of the vote that a counts. Then x's acquire arrives there, which was on its way for a second, and
// its release behind it. b waits for m2, and has two votes.
func unseenVote(w *world, x, a *client) error {
	b := w.clients[2]
	a.ttl, b.renews = 3200*time.Millisecond, true
	other, err := x.Mutex("other").TryLock(context.Background())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	waits.Go(func() { _, _ = b.Mutex("other").Lock(ctx) }) // so b has subscribed
	defer cancel()
	time.Sleep(time.Second)
	healed := w.fault("step-clock", "x's acquire to m2 held for 1s; the clock of m2 steps 2.4s forward before that arrives")
	a.reach(0, 1, 2)
	b.reach(2, 3, 4)
	time.Sleep(100 * time.Millisecond)
	x.hurt(on("acquire", nodetest.Fault{Delay: 1020 * time.Millisecond}, 2))
	b.hurt(on("acquire", nodetest.Fault{ReplyDelay: 10 * time.Millisecond}, 3, 4)) // its next pipeline asks for TIME
	x.unlock(x.wait(ttl))
	lease := a.try(context.Background())
	time.Sleep(1009 * time.Millisecond)
	var late *redlock.Lease
	done := make(chan struct{})
	go func() {
		defer close(done)
		late = b.wait(3 * time.Second)
	}()
	time.Sleep(1500 * time.Microsecond)
	w.masters[2].StepClock(2400 * time.Millisecond)
	time.Sleep(time.Second)
	a.unlock(lease)
	<-done
	b.unlock(late)
	cancel()
	waits.Wait()
	healed()
	return other.Unlock(context.Background())
}
