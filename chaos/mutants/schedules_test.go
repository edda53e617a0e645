// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The schedules, in the order of all. Each says what a client or a master meets, and puts on record what clients do.

// on makes commands called name suffer fault on the masters given.
func on(name string, fault nodetest.Fault, ids ...int) func(int, nodetest.Command) nodetest.Fault {
	return func(i int, cmd nodetest.Command) nodetest.Fault {
		if cmd.Name == name && slices.Contains(ids, i) {
			return fault
		}
		return nodetest.Fault{}
	}
}

var errNoKill = errors.New("NOPERM this user has no permissions to run the 'client|kill' command")

// zombieRelease: two releases of a's lost attempt are held in the network, and delivered when its next attempt has won on the bare
// quorum of masters that it reaches (docs/safety.md A14).
func zombieRelease(w *world, a, b *client) error {
	a.reach(0, 3, 4)
	healed := w.fault("reorder", "two releases held for 2s")
	w.masters[0].Pause()
	held := 0
	a.hurt(func(_ int, cmd nodetest.Command) nodetest.Fault {
		switch {
		case cmd.Name == "client kill":
			return nodetest.Fault{Refuse: errNoKill}
		case cmd.Name == "release" && held < 2:
			held++
			return nodetest.Fault{Delay: 2 * time.Second, Cut: true}
		}
		return nodetest.Fault{}
	})
	a.try(context.Background())
	w.masters[0].Resume()
	time.Sleep(time.Second)
	lease := a.try(context.Background())
	b.use(b.wait(2 * ttl))
	a.unlock(lease)
	healed()
	return nil
}

// pauseBeforeTheCheck: a is stopped for longer than its TTL between the replies and its look at the clock (docs/safety.md A2).
func pauseBeforeTheCheck(w *world, a, b *client) error {
	healed := w.fault("freeze-client", "stopped for 11s between the replies and the check")
	a.hurt(func(_ int, cmd nodetest.Command) nodetest.Fault {
		return nodetest.Fault{ReplyDelay: 10 * time.Millisecond}
	})
	time.AfterFunc(5*time.Millisecond, func() { a.Clock.PauseNext(11 * time.Second) })
	var wg sync.WaitGroup
	wg.Go(func() { a.use(a.try(context.Background())) })
	time.Sleep(time.Second)
	lease := b.wait(2 * ttl)
	time.Sleep(time.Second)
	b.use(lease)
	wg.Wait()
	healed()
	return nil
}

// vanishedVotes: a's votes on two masters are deleted while its confirms are on their way there. b votes on both meanwhile, and has
// found the same token on a third (docs/safety.md CE-2).
func vanishedVotes(w *world, a, b *client) error {
	raise(w.clients[2], 0, 3)
	a.reach(0, 1, 2)
	b.reach(1, 2, 3)
	healed := w.fault("delete-lock", "the lock's key deleted on m1 and m2; two confirms held for 50ms")
	a.hurt(func(_ int, cmd nodetest.Command) nodetest.Fault {
		if cmd.Name == "confirm" {
			return nodetest.Fault{Delay: 50 * time.Millisecond}
		}
		return nodetest.Fault{}
	})
	var late *redlock.Lease
	var wg sync.WaitGroup
	wg.Go(func() { late = a.try(context.Background()) })
	time.Sleep(10 * time.Millisecond)
	for _, m := range w.masters[1:3] {
		if err := m.Do(func(db *nodetest.DB) { db.Del(lock) }); err != nil {
			return err
		}
	}
	b.use(b.try(context.Background()))
	wg.Wait()
	a.unlock(late)
	healed()
	return nil
}

// raise has a client whose clock is fast push the lock's counters on some masters, by an attempt that is lost there.
func raise(c *client, ids ...int) {
	c.Clock.SetAhead(30 * time.Second)
	c.reach(ids...)
	c.try(context.Background())
	_ = c.Close()
}

// amnesia: the one master that a's quorum and b's share restarts without its data (docs/safety.md A7).
func amnesia(w *world, a, b *client) error {
	a.reach(0, 1, 2)
	lease := a.try(context.Background())
	healed := w.fault("wipe-minority", "m2 restarted without its data")
	w.masters[2].Crash()
	w.masters[2].Flush()
	w.masters[2].Restart()
	healed()
	b.use(b.wait(2 * ttl))
	a.unlock(lease)
	return nil
}

