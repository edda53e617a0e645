// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// waits has m wait for the lock x, and returns the lease when the channel has it: nil if Lock failed.
func (m *member) waits(ctx context.Context, opts ...redlock.LockOption) chan *redlock.Lease {
	return m.waitsFor(ctx, "x", opts...)
}

// waitsFor is waits for another lock.
func (m *member) waitsFor(ctx context.Context, lock string, opts ...redlock.LockOption) chan *redlock.Lease {
	got := make(chan *redlock.Lease, 1)
	go func() {
		lease, _ := m.Mutex(lock, opts...).Lock(ctx)
		got <- lease
	}()
	time.Sleep(100 * time.Millisecond) // it looks again after subscribing
	return got
}

// way makes each command and each message of the client take that long.
func (m *member) way(d time.Duration) {
	for _, n := range m.Ways {
		n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
			if cmd.Name == "message" {
				return nodetest.Fault{ReplyDelay: d}
			}
			return nodetest.Fault{Delay: d}
		})
	}
}

// lose drops all messages for the client from the masters, until it subscribes anew.
func (m *member) lose(masters ...int) {
	m.faultOn("message", nodetest.Fault{Lose: nodetest.LoseReply}, masters...)
}

// From the release to the next hold it is one trip: the way of the release and that of the message.
// The waiter sends nothing.
func TestSim_handOff_oneTrip(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		first := mustLock(t, a.Mutex("x"))
		got := b.waits(t.Context())
		rounds, start := b.Stats().Rounds, time.Now()
		a.way(time.Millisecond)
		b.way(time.Millisecond)
		go func() { _ = first.Unlock(context.Background()) }()
		lease := <-got
		if took := time.Since(start); lease == nil || took > 2*time.Millisecond || b.Stats().Rounds != rounds {
			t.Fatalf("%v after %v, %d rounds", lease, took, b.Stats().Rounds-rounds)
		}
		if lease.Token() <= first.Token() {
			t.Errorf("token %d after %d", lease.Token(), first.Token())
		}
		a.heal()
		b.heal()
		c.wantVotes("x", lease.Holder(), 5)
		// What was handed is short, and is extended as any lease.
		if left := time.Until(lease.ValidUntil()); left > 3*time.Second {
			t.Errorf("valid for %v", left)
		}
		time.Sleep(5 * time.Second)
		wantErr(t, lease.Err(), nil)
		if left := time.Until(lease.ValidUntil()); left < 3*time.Second {
			t.Errorf("after 5 s valid for %v", left)
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
		c.wantVotes("x", "", 5)
	})
}

// The same inside one client, whose masters are far away: the release makes votes of the waiter's places, and the waiter does not ask
// before the messages can be there. To ask would give back what it was handed.
func TestSim_handOff_farMasters_waiterSendsNothing(t *testing.T) {
	const way = 100 * time.Millisecond
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client(redlock.WithNodeTimeout(time.Second))
		var sent atomic.Int64 // when the last command was
		for _, n := range a.Ways {
			n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if cmd.Name == "message" {
					return nodetest.Fault{ReplyDelay: way}
				}
				sent.Store(time.Now().UnixNano())
				return nodetest.Fault{Delay: way, ReplyDelay: way}
			})
		}
		first := mustLock(t, a.Mutex("x"))
		got := a.waits(t.Context())
		for time.Now().UnixNano()-sent.Load() <= int64(2*way) { // a command ahead of the release would have it wait for its answer
			time.Sleep(time.Millisecond)
		}
		rounds := a.Stats().Rounds
		go func() { _ = first.Unlock(context.Background()) }()
		lease := <-got
		if lease == nil || a.Stats().Rounds != rounds {
			t.Fatalf("%v after %d rounds", lease, a.Stats().Rounds-rounds)
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// A vote that was handed lasts 3 s, whatever the TTL is. A lease with a long TTL lives on it until its first renewal, and as any
// lease from then on.
func TestSim_handOff_longTTL_isHeldAndRenewed(t *testing.T) {
	for _, ttl := range []time.Duration{140 * time.Second, 200 * time.Second, 10 * time.Minute, 365 * 24 * time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				long := []redlock.Option{redlock.WithMaxTTL(ttl), redlock.WithTTL(ttl)}
				c.init(long[0])
				a, b := c.client(long...), c.client(long...)
				first := mustLock(t, a.Mutex("x"))
				got := b.waits(t.Context())
				wantErr(t, first.Unlock(t.Context()), nil)
				lease := <-got
				wantErr(t, lease.Err(), nil)
				if left := time.Until(lease.ValidUntil()); left < 1900*time.Millisecond || left > 3*time.Second {
					t.Errorf("valid for %v at first", left)
				}
				time.Sleep(5 * time.Second)
				wantErr(t, lease.Err(), nil)
				if left := time.Until(lease.ValidUntil()); left < ttl*9/10 {
					t.Errorf("after 5 s valid for %v", left)
				}
				wantErr(t, lease.Unlock(t.Context()), nil)
				c.wantVotes("x", "", 5)
			})
		})
	}
}

