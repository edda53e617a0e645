// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// world is masters in memory, in a bubble of synctest.
type world struct {
	t  *testing.T
	ms simtest.Masters
}

// inWorld runs test in a bubble with three masters that vote.
func inWorld(t *testing.T, test func(t *testing.T, w *world), opts ...redlock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, simtest.New(3)}
		quorumtest.NoErr(t, w.ms.Init(t.Context(), opts...))
		test(t, w)
	})
}

// client opens a client: another process.
func (w *world) client(opts ...redlock.Option) *simtest.Client {
	w.t.Helper()
	c, err := w.ms.Open(w.t.Context(), nil, opts...)
	quorumtest.NoErr(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// faults has each command and message of the client meet the same fault.
func faults(c *simtest.Client, command, message nodetest.Fault) {
	for _, n := range c.Ways {
		n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
			if cmd.Name == "message" {
				return message
			}
			return command
		})
	}
}

// slow makes each way of the client take d, and so a trip 2 d.
func slow(c *simtest.Client, d time.Duration) {
	faults(c, nodetest.Fault{Delay: d, ReplyDelay: d}, nodetest.Fault{ReplyDelay: d})
}

func must(t *testing.T, c *simtest.Client, k int, opts ...redlock.LockOption) *Semaphore {
	t.Helper()
	s := New(c.Client, "db", k, opts...)
	return s
}

func acquire(t testing.TB, s *Semaphore) *Permit {
	t.Helper()
	p, err := s.Acquire(t.Context())
	quorumtest.NoErr(t, err)
	return p
}

func release(t testing.TB, ps ...*Permit) {
	t.Helper()
	for _, p := range ps {
		quorumtest.NoErr(t, p.Release(t.Context()))
	}
}

// waits has s wait for a permit. The channel has it, or nil if Acquire failed.
func waits(ctx context.Context, s *Semaphore) chan *Permit {
	got := make(chan *Permit, 1)
	go func() {
		p, _ := s.Acquire(ctx)
		got <- p
	}()
	time.Sleep(100 * time.Millisecond) // it is in the queue, and hears messages
	return got
}

// nothingLeft fails if the masters have a vote or a place in a queue.
func (w *world) nothingLeft() {
	w.t.Helper()
	synctest.Wait()
	for _, m := range w.ms {
		for _, key := range m.Keys() {
			if strings.Contains(key, "db:") {
				w.t.Errorf("%s has %s", m.Name(), key)
			}
		}
	}
}

// forget deletes the votes of a lock on a quorum of masters, once all have voted.
func (w *world) forget(name string) {
	synctest.Wait()
	for _, m := range w.ms[:2] {
		_ = m.Do(func(db *nodetest.DB) { db.Del(name) })
	}
}

func TestAcquire_allTaken_nextWaitsForARelease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := must(t, w.client(), 3), must(t, w.client(), 3)
		held := []*Permit{acquire(t, a), acquire(t, b), acquire(t, a)}
		var slots []int
		for _, p := range held {
			slots = append(slots, p.Slot())
			if p.Token() == 0 || p.Name() != fmt.Sprint("db:slot:", p.Slot()) || p.Err() != nil || p.Holder() == "" || time.Until(p.ValidUntil()) < time.Second {
				t.Errorf("%d %q: %v", p.Slot(), p.Name(), p.Err())
			}
		}
		if slices.Sort(slots); !slices.Equal(slots, []int{1, 2, 3}) {
			t.Errorf("slots %v", slots)
		}
		_, err := b.TryAcquire(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		got := waits(t.Context(), b)
		time.Sleep(15 * time.Second) // all are renewed
		if len(got) > 0 {
			t.Error("a fourth permit")
		}
		start := time.Now()
		release(t, held[1])
		p := <-got
		if took := time.Since(start); took > 10*time.Millisecond || p.Slot() != held[1].Slot() || p.Token() <= held[1].Token() {
			t.Errorf("slot %d with token %d after %v", p.Slot(), p.Token(), took)
		}
		quorumtest.Is(t, held[1].Err(), redlock.ErrReleased)
		quorumtest.Is(t, held[1].Release(t.Context()), redlock.ErrReleased)
		release(t, p, held[0], held[2])
		w.nothingLeft()
	})
}

