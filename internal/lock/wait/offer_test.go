// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// giveBack gives the caller's lock back as package hold does. It says whether another caller is to take it over. claimed says that whoever gives
// it back waits for that no longer.
func (c *caller) giveBack(claimed bool) bool {
	m := c.w.lines.Masters
	req := protocol.Request{Kind: protocol.Release, Lock: lockX, Holder: c.won.Holder}
	c.won.Call.Done()
	o := attempt.Offer{Lock: lockX, Holder: c.won.Holder, Token: c.won.Token, Set: m.All, Release: m.Call(m.Need, &req), Holding: c}
	if claimed {
		o.Claim()
	}
	offered := c.w.lines.Offer(o)
	switch {
	case offered == nil:
		m.Poll(m.All, m.Need, &req).Done()
		c.w.lines.Released(lockX)
	case claimed:
		synctest.Wait()
		offered.Decline(m.All)
	}
	synctest.Wait()
	return offered != nil
}

// Released implements the interface of an offer's holding.
func (c *caller) Released() {
	c.w.unlocked()
	c.released++
}

// briefly returns n callers of which the first has the lock, in a line whose last hold was brief. The masters were sent nothing yet.
func briefly(t *testing.T, n int) (*world, []*caller) {
	w := newWorld(t)
	first := w.lock(t.Context())
	var callers []*caller
	for range n {
		callers = append(callers, w.lock(t.Context()))
	}
	w.free()
	if !first.ended() || first.giveBack(false) { // that its hold is brief is seen when it ends: the next has its place by then
		t.Fatal("the first hold is offered")
	}
	w.free()
	w.has(t, callers[0])
	for _, m := range w.masters {
		clear(m.kinds)
	}
	return w, callers
}

// has waits until the caller has the lock, which it may expect by messages for a moment. It waits no longer, because time makes a hold long.
func (w *world) has(t *testing.T, c *caller) {
	t.Helper()
	for range waiting.PauseMax / time.Millisecond {
		if c.ended() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !c.ended() || c.err != nil {
		t.Fatalf("a caller does not have the lock: %v", c.err)
	}
}

// sent is how many ops of the kind all masters were sent.
func (w *world) sent(kind protocol.Kind) (n int) {
	for _, m := range w.masters {
		m.mu.Lock()
		n += m.kinds[kind]
		m.mu.Unlock()
	}
	return n
}

// rest has each of these callers take the lock and give it back, in their order, and then nothing is left.
func (w *world) rest(t *testing.T, callers ...*caller) {
	t.Helper()
	for _, c := range callers {
		w.has(t, c)
		c.giveBack(false)
	}
	w.nothingLeft()
}

// Callers of one process that hold the lock briefly take it over from one another, in their order: no master is asked for a place, and none is
// sent a release. Those do who are in the line, and passesMax at most: then other processes have theirs.
func TestOffer_briefHolds_goFromCallerToCaller(t *testing.T) {
	for _, waited := range []int{1, 3, passesMax, passesMax + 2} {
		synctest.Test(t, func(t *testing.T) {
			w, callers := briefly(t, 1+waited)
			passes := passesMax
			for i := range passes {
				c := callers[i]
				callers = append(callers, w.lock(t.Context())) // who comes later takes over too
				next := callers[i+1]
				if !c.giveBack(false) || !next.ended() || next.err != nil || next.won.Token <= c.won.Token || c.released != 1 {
					t.Fatalf("caller %d of %d passes the lock on: %v", i, waited, next.err)
				}
				if callers[i+2].ended() {
					t.Fatalf("caller %d has the lock beside the one before it", i+2)
				}
			}
			// A master that has not answered when the lock has been taken over is sent the release behind that.
			if a, r, o := w.sent(protocol.Acquire), w.sent(protocol.Release), w.sent(protocol.Adopt); a != 0 || r > passes || o != 3*passes {
				t.Errorf("of %d that waited: %d acquires, %d releases, %d that take over", waited, a, r, o)
			}
			if callers[passes].giveBack(false) {
				t.Errorf("of %d that waited, one more takes over", waited)
			}
			if n := w.sent(protocol.Adopt); n != 3*passes {
				t.Errorf("of %d that waited, one more asks to take over", waited)
			}
			w.rest(t, callers[passes+1:]...)
		})
	}
}

// What is offered is a brief hold, on masters that are near. On others a hold that was shorter than a trip has the turn passed with the next
// release, so that this need not wait in the lanes until an acquire is answered.
func TestOffer_longHoldsAndFarMasters_notOffered(t *testing.T) {
	for name, test := range map[string]struct {
		trip, hold time.Duration
		offered    bool
	}{
		"brief": {2 * time.Millisecond, 499 * time.Microsecond, true},
		"long":  {2 * time.Millisecond, 500 * time.Microsecond, false},
		"far":   {2*time.Millisecond + 1, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, callers := briefly(t, 2)
			w.masters[2].trip = test.trip // one is enough
			time.Sleep(test.hold)
			if callers[0].giveBack(false) != test.offered {
				t.Errorf("%s: offered %v", name, !test.offered)
			}
			w.free()
			w.rest(t, callers[1])
		})
	}
}

// A caller that gives up while it takes the lock over says what that round saw.
func TestOffer_cutOff_saysWhatItSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, callers := briefly(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		next := w.lock(ctx)
		if !callers[0].giveBack(false) {
			t.Fatal("not offered")
		}
		for _, m := range w.masters {
			m.way = time.Second
		}
		if !callers[1].giveBack(false) {
			t.Fatal("not offered again")
		}
		cancel()
		time.Sleep(100 * time.Millisecond) // less than an answer takes
		if !next.ended() || !errors.Is(next.err, errFailed) || !errors.Is(next.err, context.Canceled) {
			t.Errorf("it gave up with %v", next.err)
		}
		time.Sleep(2 * time.Second)
		w.nothingLeft()
	})
}

// What the next caller does not take over is released, once, and by whom it was offered to or by whom it was offered.
func TestOffer_notTaken_isReleased(t *testing.T) {
	for name, test := range map[string]struct {
		before  func(w *world)
		claimed bool
		asked   int // masters, to let it take over
		err     error
	}{
		"too few masters let it": {
			before: func(w *world) { w.masters[0].keeps, w.masters[1].keeps = true, true },
			asked:  3,
		},
		"who offers it waits no longer": {claimed: true},
		"the client is over": {
			before: func(w *world) { w.mu.Lock(); w.over = errOver; w.mu.Unlock() },
			err:    errOver,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, callers := briefly(t, 2)
				if test.before != nil {
					test.before(w)
				}
				if !callers[0].giveBack(test.claimed) {
					t.Fatal("not offered")
				}
				for i, m := range w.masters {
					if m.holder == callers[0].won.Holder {
						t.Errorf("master %d still has the vote", i)
					}
				}
				if n := w.sent(protocol.Adopt); n != test.asked || callers[0].released != 1 {
					t.Errorf("%d masters were asked, want %d; released %d times", n, test.asked, callers[0].released)
				}
				if test.err == nil {
					w.free()
					w.rest(t, callers[1])
				} else if !callers[1].ended() || !errors.Is(callers[1].err, test.err) {
					t.Errorf("the next: %v", callers[1].err)
				}
			})
		})
	}
}
