// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// worker is a node whose master executes one extend at a time, and is at work on each vote for so long. It has every vote.
type worker struct {
	protocol.Node
	clock clock.Clock
	each  time.Duration
	way   time.Duration // of a request and its answer

	sent atomic.Uint64 // votes

	mu      sync.Mutex
	free    time.Duration // when it has done what it was sent
	running int           // extends that were sent and are not answered
	most    int           // of them at one time
}

func (w *worker) Submit(op *protocol.Op) bool {
	if op.Kind == protocol.Acquire {
		op.Reply = grantedVote
		op.To.Receive(op)
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent.Add(uint64(len(op.Items)))
	now := w.clock.Elapsed()
	w.free = max(w.free, now) + time.Duration(len(op.Items))*w.each
	w.running++
	w.most = max(w.most, w.running)
	time.AfterFunc(w.free-now+w.way, func() {
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
		if w.clock.Elapsed() <= op.Deadline {
			op.Reply = protocol.Reply{Outcome: protocol.Granted, Intact: make([]bool, len(op.Items))}
			for i := range op.Reply.Intact {
				op.Reply.Intact[i] = true
			}
		} else {
			op.Reply = protocol.Reply{Outcome: protocol.Unknown}
		}
		op.To.Receive(op)
	})
	return true
}

// crowd is many holds of one client on three such masters.
type crowd struct {
	workers [3]*worker
	r       *Renewer
	m       *quorum.Masters

	mu   sync.Mutex
	fail []error // of extends, and of holds that ended
}

func newCrowd(each time.Duration) *crowd {
	c := &crowd{m: threeMasters(150 * time.Millisecond)}
	for i := range c.workers {
		c.workers[i] = &worker{clock: c.m.Clock, each: each}
		c.m.Nodes = append(c.m.Nodes, c.workers[i])
	}
	note := func(err error) {
		if errors.Is(err, errs.ErrUnreachable) || errors.Is(err, errs.ErrLost) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.fail = append(c.fail, err)
		}
	}
	c.r = &Renewer{Masters: c.m, Propose: func() int64 { return 9 }, Events: Events{
		Why:      func() string { return "" },
		Extended: func(e event.Extend) { note(e.Err) },
		Ended:    func(e event.End) { note(e.Err) },
	}}
	c.r.Start()
	return c
}

// add adds a hold that begins now.
func (c *crowd) add(ttl time.Duration) {
	keep(c.r, new(Hold), acquire(c.m), Terms{TTL: ttl, Every: ttl / 3}, new(Share))
}

// close closes the renewer, and says what failed before.
func (c *crowd) close(t *testing.T) {
	c.mu.Lock()
	fail := c.fail
	c.mu.Unlock()
	if len(fail) > 0 {
		t.Errorf("%d of %d extends failed or leases ended, the first: %v", len(fail), c.r.Extends.Load(), fail[0])
	}
	c.r.Close()
	time.Sleep(time.Minute) // the timers of batches
}

// A master needs a fifth of a second for all holds, and no answer may take longer than 150 ms. They are due at one moment.
func TestRenewer_manyHolds_allAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(8 * time.Microsecond)
		for range 25_000 {
			c.add(60 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		if got := c.r.Extends.Load(); got < 5*25_000 {
			t.Errorf("%d extends in 2 minutes", got)
		}
		for i, w := range c.workers {
			w.mu.Lock()
			if w.most > maxSent/MaxBatch+1 { // two masters decide a batch, and the third has not answered it
				t.Errorf("master %d had %d extends before it at one time", i, w.most)
			}
			w.mu.Unlock()
		}
		c.close(t)
	})
}

// Each lease has a TTL of its own, as a deadline is, and the masters are far away: a batch has one lease, and the eight that a few big batches are
// would renew a hundred of them a second.
func TestRenewer_manyTTLs_allAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(20 * time.Microsecond)
		for _, w := range c.workers {
			w.way = 100 * time.Millisecond
		}
		for i := range 2000 {
			c.add(10*time.Second + time.Duration(i)*time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		c.close(t)
	})
}

// The masters need a second for the holds that are due at one moment. A short lease that is due meanwhile does not wait for them.
func TestRenewer_manyHolds_shortLeaseFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(40 * time.Microsecond)
		for range 25_000 {
			c.add(60 * time.Second)
		}
		c.add(600 * time.Millisecond)
		time.Sleep(2 * time.Minute)
		c.close(t)
	})
}