// What a permit costs in trips of 2 ms, and in acquires of a master.
func TestAcquire_cost(t *testing.T) {
	for _, k := range []int{1, 10, 100} {
		if k > 10 && needs.Race {
			break // it takes long, and is the same with more goroutines
		}
		inWorld(t, func(t *testing.T, w *world) {
			ca, cb, cc := w.client(), w.client(), w.client()
			var asks atomic.Int64
			for _, c := range []*simtest.Client{ca, cb, cc} {
				slow(c, time.Millisecond)
			}
			cb.Ways[0].SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if cmd.Name == "acquire" {
					asks.Add(1)
				}
				return nodetest.Fault{Delay: time.Millisecond, ReplyDelay: time.Millisecond}
			})
			a, b, c := must(t, ca, k), must(t, cb, k), must(t, cc, k)
			free := time.Hour // the best of some: the votes of few need a second trip for their token
			for range 5 {
				start := time.Now()
				p := acquire(t, b)
				free = min(free, time.Since(start))
				release(t, p)
			}
			if free > 2*time.Millisecond {
				t.Errorf("k=%d: a free permit took %v", k, free)
			}
			var held []*Permit
			for range k {
				p, err := a.TryAcquire(t.Context())
				quorumtest.NoErr(t, err)
				held = append(held, p)
			}
			start := time.Now()
			_, err := b.TryAcquire(t.Context())
			quorumtest.Is(t, err, redlock.ErrHeld)
			refused := time.Since(start)
			before := asks.Load()
			first, second := waits(t.Context(), b), waits(t.Context(), c)
			joined := asks.Load() - before
			start = time.Now()
			release(t, held[0])
			p := <-first
			waited := time.Since(start)
			start = time.Now()
			release(t, p)
			held[0] = <-second
			next := time.Since(start)
			t.Logf("k=%d: free %v, refused %v, handed %v after the release, handed to the next %v, %d calls of a master to join", k, free, refused, waited, next, joined)
			if waited > 6*time.Millisecond {
				t.Errorf("k=%d: handed after %v", k, waited)
			}
			release(t, held...)
			time.Sleep(time.Second)
			w.nothingLeft()
		})
	}
}

// Callers of three processes are served in the order in which they came.
func TestAcquire_manyWait_orderOfArrivalOverAllProcesses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var ss []*Semaphore
		for range 3 {
			c := w.client()
			slow(c, 200*time.Microsecond)
			ss = append(ss, must(t, c, 2))
		}
		held := []*Permit{acquire(t, ss[0]), acquire(t, ss[1])}
		served, in := make(chan int, 100), 0
		order := []int{0, 0, 1, 2, 2, 1, 0, 2, 0, 1}
		for i, k := range order {
			got := waits(t.Context(), ss[k])
			go func() {
				p := <-got
				served <- i
				time.Sleep(time.Duration(5+i%3) * time.Millisecond)
				release(t, p)
			}()
		}
		release(t, held...)
		for i := range order {
			if in = <-served; in != i {
				t.Errorf("caller %d was served as number %d", in, i)
			}
		}
		time.Sleep(time.Second)
		w.nothingLeft()
	})
}

