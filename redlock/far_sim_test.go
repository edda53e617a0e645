// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// far are masters in memory whose round trip takes a while, and that can be silent. Clients have no WithNodeTimeout.
type far struct {
	t       *testing.T
	masters []*nodetest.Master
	trip    atomic.Int64
	silent  atomic.Int64 // how many of the first masters
}

func farMasters(t *testing.T, n int, trip time.Duration, opts ...redlock.Option) *far {
	f := &far{t: t}
	for i := range n {
		f.masters = append(f.masters, nodetest.NewMaster(fmt.Sprint("m", i)))
	}
	nodes := f.nodes()
	clk := redlock.WithClock(clock.Monotonic())
	noErr(t, admin.Init(t.Context(), admin.List{Nodes: nodes, Options: append(opts, clk)}, nil, admin.NothingWasEverLocked))
	for _, n := range nodes {
		noErr(t, n.Close())
	}
	f.trip.Store(int64(trip))
	return f
}

func (f *far) nodes() (nodes []node.Node) {
	for i, m := range f.masters {
		n := m.Node(node.Config{Clock: clock.Monotonic()})
		n.SetFault(func(nodetest.Command) nodetest.Fault {
			half := time.Duration(f.trip.Load()) / 2
			fault := nodetest.Fault{Delay: half, ReplyDelay: half}
			if i < int(f.silent.Load()) {
				fault.Lose = nodetest.LoseCommand
			}
			return fault
		})
		nodes = append(nodes, n)
	}
	return nodes
}

func (f *far) open(opts ...redlock.Option) *redlock.Client {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	c, err := redlock.New(ctx, f.nodes(), append(opts, redlock.WithClock(clock.Monotonic()))...)
	noErr(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Issue 26, 5: masters are far away. Calls do not fail, and leases are held, with the defaults.
func TestSim_farMasters_defaultsSuffice(t *testing.T) {
	for _, trip := range []time.Duration{0, 70 * time.Millisecond, 120 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(trip.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := farMasters(t, 5, trip)
				var log syncBuffer
				c := f.open(redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				held := locked(t, c.Mutex("held"))
				var work sync.WaitGroup
				for w := range 8 {
					work.Go(func() {
						time.Sleep(time.Duration(w) * 13 * time.Millisecond) // ops meet pipelines that are under way
						for i := range 20 {
							lease, err := c.Mutex(fmt.Sprintf("job/%d", w)).TryLock(t.Context())
							if err != nil {
								t.Errorf("lock %d of %d: %v", i, w, err)
								return
							}
							if err := lease.Unlock(t.Context()); err != nil {
								t.Errorf("unlock %d of %d: %v", i, w, err)
							}
						}
					})
				}
				work.Wait()
				time.Sleep(time.Minute)
				noErr(t, held.Err())
				noErr(t, held.Unlock(t.Context()))
				if log.String() != "" {
					t.Errorf("the log says\n%s", log.String())
				}
			})
		})
	}
}

// The way to the masters becomes longer while a lease is held. The client learns it in time.
func TestSim_wayBecomesLonger_leaseIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := farMasters(t, 3, time.Millisecond)
		c := f.open()
		held := locked(t, c.Mutex("held"))
		f.trip.Store(int64(300 * time.Millisecond))
		time.Sleep(time.Minute)
		noErr(t, held.Err())
		noErr(t, locked(t, c.Mutex("other")).Unlock(t.Context()))
	})
}

// Masters that are silent cost callers no more than 150 ms on a fast network: not when they were silent before, and not when they
// answer late.
func TestSim_nearMasters_silentOnesCostNoMoreThanBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := farMasters(t, 3, time.Millisecond)
		c := f.open()
		m := c.Mutex("x")
		for range 5 {
			for i := range f.masters { // all hang for a moment, and their answers come late
				f.masters[i].Pause()
			}
			_, _ = m.TryLock(t.Context())
			time.Sleep(1200 * time.Millisecond)
			for i := range f.masters {
				f.masters[i].Resume()
			}
			time.Sleep(100 * time.Millisecond)
			lease, err := m.TryLock(t.Context())
			noErr(t, err)
			noErr(t, lease.Unlock(t.Context()))
			f.silent.Store(2)
			start := time.Now()
			if _, err := m.TryLock(t.Context()); err == nil {
				t.Error("locked with one of three masters")
			}
			if took := time.Since(start); took > 155*time.Millisecond {
				t.Errorf("two silent masters cost %v", took)
			}
			f.silent.Store(0)
			time.Sleep(10 * time.Second)
		}
	})
}