// A lease that was handed lives for 3 s, and its first extend gets no answer in time. There is time for two more, whatever the TTL is.
func TestSim_handOff_twoExtendsFail_isHeld(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 30 * time.Second, 10 * time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				long := []redlock.Option{redlock.WithMaxTTL(ttl), redlock.WithTTL(ttl)}
				c.init(long[0])
				failed := make(chan error, 100)
				a := c.client(long...)
				b := c.client(append(long, redlock.WithObserver(&event.Observer{Extended: func(e event.Extend) { failed <- e.Err }}))...)
				first := mustLock(t, a.Mutex("x"))
				got := b.waits(t.Context())
				b.faultOn("extend", nodetest.Fault{ReplyDelay: 200 * time.Millisecond}, 0, 1, 2)
				wantErr(t, first.Unlock(t.Context()), nil)
				lease := <-got
				for range 2 {
					select {
					case err := <-failed:
						wantErr(t, err, redlock.ErrUnreachable)
					case <-lease.Context().Done():
						t.Fatal(lease.Err())
					}
				}
				b.heal()
				time.Sleep(5 * time.Second)
				wantErr(t, lease.Err(), nil)
				wantErr(t, lease.Unlock(t.Context()), nil)
			})
		})
	}
}

// The line is of all callers of all processes, by arrival: clients do not take turns.
func TestSim_handOff_orderOfArrivalOverAllProcesses(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		members := []*member{c.client(), c.client(), c.client()}
		first := mustLock(t, members[0].Mutex("x"))
		var want, got []int
		served := make(chan int)
		for i, k := range []int{0, 0, 0, 1, 0, 2, 1, 1, 0} {
			want = append(want, i)
			lease := members[k].waits(t.Context())
			go func() {
				l := <-lease
				time.Sleep(10 * time.Millisecond)
				wantErr(t, l.Unlock(t.Context()), nil)
				served <- i
			}()
		}
		wantErr(t, first.Unlock(t.Context()), nil)
		for range want {
			got = append(got, <-served)
		}
		if !slices.Equal(got, want) {
			t.Errorf("served in the order %v", got)
		}
	})
}

// A caller at the head or in the middle of the line of a process gives up. The order of the other callers stays the same.
func TestSim_oneOfAProcessGivesUp_othersKeepTheirOrder(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		first := mustLock(t, a.Mutex("x"))
		var cancels []context.CancelFunc
		var got []chan *redlock.Lease
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			got = append(got, b.waits(ctx)) // they line up in this order
		}
		for _, i := range []int{0, 2} {
			cancels[i]()
			if lease := <-got[i]; lease != nil {
				t.Errorf("caller %d has given up, and has the lock", i)
			}
		}
		wantErr(t, first.Unlock(t.Context()), nil)
		for _, i := range []int{1, 3, 4} {
			lease := <-got[i]
			synctest.Wait()
			for _, k := range []int{1, 3, 4} {
				if k > i && len(got[k]) > 0 {
					t.Errorf("caller %d came before its turn", k)
				}
			}
			wantErr(t, lease.Unlock(t.Context()), nil)
		}
		time.Sleep(time.Minute)
		for i, m := range c.masters {
			if left := m.Keys(); slices.ContainsFunc(left, func(k string) bool { return strings.Contains(k, "queue") || strings.Contains(k, "alive") }) {
				t.Errorf("master %d has %q", i, left)
			}
		}
	})
}