// While a caller waits, nobody who comes later gets a slot before it, however often it asks and whatever
// slot is released.
func TestTryAcquire_otherWaits_neverGoesPast(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ca, cb := w.client(), w.client()
		slow(cb, 300*time.Microsecond)
		a, b, barger := must(t, ca, 4), must(t, cb, 4), must(t, w.client(), 4)
		for range 5 {
			held := []*Permit{acquire(t, a), acquire(t, a), acquire(t, a), acquire(t, a)}
			got := waits(t.Context(), b)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for len(got) == 0 {
					if p, err := barger.TryAcquire(t.Context()); err == nil {
						if len(got) == 0 {
							t.Errorf("slot %d went past the waiter", p.Slot())
						}
						release(t, p)
					}
					time.Sleep(50 * time.Microsecond)
				}
			}()
			release(t, held[1])
			p := <-got
			got <- nil
			<-done
			release(t, p, held[0], held[2], held[3])
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// Slots are free, but the turn is taken: in the time between one first waiter and the next. In a process whose
// callers wait, all who come later wait behind them. Another process may take a slot.
func TestAcquire_freeSlotsBetweenTurns_queuedProcessKeepsItsOrder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.client()
		a, b := must(t, w.client(), 2), must(t, w.client(), 2)
		held := []*Permit{acquire(t, a), acquire(t, a)}
		turn, err := c.Mutex("db:turn").Lock(t.Context())
		quorumtest.NoErr(t, err)
		first := waits(t.Context(), b)
		release(t, held...)
		second := waits(t.Context(), b)
		if len(first)+len(second) > 0 {
			t.Error("a caller of the process did not wait for its turn")
		}
		release(t, acquire(t, a))
		quorumtest.NoErr(t, turn.Unlock(t.Context()))
		release(t, <-first)
		release(t, <-second)
		w.nothingLeft()
	})
}

// The process of the first waiter is killed. The next one has the turn within a moment, and permits that are released then go to it.
func TestAcquire_firstWaiterIsKilled_permitsGoOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		dead := w.client()
		a, b, c, d := must(t, w.client(), 2), must(t, dead, 2), must(t, w.client(), 2), must(t, w.client(), 2)
		held := []*Permit{acquire(t, a), acquire(t, a)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, second, third := waits(ctx, b), waits(t.Context(), c), waits(t.Context(), d)
		time.Sleep(5 * time.Second) // the turn is held, and renewed
		for _, n := range dead.Ways {
			n.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Lose: nodetest.LoseCommand} })
			n.Cut()
		}
		start := time.Now()
		release(t, held[0])
		p := <-second
		if took := time.Since(start); p == nil || took > 2*turnLook {
			t.Errorf("%v after %v", p, took)
		}
		select {
		case <-third:
			t.Error("one that came later has a permit")
		default:
		}
		release(t, p)
		release(t, <-third, held[1])
		cancel()
		<-first
	})
}

// A first waiter that lives keeps the turn, however long it waits.
func TestAcquire_firstWaiterLives_keepsTheTurn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b, c := must(t, w.client(), 1), must(t, w.client(), 1), must(t, w.client(), 1)
		held := acquire(t, a)
		first, second := waits(t.Context(), b), waits(t.Context(), c)
		turn := w.ms[0].Holder("db:turn")
		for range 50 {
			time.Sleep(turnLook)
			if now := w.ms[0].Holder("db:turn"); now != turn || now == "" {
				t.Fatalf("the turn went from %q to %q", turn, now)
			}
		}
		release(t, held)
		release(t, <-first)
		release(t, <-second)
	})
}

// The turn is renewed although the permits are not, also where the maximum TTL is shorter than the turn's TTL is else.
func TestAcquire_permitsNotRenewed_firstWaiterKeepsTheTurn(t *testing.T) {
	maxTTL := redlock.WithMaxTTL(time.Second)
	inWorld(t, func(t *testing.T, w *world) {
		opts := []redlock.LockOption{redlock.WithTTL(time.Second), redlock.WithoutRenewal()}
		a, b, c := must(t, w.client(maxTTL), 1, opts...), must(t, w.client(maxTTL), 1, opts...), must(t, w.client(maxTTL), 1, opts...)
		held := acquire(t, a)
		first, second := waits(t.Context(), b), waits(t.Context(), c)
		turn := w.ms[0].Holder("db:turn")
		for range 20 {
			time.Sleep(300 * time.Millisecond)
			quorumtest.NoErr(t, held.Extend(t.Context()))
			if now := w.ms[0].Holder("db:turn"); now != turn || now == "" {
				t.Fatalf("the turn went from %q to %q", turn, now)
			}
		}
		release(t, held)
		release(t, <-first)
		release(t, <-second)
	}, maxTTL)
}