// amnesiaBehindAVote: a master loses its data behind a vote that a counts, with the counter that its token is of, while a's confirms
// are on their way to the other two (docs/safety.md, "Amnesia"). What it learnt before they arrive is too little.
func amnesiaBehindAVote(w *world, a, b *client) error {
	raise(w.clients[2], 0)
	a.reach(0, 1, 2)
	a.hurt(on("confirm", nodetest.Fault{Delay: 120 * time.Millisecond}, 1, 2))
	var wg sync.WaitGroup
	wg.Go(func() {
		a.use(a.try(context.Background()))
		_ = a.Close() // it sees too few masters to help m0
	})
	time.Sleep(time.Millisecond)
	healed := w.fault("wipe-minority", "m0 restarted without its data, two confirms held for 120ms")
	w.masters[0].Crash()
	w.masters[0].Flush()
	w.masters[0].Restart()
	_, _ = b.Mutex("other").TryLock(context.Background()) // it notices that m0 is another
	wg.Wait()
	healed()
	time.Sleep(ttl + ttl/5) // m0 votes again
	b.reach(0, 3, 4)
	b.use(b.try(context.Background()))
	return nil
}

// zombieExtend: three extends are held in the network, and delivered when the lock was given back (docs/safety.md A19).
func zombieExtend(w *world, a, _ *client) error {
	lease := a.try(context.Background())
	healed := w.fault("reorder", "three extends held for 3s")
	a.hurt(func(i int, cmd nodetest.Command) nodetest.Fault {
		switch {
		case cmd.Name == "client kill":
			return nodetest.Fault{Refuse: errNoKill}
		case cmd.Name == "extend" && i < 3:
			return nodetest.Fault{Delay: 3 * time.Second, Cut: true}
		}
		return nodetest.Fault{}
	})
	a.extend(lease)
	time.Sleep(time.Second)
	a.unlock(lease)
	time.Sleep(3 * time.Second)
	healed()
	return nil
}

// slowAcquire: three acquires are on their way for longer than a connection is waited for (docs/safety.md A16).
func slowAcquire(w *world, a, _ *client) error {
	return heldAcquires(w, a, nodetest.Fault{Delay: 3 * time.Second})
}

// zombieAcquire: three acquires are held in the network, and delivered after their releases (docs/safety.md A13).
func zombieAcquire(w *world, a, _ *client) error {
	return heldAcquires(w, a, nodetest.Fault{Delay: 3 * time.Second, Cut: true})
}

// heldAcquires has fault happen once on each of three masters.
func heldAcquires(w *world, a *client, fault nodetest.Fault) error {
	healed := w.fault("reorder", "three acquires held for 3s")
	var done [masters]bool
	a.hurt(func(i int, cmd nodetest.Command) nodetest.Fault {
		if cmd.Name != "acquire" || i >= 3 || done[i] {
			return nodetest.Fault{}
		}
		done[i] = true
		return fault
	})
	a.try(context.Background())
	time.Sleep(3 * time.Second)
	healed()
	return nil
}

// fastMasters: all masters' clocks are 0.8 % fast, within the drift (docs/safety.md A4).
func fastMasters(w *world, a, b *client) error {
	healed := w.fault("skew-clocks", "clocks of all masters 0.8 % fast")
	for _, m := range w.masters {
		m.SetClockRate(1.008)
	}
	lease := a.try(context.Background())
	time.Sleep(ttl * 995 / 1000) // between the masters' end of the TTL and a's
	b.use(b.try(context.Background()))
	a.unlock(lease)
	for _, m := range w.masters {
		m.SetClockRate(1)
	}
	healed()
	return nil
}