// Holds that are brief: the next caller's turn comes with the release. It comes all the same if the holder keeps the
// lock for longer, if the next caller has gone, and if the client is closed.
func TestSim_briefHolds_turnIsPassed(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, c *cluster, a *member, held *redlock.Lease, cancel func()){
		"it is held for long": func(t *testing.T, c *cluster, a *member, held *redlock.Lease, _ func()) {
			time.Sleep(5 * time.Millisecond)
			if keys := c.masters[0].Keys(); !slices.Contains(keys, "redlock:queue:{x}") {
				t.Errorf("nobody is in the queue: %q", keys)
			}
			wantErr(t, held.Unlock(t.Context()), nil)
		},
		"the next gives up": func(t *testing.T, _ *cluster, _ *member, held *redlock.Lease, cancel func()) {
			cancel()
			synctest.Wait()
			wantErr(t, held.Unlock(t.Context()), nil)
		},
		"the next gives up, and it is held for long": func(t *testing.T, _ *cluster, _ *member, held *redlock.Lease, cancel func()) {
			cancel()
			time.Sleep(5 * time.Millisecond)
			wantErr(t, held.Unlock(t.Context()), nil)
		},
		"closed": func(t *testing.T, _ *cluster, a *member, _ *redlock.Lease, _ func()) {
			wantErr(t, a.Close(), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a := c.client()
				first := mustLock(t, a.Mutex("x"))
				ctx, cancel := context.WithCancel(t.Context())
				second, third := a.waits(t.Context()), a.waits(t.Context())
				fourth, fifth := a.waits(ctx), a.waits(t.Context())
				wantErr(t, first.Unlock(t.Context()), nil)
				wantErr(t, (<-second).Unlock(t.Context()), nil) // brief
				then(t, c, a, <-third, cancel)
				for _, got := range []chan *redlock.Lease{fourth, fifth} {
					start := time.Now()
					if lease := <-got; lease != nil {
						wantErr(t, lease.Unlock(t.Context()), nil)
					} else if name != "closed" && got == fifth {
						t.Error("the last has no lease")
					}
					if took := time.Since(start); took > 10*time.Millisecond {
						t.Errorf("after %v", took)
					}
				}
				cancel()
			})
		})
	}
}

// A caller that gives up while it takes a brief hold over says what that round saw, and makes no other one. The next caller's error
// is its own.
func TestSim_cutOffWhileTakingOver_saysWhatItSaw(t *testing.T) {
	for name, bounded := range map[string]bool{"cancelled": false, "maximum wait": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.init()
				a := c.client()
				first := mustLock(t, a.Mutex("x"))
				second, third := a.waits(t.Context()), a.waits(t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				m, want := a.Mutex("x"), context.Canceled
				if bounded {
					m, want = a.Mutex("x", redlock.WithMaxWait(50*time.Millisecond)), redlock.ErrUnreachable
				}
				start, got := time.Now(), make(chan error, 1)
				go func() {
					lease, err := m.Lock(ctx)
					if lease != nil {
						t.Error("it has the lock")
					}
					got <- err
				}()
				synctest.Wait()
				wantErr(t, first.Unlock(t.Context()), nil)
				wantErr(t, (<-second).Unlock(t.Context()), nil)
				held := <-third
				var asked atomic.Int32
				for _, way := range a.Ways {
					way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
						if cmd.Name == "adopt" {
							asked.Add(1)
							return nodetest.Fault{Delay: time.Second}
						}
						return nodetest.Fault{}
					})
				}
				go func() { _ = held.Unlock(t.Context()) }()
				if !bounded {
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				err := <-got
				var round *redlock.RoundError
				if !errors.Is(err, want) || !errors.As(err, &round) || round.Unknown != 5 || asked.Load() != 5 {
					t.Errorf("%v; %d were asked", err, asked.Load())
				}
				if took := time.Since(start); took > 50*time.Millisecond+150*time.Millisecond { // a release waits for the node timeout
					t.Errorf("after %v", took)
				}
				cancel()
				a.heal()
				time.Sleep(5 * time.Second)
				c.wantVotes("x", "", 5)
			})
		})
	}
}

