// SPDX-License-Identifier: Apache-2.0

package redissontest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
)

// two starts n masters and two Java processes on them.
func two(t *testing.T, n int) (addrs []string, a, b *Peer) {
	t.Helper()
	addrs = masters(t, n)
	return addrs, Need(t, Config{Masters: addrs}), Need(t, Config{Masters: addrs})
}

// overlaps counts the pairs of a span of a and one of b that were held at the same time.
func overlaps(a, b []Interval) int {
	n := 0
	for _, x := range a {
		for _, y := range b {
			if x.From.Before(y.To) && y.From.Before(x.To) {
				n++
			}
		}
	}
	return n
}

func TestOverlaps_knownSpans(t *testing.T) {
	base := time.Now()
	span := func(from, to int) []Interval {
		return []Interval{{base.Add(time.Duration(from)), base.Add(time.Duration(to))}}
	}
	for _, c := range []struct {
		a, b []Interval
		want int
	}{
		{span(0, 10), span(10, 20), 0}, {span(0, 10), span(20, 30), 0}, {span(20, 30), span(0, 10), 0},
		{span(0, 10), span(9, 20), 1}, {span(9, 20), span(0, 10), 1}, {span(0, 10), span(2, 3), 1},
	} {
		if got := overlaps(c.a, c.b); got != c.want {
			t.Errorf("%v, %v: %d", c.a, c.b, got)
		}
	}
}

// contend runs a loop for each handle at once and returns what each held.
func contend(t *testing.T, l Loop, handles ...Handle) [][]Interval {
	t.Helper()
	held := make([][]Interval, len(handles))
	var wg sync.WaitGroup
	for i, h := range handles {
		wg.Go(func() {
			var err error
			if held[i], err = h.Loop(t.Context(), l); err != nil {
				t.Errorf("%s: %v", h.session, err)
			}
			if len(held[i]) != l.Times {
				t.Errorf("%s held it %d times of %d", h.session, len(held[i]), l.Times)
			}
		})
	}
	wg.Wait()
	return held
}

// Two processes with two threads each, on every kind of exclusive lock.
func TestLoop_exclusiveKinds_neverTwoHolders(t *testing.T) {
	needs.Java(t)
	_, a, b := two(t, 3)
	for _, kind := range []Kind{Plain, Fair, Write, Multi, Red, RedWrite} {
		t.Run(string(kind), func(t *testing.T) {
			names := []string{t.Name()}
			if kind == Multi {
				names = append(names, t.Name()+" too")
			}
			lock := Lock{Kind: kind, Names: names, Master: 1}
			began := time.Now()
			held := contend(t, Loop{Times: 15, Hold: 2 * time.Millisecond, Lease: 10 * time.Second},
				a.Handle("1", lock), a.Handle("2", lock), b.Handle("1", lock), b.Handle("2", lock))
			for i := range held {
				for j := range i {
					if n := overlaps(held[i], held[j]); n > 0 {
						t.Errorf("threads %d and %d held it together %d times", i, j, n)
					}
				}
			}
			t.Logf("%d holds in %v", 4*15, time.Since(began))
		})
	}
	// The same without a common lock must show what the test above looks for.
	t.Run("control", func(t *testing.T) {
		held := contend(t, Loop{Times: 15, Hold: 2 * time.Millisecond, Lease: 10 * time.Second},
			a.Handle("1", plain("one")), b.Handle("1", plain("another")))
		if overlaps(held[0], held[1]) == 0 {
			t.Error("two locks of different names were never held at the same time")
		}
	})
}