// impatientCaller: the caller gives up while the masters' votes are on their way to it.
func impatientCaller(w *world, a, _ *client) error {
	healed := w.fault("slow-replies", "replies take 50ms")
	a.hurt(on("acquire", nodetest.Fault{ReplyDelay: 50 * time.Millisecond}, 0, 1, 2, 3, 4))
	ctx, cancel := context.WithCancel(context.Background())
	defer time.AfterFunc(20*time.Millisecond, cancel).Stop() // a deadline would have a give up before
	a.try(ctx)
	time.Sleep(time.Second)
	healed()
	return nil
}

// lostReplies: three connections break behind an acquire that was executed (docs/safety.md A17).
func lostReplies(w *world, a, _ *client) error {
	healed := w.fault("cut-replies", "three connections reset behind the acquire")
	a.hurt(on("acquire", nodetest.Fault{Lose: nodetest.LoseReply, Cut: true}, 0, 1, 2))
	a.try(context.Background())
	time.Sleep(time.Second)
	healed()
	return nil
}

// partedQuorums: a and b reach one master in common, and a's token is of one that b does not reach (docs/safety.md, rule R3).
func partedQuorums(w *world, a, b *client) error {
	healed := w.fault("partition", "a cut off from m3 and m4, b from m0 and m1")
	raise(w.clients[2], 0)
	a.reach(0, 1, 2)
	b.reach(2, 3, 4)
	a.use(a.try(context.Background()))
	b.use(b.try(context.Background()))
	healed()
	return nil
}

// lonelyExtend: of a's three votes one is in reach when it extends (docs/safety.md A18).
func lonelyExtend(w *world, a, b *client) error {
	a.reach(0, 1, 2)
	lease := a.try(context.Background())
	healed := w.fault("partition", "a cut off from m3 and m4, and its extends to m1 and m2 lost")
	a.hurt(on("extend", nodetest.Fault{Lose: nodetest.LoseCommand}, 1, 2))
	time.Sleep(3 * time.Second)
	a.extend(lease)
	b.use(b.wait(2 * ttl))
	a.unlock(lease)
	healed()
	return nil
}

// steppedClock: the clock of the one master that a's quorum and b's share jumps over a's TTL (docs/safety.md A3). b has seen the clock
// before.
func steppedClock(w *world, a, b *client) error {
	a.reach(0, 1, 2)
	lease := a.try(context.Background())
	_, _ = b.Mutex("other").TryLock(context.Background())
	time.Sleep(time.Second)
	healed := w.fault("step-clock", "clock of m2 steps a minute forward")
	w.masters[2].StepClock(time.Minute)
	healed()
	b.use(b.wait(2 * ttl))
	a.unlock(lease)
	return nil
}

// steppedClockUnseen: the same, but b starts after the jump, and nothing of its own tells it of one.
func steppedClockUnseen(w *world, a, _ *client) error {
	lease := a.try(context.Background()) // all five masters have a vote, and then clock notes
	time.Sleep(3 * time.Second)
	a.unlock(lease)
	a.reach(0, 1, 2)
	lease = a.try(context.Background())
	healed := w.fault("step-clock", "clock of m2 steps a minute forward")
	w.masters[2].StepClock(time.Minute)
	healed()
	b, err := w.client("b", w.masters)
	if err != nil {
		return err
	}
	b.use(b.wait(2 * ttl))
	a.unlock(lease)
	return nil
}

// twoLists: a and b are given three masters each, of which they share one (docs/safety.md A24). As things are b is refused when it
// starts, and that is all there is to see.
func twoLists(w *world, _, _ *client) error {
	healed := w.fault("misconfigure", "a has m0, m1, m2, and b m2, m3, m4")
	defer healed()
	w.probed = w.masters[:3]
	if err := w.begin(w.masters[:3]); err != nil {
		return err
	}
	a, err := w.client("a", w.masters[:3])
	if err != nil {
		return err
	}
	b, err := w.client("b", w.masters[2:])
	if errors.Is(err, redlock.ErrRefused) {
		a.use(a.try(context.Background()))
		return nil
	} else if err != nil {
		return fmt.Errorf("want %w for another list of masters: %w", redlock.ErrRefused, err)
	}
	time.Sleep(ttl + ttl/5) // m3 and m4 vote
	lease := a.try(context.Background())
	b.use(b.try(context.Background()))
	a.unlock(lease)
	return nil
}