// H1: the vote counts from the stamp and not from the message. A message that is late for most of the
// vote's life gives a lease that ends no later than the vote.
func TestSim_handOff_lateMessages_countFromTheStamp(t *testing.T) {
	for _, late := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 4 * time.Second} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			a, b := c.client(), c.client()
			first := mustLock(t, a.Mutex("x"))
			got := b.waits(t.Context())
			b.faultOn("message", nodetest.Fault{ReplyDelay: late}, 0, 1, 2, 3, 4)
			wantErr(t, first.Unlock(t.Context()), nil)
			lease := <-got
			if lease == nil {
				t.Fatal("it failed")
			}
			votes, until := 0, time.Until(lease.ValidUntil())
			for _, m := range c.masters {
				if m.Holder("x") == lease.Holder() && m.PTTL("x") >= until {
					votes++
				}
			}
			if votes < 3 {
				t.Errorf("%v late: %d masters have the vote for as long as the lease says", late, votes)
			}
			wantErr(t, lease.Unlock(t.Context()), nil)
			time.Sleep(5 * time.Second)
			c.wantVotes("x", "", 5)
		})
	}
}

// Messages of any two masters are lost: the others are a quorum. Of three: the waiter asks 2 to 4 ms
// after the first vote, and keeps its turn. Of all: its timer asks before the votes are over.
func TestSim_handOff_messagesLost_theTurnIsKept(t *testing.T) {
	for _, tc := range []struct {
		lost []int
		most time.Duration
	}{
		{nil, 0}, {[]int{1, 3}, 0}, {[]int{0, 1, 4}, 4 * time.Millisecond}, {[]int{0, 1, 2, 3, 4}, 2100 * time.Millisecond},
	} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			a, b, d := c.client(), c.client(), c.client()
			first := mustLock(t, a.Mutex("x"))
			got := b.waits(t.Context())
			behind := d.waits(t.Context())
			b.lose(tc.lost...)
			start := time.Now()
			wantErr(t, first.Unlock(t.Context()), nil)
			lease := <-got
			if took := time.Since(start); lease == nil || took > tc.most {
				t.Errorf("without the messages of %v: %v after %v, want %v at most", tc.lost, lease, took, tc.most)
			}
			select {
			case <-behind:
				t.Error("who came later has it too")
			default:
			}
			wantErr(t, lease.Unlock(t.Context()), nil)
			if lease = <-behind; lease == nil {
				t.Fatal("the next failed")
			}
			wantErr(t, lease.Unlock(t.Context()), nil)
			c.wantVotes("x", "", 5)
		})
	}
}

// H4 and H5: a cancel meets the grant at any moment. Either Lock returns the lease, or nothing is
// left, and the next waiter has the lock soon.
func TestSim_handOff_cancelMeetsTheGrant_nothingLeft(t *testing.T) {
	needs.NoRace(t, "a large simulation: TestSim_handOff_cancelMeetsTheGrant_seldom has fewer moments")
	cancelMeetsTheGrant(t, 100*time.Microsecond)
}

func TestSim_handOff_cancelMeetsTheGrant_seldom(t *testing.T) {
	cancelMeetsTheGrant(t, 300*time.Microsecond)
}