// Readers share, a writer is alone, on one master and over three.
func TestLock_readersAndWriters_readersShareWriterAlone(t *testing.T) {
	needs.Java(t)
	_, a, b := two(t, 3)
	for _, kinds := range [][2]Kind{{Read, Write}, {RedRead, RedWrite}} {
		read := Lock{Kind: kinds[0], Names: []string{t.Name()}}
		write := Lock{Kind: kinds[1], Names: []string{t.Name()}}
		t.Run(string(kinds[0])+" held", func(t *testing.T) {
			for _, c := range []struct {
				h    Handle
				want bool
			}{{a.Handle("r", read), true}, {b.Handle("r", read), true}, {b.Handle("w", write), false}} {
				if held, _, err := c.h.TryLock(t.Context(), 0, 10*time.Second); held != c.want || err != nil {
					t.Errorf("%s: held %v, %v", c.h.lock.Kind, held, err)
				}
			}
			a.Handle("r", read).Unlock(t.Context())
			b.Handle("r", read).Unlock(t.Context())
		})
		t.Run(string(kinds[1])+" contended", func(t *testing.T) {
			held := contend(t, Loop{Times: 10, Hold: 5 * time.Millisecond, Lease: 10 * time.Second},
				a.Handle("r", read), b.Handle("r", read), a.Handle("w", write), b.Handle("w", write))
			for w := 2; w < 4; w++ {
				for other := range w {
					if n := overlaps(held[w], held[other]); n > 0 {
						t.Errorf("thread %d held it with writer %d, %d times", other, w, n)
					}
				}
			}
		})
	}
}

func TestLoop_unlockFails_spanBeforeItReported(t *testing.T) {
	needs.Java(t)
	p := Need(t, Config{Masters: masters(t, 1)})
	held, err := p.Handle("s", plain("L")).Loop(t.Context(), Loop{Times: 3, Hold: 60 * time.Millisecond, Lease: 20 * time.Millisecond})
	if _, ok := err.(*JavaError); !ok || len(held) != 1 {
		t.Errorf("%d spans, error %v", len(held), err)
	}
}