// The host of the first waiter dies. The queue goes on when the turn's TTL is over.
func TestAcquire_firstWaiterDies_nextIsServed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		dead := w.client()
		a, b, c := must(t, w.client(), 2), must(t, dead, 2), must(t, w.client(), 2)
		held := []*Permit{acquire(t, a), acquire(t, a)}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := waits(ctx, b), waits(t.Context(), c)
		faults(dead, nodetest.Fault{Lose: nodetest.LoseCommand}, nodetest.Fault{Lose: nodetest.LoseReply})
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		release(t, held[0])
		p := <-second
		took := time.Since(start)
		t.Logf("served %v after the release", took)
		if p == nil || took > 2*turnTTL {
			t.Errorf("served after %v", took)
		}
		cancel()
		if p := <-first; p != nil {
			t.Error("the dead process has a permit")
		}
		release(t, p, held[1])
	})
}

func TestAcquire_contextEnds_nothingLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ca, cb := w.client(), w.client()
		slow(cb, time.Millisecond)
		a, b, c := must(t, ca, 3), must(t, cb, 3), must(t, w.client(), 3)
		held := []*Permit{acquire(t, a), acquire(t, a), acquire(t, a)}
		for _, wait := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 7 * time.Millisecond, 10 * time.Millisecond, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			start := time.Now()
			_, err := b.Acquire(ctx)
			cancel()
			quorumtest.Is(t, err, context.DeadlineExceeded)
			if took := time.Since(start); took > wait+10*time.Millisecond {
				t.Errorf("after %v: gave up after %v", wait, took)
			}
			if !strings.Contains(err.Error(), `semaphore "db" of 3`) {
				t.Error(err)
			}
			if n := b.queued.Load(); n != 0 {
				t.Errorf("%d are queued", n)
			}
		}
		// One that gives up while it is the first hands the turn to the next.
		ctx, cancel := context.WithCancel(t.Context())
		first, second := waits(ctx, b), waits(t.Context(), c)
		cancel()
		if p := <-first; p != nil {
			t.Error("it gave up and has a permit")
		}
		time.Sleep(50 * time.Millisecond)
		release(t, held[2])
		p := <-second
		release(t, p, held[0], held[1])
		time.Sleep(time.Second)
		w.nothingLeft()
	})
}

// A cancel and a release at the same moment: the permit is had or given back.
func TestAcquire_cancelRacesRelease_permitNotLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cb := w.client()
		slow(cb, time.Millisecond)
		a, b := must(t, w.client(), 2), must(t, cb, 2)
		for i := range 20 {
			held := []*Permit{acquire(t, a), acquire(t, a)}
			ctx, cancel := context.WithCancel(t.Context())
			got := waits(ctx, b)
			time.AfterFunc(time.Duration(i)*200*time.Microsecond, cancel)
			release(t, held[0])
			if p := <-got; p != nil {
				release(t, p)
			}
			cancel()
			time.Sleep(100 * time.Millisecond)
			p, err := a.TryAcquire(t.Context())
			quorumtest.NoErr(t, err)
			release(t, p, held[1])
		}
		time.Sleep(time.Second)
		w.nothingLeft()
	})
}

func TestPermit_lost_contextEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := must(t, w.client(), 2)
		p := acquire(t, a)
		if redlock.LeaseFrom(p.Context()).Token() != p.Token() {
			t.Error("the context has another lease")
		}
		bound, stop := p.Bind(t.Context())
		defer stop()
		w.forget(p.Name())
		<-p.Context().Done()
		<-bound.Done()
		quorumtest.Is(t, context.Cause(bound), redlock.ErrLost)
		quorumtest.Is(t, p.Err(), redlock.ErrLost)
		quorumtest.Is(t, p.Extend(t.Context()), redlock.ErrLost)
		quorumtest.Is(t, p.Release(t.Context()), redlock.ErrLost)
		err := a.Do(t.Context(), func(ctx context.Context, _ *Permit) error {
			w.forget(redlock.LeaseFrom(ctx).Name())
			<-ctx.Done()
			return nil
		})
		quorumtest.Is(t, err, redlock.ErrLost)
	})
}