// Trips that no timeout within the TTL can bridge are in the log, once.
func TestSim_tripsTooLongForTheTTL_logSaysSo(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{
		"short TTL":        {redlock.WithTTL(time.Second)},
		"WithNodeTimeout":  {redlock.WithNodeTimeout(250 * time.Millisecond)},
		"nothing is wrong": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := farMasters(t, 5, 140*time.Millisecond)
				var log syncBuffer
				_ = f.open(append(opts, redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
				time.Sleep(time.Minute)
				n := strings.Count(log.String(), "round trips are too long for the node timeout")
				if want := min(len(opts), 1); n != want {
					t.Errorf("%d lines, want %d:\n%s", n, want, log.String())
				}
			})
		})
	}
}

// A maximum wait that is shorter than any round is none: the masters are asked once, for as long as a TryLock asks them.
func TestMaxWait_shorterThanARound_isTryLock(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		a.slow(10*time.Millisecond, 0, 1, 2, 3, 4)
		m := a.Mutex("x", redlock.WithMaxWait(time.Nanosecond))
		lease, err := m.Lock(t.Context())
		noErr(t, err)
		noErr(t, lease.Unlock(t.Context()))
		mustLock(t, b.Mutex("x"))
		_, err = m.Lock(t.Context())
		wantErr(t, err, redlock.ErrHeld)
	})
}

// The masters stop answering while callers with a maximum wait come and go, so that the line is never empty. What an earlier caller found does
// not hide that from later ones.
func TestMaxWait_mastersStopWhileTheLineStands_errUnreachable(t *testing.T) {
	const wait = 300 * time.Millisecond
	for _, every := range []time.Duration{250 * time.Millisecond, 10 * time.Millisecond} { // the first has time for long rounds
		simulate(t, func(t *testing.T, c *cluster) {
			a, b := c.client(), c.client()
			mustLock(t, b.Mutex("x"))
			m := a.Mutex("x", redlock.WithMaxWait(wait))
			var callers sync.WaitGroup
			call := func(want error) {
				callers.Go(func() {
					if _, err := m.Lock(t.Context()); want != nil {
						wantErr(t, err, want)
					}
				})
				time.Sleep(every)
			}
			call(redlock.ErrHeld)
			for range int(wait / every) {
				call(nil) // some stand in line while the masters stop
			}
			for _, m := range c.masters {
				m.Pause()
			}
			for range 2 * int(wait/every) {
				call(nil)
			}
			for range 3 {
				call(redlock.ErrUnreachable)
			}
			callers.Wait()
			for _, m := range c.masters {
				m.Resume()
			}
		})
	}
}

// A maximum wait that is shorter than a trip for each master is long enough to hear the masters: below two trips it is TryLock. So is a caller's own
// deadline, where nothing else is on its way.
func TestMaxWait_shorterThanATripForEachMaster_hearsTheMasters(t *testing.T) {
	const trip = 10 * time.Millisecond
	for _, wait := range []time.Duration{trip / 2, 3 * trip / 2, 2 * trip, 4 * trip} {
		t.Run(wait.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				a, b := c.client(), c.client()
				a.slow(trip, 0, 1, 2, 3, 4)
				noErr(t, mustLock(t, a.Mutex("near before")).Unlock(t.Context()))
				m := a.Mutex("x", redlock.WithMaxWait(wait))
				for range 3 {
					lease, err := m.Lock(t.Context())
					noErr(t, err)
					noErr(t, lease.Unlock(t.Context()))
				}
				tried := func(want error) {
					bounded, cancel := context.WithTimeout(t.Context(), wait)
					defer cancel()
					if wait > trip {
						lease, err := a.Mutex("x").TryLock(bounded)
						if wantErr(t, err, want); err == nil {
							noErr(t, lease.Unlock(t.Context()))
						}
					}
				}
				tried(nil)
				mustLock(t, b.Mutex("x"))
				tried(redlock.ErrHeld)
				for range 3 {
					began := time.Now()
					_, err := m.Lock(t.Context())
					wantErr(t, err, redlock.ErrHeld)
					if took := time.Since(began); took > max(wait, trip)+2*trip { // and the holder's name
						t.Errorf("it took %v", took)
					}
				}
			})
		})
	}
}

// Callers come more often than far masters, which are well, can answer. The last round of each is too short, and that is no outage.
func TestMaxWait_lineStandsAtFarMasters_errHeld(t *testing.T) {
	for _, wait := range []time.Duration{35 * time.Millisecond, 55 * time.Millisecond, 95 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				a, b := c.client(), c.client()
				mustLock(t, b.Mutex("x"))
				a.slow(10*time.Millisecond, 0, 1, 2, 3, 4)
				time.Sleep(500 * time.Millisecond) // its own looks at the masters are over
				m := a.Mutex("x", redlock.WithMaxWait(wait))
				var callers sync.WaitGroup
				for range 100 {
					callers.Go(func() {
						_, err := m.Lock(t.Context())
						wantErr(t, err, redlock.ErrHeld)
					})
					time.Sleep(10 * time.Millisecond)
				}
				callers.Wait()
			})
		})
	}
}