func TestLoop_waitTooShort_fewerSpansNoError(t *testing.T) {
	needs.Java(t)
	p := Need(t, Config{Masters: masters(t, 1)})
	if _, err := p.Handle("holder", plain("L")).Lock(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	held, err := p.Handle("s", plain("L")).Loop(t.Context(), Loop{Times: 3, Wait: 10 * time.Millisecond})
	if len(held) != 0 || err != nil {
		t.Errorf("%d spans, error %v", len(held), err)
	}
}

// lockLater asks for a lock and returns once the masters show that the asker waits.
func lockLater(t *testing.T, h Handle, waits func() bool) <-chan Reply {
	t.Helper()
	got := make(chan Reply, 1)
	go func() {
		reply, err := h.Lock(t.Context(), 30*time.Second)
		if err == nil {
			got <- reply
		}
	}()
	eventually(t, h.session+" waits", waits)
	return got
}

func receive(t *testing.T, got <-chan Reply) Reply {
	t.Helper()
	select {
	case reply := <-got:
		return reply
	case <-time.After(10 * time.Second):
		t.Fatal("not taken within 10 s")
		return Reply{}
	}
}

func TestFair_threeWaiters_servedInOrder(t *testing.T) {
	needs.Java(t)
	addrs, a, b := two(t, 1)
	lock := Lock{Kind: Fair, Names: []string{"F"}}
	master := client(t, addrs[0])
	holder := a.Handle("first", lock)
	if _, err := holder.Lock(t.Context(), 30*time.Second); err != nil {
		t.Fatal(err)
	}
	var handles []Handle
	var waiting []<-chan Reply
	for i, p := range []*Peer{b, a, b} {
		h := p.Handle(fmt.Sprint("waiter ", i), lock)
		handles = append(handles, h)
		waiting = append(waiting, lockLater(t, h, func() bool {
			return master.LLen(t.Context(), "redisson_lock_queue:{F}").Val() == int64(i+1)
		}))
	}
	for i, next := range handles {
		if _, err := holder.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		receive(t, waiting[i]) // in vain if another is served first
		holder = next
	}
}

// The TTL is half a minute: who has the lock soon after the release was told, and did not find out.
func TestLock_released_waiterWokenByPush(t *testing.T) {
	needs.Java(t)
	addrs, a, b := two(t, 3)
	for _, lock := range []Lock{
		{Kind: Plain, Names: []string{"plain"}},
		{Kind: Fair, Names: []string{"fair"}},
		{Kind: Write, Names: []string{"rw"}},
		{Kind: Red, Names: []string{"red"}},
	} {
		t.Run(string(lock.Kind), func(t *testing.T) {
			holder, waiter := a.Handle("h", lock), b.Handle("w", lock)
			if _, err := holder.Lock(t.Context(), 30*time.Second); err != nil {
				t.Fatal(err)
			}
			got := lockLater(t, waiter, refusedTwice(t, addrs[0]))
			freed, err := holder.Unlock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			reply := receive(t, got)
			late := reply.Ended.Sub(freed.Began)
			if late < 0 || late > 5*time.Second {
				t.Errorf("taken %v after the release", late)
			}
			t.Logf("taken %v after the release", late)
			waiter.Unlock(t.Context())
		})
	}
}

// refusedTwice says whether the master has refused a lock two more times: a waiter asks before it subscribes and once
// more before it sleeps, so from then on only a message or the TTL can wake it. A refusal is seen by the PTTL that the
// script makes for its answer.
func refusedTwice(t *testing.T, addr string) func() bool {
	master := client(t, addr)
	refusals := func() (n int) {
		_, stat, _ := strings.Cut(master.Info(t.Context(), "commandstats").Val(), "cmdstat_pttl:calls=")
		fmt.Sscan(strings.Split(stat, ",")[0], &n)
		return n
	}
	before := refusals()
	return func() bool { return refusals() >= before+2 }
}

// What a Go lock has to do: a foreign holder with our own words on the master keeps Java out, and its release wakes
// Java. Without the message Java sleeps until the TTL it was told is over, so it is the message that woke it.
func TestLock_heldByForeignClient_javaWaitsForMessageOrTTL(t *testing.T) {
	needs.Java(t)
	addrs := masters(t, 1)
	p, master := Need(t, Config{Masters: addrs}), client(t, addrs[0])
	const ttl = 2 * time.Second
	for _, c := range []struct {
		name    string
		message bool
	}{{"told", true}, {"not told", false}} {
		t.Run(c.name, func(t *testing.T) {
			h := p.Handle(c.name, plain(c.name))
			master.HSet(t.Context(), c.name, "0d1cb6c4-0000-4000-8000-000000000000:1", 1)
			master.PExpire(t.Context(), c.name, ttl)
			taken := time.Now()
			got := lockLater(t, h, refusedTwice(t, addrs[0]))
			master.Del(t.Context(), c.name)
			if c.message {
				master.Publish(t.Context(), "redisson_lock__channel:{"+c.name+"}", "0")
			}
			after := receive(t, got).Ended.Sub(taken)
			if told := after < ttl-200*time.Millisecond; told != c.message {
				t.Errorf("taken after %v of a TTL of %v", after, ttl)
			}
			t.Logf("taken %v after the foreign holder", after)
			h.Unlock(t.Context())
		})
	}
}

func TestLock_noLease_renewedByTheWatchdog(t *testing.T) {
	needs.Java(t)
	addrs := masters(t, 3)
	h := Need(t, Config{Masters: addrs, Watchdog: 900 * time.Millisecond}).Handle("s", Lock{Kind: Red, Names: []string{"L"}})
	if _, err := h.Lock(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		master := client(t, addr)
		last := master.PTTL(t.Context(), "L").Val()
		if last <= 0 || last > 900*time.Millisecond {
			t.Fatalf("TTL %v on %s", last, addr)
		}
		eventually(t, "the TTL grows on "+addr, func() bool {
			before := last
			last = master.PTTL(t.Context(), "L").Val()
			return last > before
		})
	}
	if _, err := h.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