func TestDo_runsUnderAPermit(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := must(t, w.client(), 1)
		failed := errors.New("failed")
		err := a.Do(t.Context(), func(ctx context.Context, _ *Permit) error {
			if redlock.LeaseFrom(ctx).Name() != "db:slot:1" {
				t.Error("no lease in the context")
			}
			if ran, err := a.TryDo(ctx, func(context.Context, *Permit) error { t.Error("it ran"); return nil }); ran || err != nil {
				t.Errorf("ran: %v, %v", ran, err)
			}
			return failed
		})
		quorumtest.Is(t, err, failed)
		ran, err := a.TryDo(t.Context(), func(context.Context, *Permit) error { return failed })
		if quorumtest.Is(t, err, failed); !ran {
			t.Error("it did not run")
		}
		func() {
			defer func() { _ = recover() }()
			_ = a.Do(t.Context(), func(context.Context, *Permit) error { panic("in fn") })
		}()
		w.nothingLeft()
	})
}

// With the context of a permit a caller gets another permit, not the same once more.
func TestAcquire_withContextOfAPermit_isAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.client()
		for _, a := range []*Semaphore{must(t, c, 3), must(t, c, 3, redlock.WithReentry())} {
			outer, err := c.Mutex("outer").Lock(t.Context())
			quorumtest.NoErr(t, err)
			one, err := a.Acquire(outer.Context())
			quorumtest.NoErr(t, err)
			two, err := a.TryAcquire(one.Context())
			quorumtest.NoErr(t, err)
			three, err := a.Acquire(two.Context())
			quorumtest.NoErr(t, err)
			if one.Slot()+two.Slot()+three.Slot() != 6 || one.Slot() == two.Slot() || one.Slot() == three.Slot() {
				t.Errorf("slots %d, %d, %d", one.Slot(), two.Slot(), three.Slot())
			}
			ctx, cancel := context.WithTimeout(three.Context(), 100*time.Millisecond)
			_, err = a.Acquire(ctx)
			cancel()
			quorumtest.Is(t, err, context.DeadlineExceeded)
			_, err = c.Mutex("outer").Lock(three.Context())
			quorumtest.Is(t, err, redlock.ErrNotReentrant)
			release(t, three, one, two)
			quorumtest.NoErr(t, outer.Unlock(t.Context()))
		}
	})
}

// Of the caller's context a permit leaves out the leases that the library put there, and no value of the program's.
func TestAcquire_leaseAsAValueOfTheProgram_staysInItsContext(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := must(t, w.client(), 2)
		one, err := a.Acquire(t.Context())
		quorumtest.NoErr(t, err)
		type own struct{}
		lease := redlock.LeaseFrom(one.Context())
		two, err := a.Acquire(context.WithValue(t.Context(), own{}, lease))
		quorumtest.NoErr(t, err)
		if got := two.Context().Value(own{}); lease == nil || got != lease {
			t.Errorf("%v, want %v", got, lease)
		}
		release(t, one, two)
	})
}

// Processes with another k: the largest counts, and no process uses more slots than its own k.
func TestNew_otherKElsewhere_largestCounts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		small, large := must(t, w.client(), 2), must(t, w.client(), 4)
		held := []*Permit{acquire(t, small), acquire(t, small), acquire(t, large), acquire(t, large)}
		for _, s := range []*Semaphore{small, large} {
			_, err := s.TryAcquire(t.Context())
			quorumtest.Is(t, err, redlock.ErrHeld)
		}
		if held[0].Slot() > 2 || held[1].Slot() > 2 || held[2].Slot() < 3 || held[3].Slot() < 3 {
			t.Errorf("%v", held)
		}
		got := waits(t.Context(), small)
		release(t, held[2], held[3])
		time.Sleep(5 * time.Second)
		if len(got) > 0 {
			t.Errorf("a process with k = 2 has slot %d", (<-got).Slot())
		}
		release(t, held[0])
		release(t, <-got, held[1])
	})
}