// The masters need three seconds for the holds that are due at one moment. A lease of the same TTL that was handed meanwhile lasts for
// less than that, and does not wait for them.
func TestRenewer_manyHolds_handedLeaseFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(120 * time.Microsecond)
		terms := Terms{TTL: 60 * time.Second, Every: 20 * time.Second}
		for range 25_000 {
			c.add(terms.TTL)
		}
		time.Sleep(terms.Every - 500*time.Millisecond)
		now, handed := c.m.Clock.Elapsed(), new(Hold)
		handed.Init(c.r, &attempt.Won{Lock: protocol.NewLock("y", protocol.Plain), Holder: "handed", Token: 6, Start: now, From: now,
			Until: now + c.m.Drift.Validity(protocol.Liveness, 0), Granted: now, Call: acquire(c.m)}, terms, new(Share))
		if !c.r.Add(handed, now+protocol.Liveness/3) {
			t.Fatal("not added")
		}
		time.Sleep(2 * time.Minute)
		c.close(t)
	})
}

// What waits to be sent is not sent if it was released meanwhile, or extended by its caller, or if the client was closed.
func TestRenewer_waitingToBeSent_onlyWhatIsStillDue(t *testing.T) {
	const n = 10_000
	for _, tc := range []struct {
		name string
		do   func(*crowd, *Hold)
	}{
		{"released", func(c *crowd, h *Hold) {
			h.end(event.EndReleased, errs.ErrReleased)
			c.r.remove(h)
		}},
		{"ended", func(_ *crowd, h *Hold) { h.end(event.EndReleased, errs.ErrReleased) }},
		{"extended", func(c *crowd, h *Hold) { c.r.reschedule(h, c.m.Clock.Elapsed()+20*time.Second) }},
		{"closed", func(c *crowd, _ *Hold) {
			var first sync.Once // hold that ended: while its observer is told, batches are decided
			c.r.Events.Ended = func(event.End) { first.Do(func() { time.Sleep(time.Second) }) }
			c.r.Close()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(40 * time.Microsecond)
				for range n {
					c.add(60 * time.Second)
				}
				holds := c.r.All()
				for c.r.Extends.Load() < n/2 {
					time.Sleep(time.Millisecond)
				}
				sent := c.workers[0].sent.Load()
				for _, h := range holds {
					tc.do(c, h)
				}
				time.Sleep(10 * time.Second)
				if got := c.workers[0].sent.Load() - sent; got != 0 {
					t.Errorf("%d votes were renewed after that", got)
				}
				c.close(t)
			})
		})
	}
}

// A round may be won so late that its holder would be told of the end at once. That is no grant.
func TestAdd_wonInItsLastMoment_isNotTaken(t *testing.T) {
	for _, tc := range []struct {
		left time.Duration
		ok   bool
	}{{Margin(stageTTL), false}, {Margin(stageTTL) + 1, true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, true)
			var share Share
			now := s.r.Masters.Clock.Elapsed()
			until := now + tc.left
			late := new(Hold)
			late.Init(s.r, &attempt.Won{Lock: protocol.NewLock("y", protocol.Plain), Holder: "late", Token: 6, Until: until,
				From: until - s.r.Masters.Drift.Validity(stageTTL, 0), Granted: now, Call: acquire(s.r.Masters)}, Terms{TTL: stageTTL, Fixed: true}, &share)
			if ok := s.r.Add(late, never); ok != tc.ok || ok != (share.Err() == nil) {
				t.Errorf("%v left: taken %v, and %v", tc.left, ok, share.Err())
			}
			s.r.Close()
		})
	}
}

// An extend is won in the last moment: the timer finds the hold when its old time is over, and before the extend has said when to look
// again. The hold goes on, and belongs to the client.
func TestRenewer_extendedInTheLastMoment_isStillThere(t *testing.T) {
	for name, then := range map[string]func(s *stage, extended time.Duration){
		"renewed": func(s *stage, extended time.Duration) {
			s.r.reschedule(s.h, extended+stageTTL/3)
			time.Sleep(stageTTL / 3)
			synctest.Wait()
			s.want(protocol.Extend, 3)
			s.answer(protocol.Extend, intact, 0, 1)
			s.wantEnded(nil)
			s.r.Close()
		},
		"closed": func(s *stage, extended time.Duration) {
			s.r.Close()
			s.r.reschedule(s.h, extended+stageTTL/3)
			s.wantEnded(errs.ErrClosed)
		},
		"drained": func(s *stage, extended time.Duration) {
			select {
			case <-s.r.Drain():
				s.t.Error("nothing is left, and a hold goes on")
			default:
			}
			s.r.reschedule(s.h, extended+stageTTL/3)
			s.r.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, false)
				over := s.h.lastCall()
				s.r.take(s.h.slot.renewAt)
				time.Sleep(stageTTL / 4)
				now := s.r.Masters.Clock.Elapsed()
				s.h.extends.begun++
				if _, err := s.h.extended(now, 0b111, ""); err != nil {
					t.Fatal(err)
				}
				ended, _ := s.r.take(over)
				s.r.endExpired(ended)
				s.r.ticks.Add(-2) // as tick does after each of the two
				then(s, now)
				time.Sleep(2 * time.Minute) // the timers of batches
			})
		})
	}
}