// cancelMeetsTheGrant cancels at moments a step apart.
func cancelMeetsTheGrant(t *testing.T, step time.Duration) {
	leases, runs := 0, 0
	for at := time.Duration(0); at <= 3*time.Millisecond; at += step {
		runs++
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			a, b, d := c.client(), c.client(), c.client()
			first := mustLock(t, a.Mutex("x"))
			ctx, cancel := context.WithCancel(t.Context())
			got := b.waits(ctx)
			behind := d.waits(t.Context())
			for i := range 5 {
				a.faultOn("release", nodetest.Fault{Delay: time.Duration(i) * 300 * time.Microsecond}, i)
				b.faultOn("message", nodetest.Fault{ReplyDelay: time.Duration(5-i) * 300 * time.Microsecond}, i)
			}
			go func() { _ = first.Unlock(context.Background()) }()
			time.Sleep(at)
			cancel()
			if lease := <-got; lease != nil {
				leases++
				wantErr(t, lease.Unlock(t.Context()), nil)
			}
			start := time.Now()
			lease := <-behind
			if took := time.Since(start); lease == nil || took > 20*time.Millisecond {
				t.Fatalf("cancelled after %v: the next has %v after %v", at, lease, took)
			}
			wantErr(t, lease.Unlock(t.Context()), nil)
			time.Sleep(5 * time.Millisecond) // for the slow masters
			c.wantVotes("x", "", 5)
		})
	}
	if leases == 0 || leases == runs {
		t.Errorf("%d of %d cancels were too late: the runs prove nothing", leases, runs)
	}
}

// A lease that is not renewed has its whole TTL, though its caller waited.
func TestSim_handOff_fixedLease_hasItsTTL(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Second, 3 * time.Second} { // the second is that of a handed vote
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			a, b := c.client(), c.client()
			first := mustLock(t, a.Mutex("x"))
			got := b.waits(t.Context(), redlock.WithTTL(ttl), redlock.WithoutRenewal())
			time.Sleep(490 * time.Millisecond) // its sign of life is as old: the next one is not due
			wantErr(t, first.Unlock(t.Context()), nil)
			lease := <-got
			if lease == nil {
				t.Fatal("it failed")
			}
			if left := time.Until(lease.ValidUntil()); left < ttl*9/10 {
				t.Errorf("%v: valid for %v", ttl, left)
			}
			wantErr(t, lease.Unlock(t.Context()), nil)
			c.wantVotes("x", "", 5)
		})
	}
}

// A waiter that dies with the lock in its queue's place costs the next the life of a handed vote.
func TestSim_handOff_headDies_nextIsServed(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b, d := c.client(), c.client(), c.client()
		first := mustLock(t, a.Mutex("x"))
		b.waits(t.Context())
		behind := d.waits(t.Context())
		for _, n := range b.Ways { // nothing leaves or reaches it
			n.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Lose: nodetest.LoseCommand} })
		}
		start := time.Now()
		wantErr(t, first.Unlock(t.Context()), nil)
		lease := <-behind
		if took := time.Since(start); lease == nil || took > 4500*time.Millisecond {
			t.Errorf("%v after %v", lease, took)
		}
		synctest.Wait()
		b.heal()
		if lease != nil {
			wantErr(t, lease.Unlock(t.Context()), nil)
		}
	})
}

// A round ends at the refusals of a quorum. The masters that have not answered by then may have less time left than those that
// refused, so the waiter does not sleep until the last of the refusals is over.
func TestSim_lateRepliesEndSooner_waiterIsThere(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		const short = 3 * time.Second
		lost := nodetest.Fault{Lose: nodetest.LoseCommand}
		dead, late, waiter := c.client(), c.client(), c.client()
		for i := range 2 {
			dead.Ways[i].SetFault(func(nodetest.Command) nodetest.Fault { return lost })
		}
		mustLock(t, dead.Mutex("x", redlock.WithTTL(short), redlock.WithoutRenewal())) // of masters 2, 3 and 4
		late.faultOn("release", lost, 0, 1)
		_, err := late.Mutex("x").TryLock(t.Context()) // leaves votes on masters 0 and 1, for longer
		wantErr(t, err, redlock.ErrHeld)
		c.wantVotes("x", "", 0)
		for i := range 2 {
			waiter.away(3+i, 3*time.Millisecond)
		}
		start := time.Now()
		lease, err := waiter.Mutex("x").Lock(t.Context())
		wantErr(t, err, nil)
		if took := time.Since(start); took > short+20*time.Millisecond {
			t.Errorf("it had the lock after %v, and three of five masters were free after %v", took, short)
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
		late.heal()
		dead.heal()
	})
}