// A slot that the masters refuse ends the wait: a caller that waited for the others only could wait for ever.
func TestAcquire_slotRefused_saysWhich(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.client()
		a := must(t, c, 2)
		held := acquire(t, a)
		other := fmt.Sprint("db:slot:", 3-held.Slot())
		for _, m := range w.ms[:2] {
			_ = m.Do(func(db *nodetest.DB) { db.Set(other, "a string") })
		}
		_, err := a.Acquire(t.Context())
		quorumtest.Is(t, err, redlock.ErrRefused)
		if !strings.Contains(err.Error(), other) {
			t.Error(err)
		}
		release(t, held)
	})
}

// A maximum wait ends while all permits are taken, on masters that are well and 10 ms away. So says the error, also where the last round of the caller
// had no time to be answered.
func TestAcquire_maxWaitEndsInAShortRound_errHeld(t *testing.T) {
	for what, tc := range map[string]struct {
		k    int
		wait time.Duration
		at   []time.Duration // when the callers come, of one process
	}{
		"one gets the turn when its time is nearly over":    {1, time.Second, []time.Duration{0, 45 * time.Millisecond}},
		"one behind it asks for the turn, and never has it": {1, time.Second, []time.Duration{0, 45 * time.Millisecond, 48 * time.Millisecond}},
		"some slots are not heard of in time":               {5, 35 * time.Millisecond, []time.Duration{0}},
		"there is no time for the turn":                     {1, 35 * time.Millisecond, []time.Duration{0}},
		"there is no time for the slots":                    {1, 45 * time.Millisecond, []time.Duration{0}},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				holder, c := must(t, w.client(), tc.k), w.client()
				for range tc.k {
					acquire(t, holder)
				}
				slow(c, 5*time.Millisecond)
				time.Sleep(500 * time.Millisecond) // its own looks at the masters are over
				s := must(t, c, tc.k, redlock.WithMaxWait(tc.wait))
				out := make(chan error, len(tc.at))
				for _, at := range tc.at {
					time.AfterFunc(at, func() {
						start := time.Now()
						_, err := s.Acquire(t.Context())
						if took := time.Since(start); took > tc.wait+100*time.Millisecond {
							t.Errorf("it took %v", took)
						}
						out <- err
					})
				}
				for range tc.at {
					if err := <-out; !errors.Is(err, redlock.ErrHeld) {
						t.Error(err)
					}
				}
			})
		})
	}
}

// What was found before does not hide an outage, and nobody waits for longer because of it.
func TestAcquire_maxWaitInAnOutage_errUnreachable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const wait = 300 * time.Millisecond
		acquire(t, must(t, w.client(), 1))
		s := must(t, w.client(redlock.WithNodeTimeout(5*time.Second)), 1, redlock.WithMaxWait(wait))
		_, err := s.Acquire(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		for _, m := range w.ms[:2] {
			m.Pause()
		}
		out := make(chan error, 2)
		for range cap(out) { // the second comes while the first is in the queue
			go func() {
				start := time.Now()
				_, err := s.Acquire(t.Context())
				if took := time.Since(start); took > wait+10*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				out <- err
			}()
			time.Sleep(wait / 2)
		}
		for range cap(out) {
			quorumtest.Is(t, <-out, redlock.ErrUnreachable)
		}
	})
}

// Masters fall silent just before the time of the first waiter is over. It does not wait for them to confirm that the turn is given back, and that is
// given back all the same.
func TestAcquire_mastersSilentAtItsEnd_returnsInTime(t *testing.T) {
	const wait = 300 * time.Millisecond
	for what, acquires := range map[string]func(c *simtest.Client) error{
		"maximum wait": func(c *simtest.Client) error {
			_, err := must(t, c, 2, redlock.WithMaxWait(wait)).Acquire(context.Background())
			return err
		},
		"deadline": func(c *simtest.Client) error {
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			_, err := must(t, c, 2).Acquire(ctx)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				holder, c := must(t, w.client(), 2), w.client(redlock.WithNodeTimeout(time.Second))
				held := []*Permit{acquire(t, holder), acquire(t, holder)}
				time.AfterFunc(wait-10*time.Millisecond, func() {
					for _, m := range w.ms[:2] {
						m.Pause()
					}
				})
				start := time.Now()
				err := acquires(c)
				if took := time.Since(start); err == nil || took > wait+50*time.Millisecond {
					t.Errorf("%v after %v", err, took)
				}
				for _, m := range w.ms[:2] {
					m.Resume()
				}
				quorumtest.NoErr(t, c.Shutdown(t.Context()))
				release(t, held...)
				w.nothingLeft()
			})
		})
	}
}

// A maximum wait that is shorter than a trip to the masters does not make them look gone.
func TestAcquire_maxWaitBelowAnyRound_isTryAcquire(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.client()
		slow(c, 5*time.Millisecond)
		s := must(t, c, 2, redlock.WithMaxWait(500*time.Microsecond))
		held := []*Permit{acquire(t, s), acquire(t, s)}
		_, err := s.Acquire(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		release(t, held...)
	})
}

// Masters that do not answer end the wait after the patience, and nothing stays behind.
func TestAcquire_outage_unreachable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := must(t, w.client(), 2), must(t, w.client(), 2)
		held := []*Permit{acquire(t, a), acquire(t, a)}
		got := waits(t.Context(), b)
		for _, m := range w.ms[:2] {
			m.Crash()
		}
		if p := <-got; p != nil {
			t.Error("a permit of one master")
		}
		_, err := b.Acquire(t.Context())
		quorumtest.Is(t, err, redlock.ErrUnreachable)
		_, err = b.TryAcquire(t.Context())
		quorumtest.Is(t, err, redlock.ErrUnreachable)
		for _, p := range held {
			<-p.Context().Done()
			quorumtest.Is(t, p.Err(), redlock.ErrLost)
			_ = p.Release(t.Context())
		}
	})
}

func TestNew_badInput_errConfig(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.client(redlock.WithMaxTTL(redlock.DefaultMaxTTL)).Client
		for _, bad := range []struct {
			c    *redlock.Client
			name string
			k    int
			opt  redlock.LockOption
			says string
		}{
			{c, "db", 0, redlock.WithoutFairness(), "of 0 permits: want 1 to 256"},
			{c, "db", -1, redlock.WithoutFairness(), "of -1 permits: want 1 to 256"},
			{c, "db", 257, redlock.WithoutFairness(), "of 257 permits: want 1 to 256; divide"},
			{nil, "db", 3, redlock.WithoutFairness(), "nil or zero Client"},
			{new(redlock.Client), "db", 3, redlock.WithoutFairness(), "nil or zero Client"},
			{c, "", 3, redlock.WithoutFairness(), "empty semaphore name"},
			{c, "redlock:db", 3, redlock.WithoutFairness(), "library's own"},
			{c, strings.Repeat("x", 512), 3, redlock.WithoutFairness(), "want 512 or fewer"},
			{c, "db", 3, redlock.WithTTL(time.Millisecond), "TTL 1ms"},
			{c, "db", 3, nil, "a nil option"},
		} {
			s := New(bad.c, bad.name, bad.k, bad.opt)
			_, err := s.Acquire(t.Context())
			_, tried := s.TryAcquire(t.Context())
			for _, other := range []error{tried, s.Do(t.Context(), func(context.Context, *Permit) error { return nil })} {
				if !errors.Is(other, redlock.ErrConfig) || other.Error() != err.Error() {
					t.Errorf("%v, and then %v", err, other)
				}
			}
			if !errors.Is(err, redlock.ErrConfig) || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%.20q of %d: %v, want %q", bad.name, bad.k, err, bad.says)
			}
		}
		longest, err := New(c, strings.Repeat("x", 512-9), MaxPermits).TryAcquire(t.Context())
		quorumtest.NoErr(t, err)
		quorumtest.NoErr(t, longest.Release(t.Context()))
		s := New(c, "db", 3, redlock.WithMaxHold(time.Second), redlock.WithoutRenewal(), redlock.WithMinValidity(time.Second))
		if s.Name() != "db" || s.Permits() != 3 {
			t.Errorf("%q of %d", s.Name(), s.Permits())
		}
		fn := func(context.Context, *Permit) error { return nil }
		var none *Semaphore
		for _, s := range []*Semaphore{none, new(Semaphore)} {
			_, err = s.Acquire(t.Context())
			quorumtest.Is(t, err, redlock.ErrConfig)
			_, err = s.TryAcquire(t.Context())
			quorumtest.Is(t, err, redlock.ErrConfig)
			quorumtest.Is(t, s.Do(t.Context(), fn), redlock.ErrConfig)
			_, err = s.TryDo(t.Context(), fn)
			quorumtest.Is(t, err, redlock.ErrConfig)
			if s.Name() != "" || s.Permits() != 0 {
				t.Error("a zero Semaphore has a name")
			}
		}
		quorumtest.Is(t, s.Do(t.Context(), nil), redlock.ErrConfig)
		_, err = s.TryDo(t.Context(), nil)
		quorumtest.Is(t, err, redlock.ErrConfig)
		var nothing context.Context
		_, err = s.Acquire(nothing)
		quorumtest.Is(t, err, redlock.ErrConfig)
		var nobody *Permit
		for _, p := range []*Permit{nobody, new(Permit)} {
			quorumtest.Is(t, p.Release(t.Context()), redlock.ErrConfig)
			quorumtest.Is(t, p.Extend(t.Context()), redlock.ErrConfig)
			quorumtest.Is(t, p.Err(), redlock.ErrConfig)
			quorumtest.Is(t, context.Cause(p.Context()), redlock.ErrConfig)
			if p.Slot() != 0 || p.Token() != 0 || p.Name() != "" || p.Holder() != "" || !p.ValidUntil().IsZero() {
				t.Error("a zero Permit is of a slot")
			}
		}
	})
}

// A minimum hold is that of a permit. The queue has none, so that free slots are given to those who wait, and a slot that was taken
// besides another is free at once.
func TestAcquire_minimumHold_ofThePermitOnly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const k = 3
		holder := must(t, w.client(), k)
		var held []*Permit
		for range k {
			held = append(held, acquire(t, holder))
		}
		var got []chan *Permit
		for range k {
			got = append(got, waits(t.Context(), must(t, w.client(), k, redlock.WithMinHold(time.Minute))))
			time.Sleep(100 * time.Millisecond)
		}
		begun := time.Now()
		release(t, held...)
		var mine []*Permit
		for i, ch := range got {
			select {
			case p := <-ch:
				mine = append(mine, p)
			case <-time.After(5 * time.Second):
				t.Fatalf("waiter %d has no permit after %v", i, time.Since(begun))
			}
		}
		release(t, mine...)
		if p, err := holder.TryAcquire(t.Context()); err == nil {
			t.Errorf("%s is free before its minimum hold is over", p.Name())
		}
		time.Sleep(time.Minute)
		for range k {
			held = append(held, acquire(t, holder))
		}
		release(t, held[k:]...)
	})
}

// Of the slots that a call asks for at once it keeps one. The others do not stay taken.
func TestTryAcquire_minimumHoldSlotTakenInVain_isFree(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const k, taken, used = 10, 6, 3
		holder, one := must(t, w.client(), k), must(t, w.client(), k, redlock.WithMinHold(time.Hour))
		for range taken {
			acquire(t, holder)
		}
		for range used {
			p, err := one.TryAcquire(t.Context())
			quorumtest.NoErr(t, err)
			release(t, p)
		}
		for range k - taken - used {
			if _, err := holder.TryAcquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
