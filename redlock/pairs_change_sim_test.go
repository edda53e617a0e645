// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
	"github.com/redlock-go/redlock/semaphore"
)

// The masters before a change, those after it, and moments of the change. Masters that are new wait for half a minute before they vote.
var (
	formerly, thereafter = []int{0, 1, 2}, []int{2, 3, 4}

	moments = []time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, 9 * time.Second, 25 * time.Second, 29 * time.Second, 32 * time.Second}
)

// simulateChange runs test at each moment of a change of masters, in a world of its own.
func simulateChange(t *testing.T, test func(t *testing.T, c *cluster, at time.Duration)) {
	for _, at := range moments {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.recovery = true
				list, done := c.list(formerly...)
				noErr(t, admin.Init(t.Context(), list, nil, admin.NothingWasEverLocked))
				done()
				test(t, c, at)
			})
		})
	}
}

// A client that holds a lock, and one for which another waits, leaves in the middle of a change of masters. Close gives nothing back and
// Shutdown does; nobody of the new list has a lock while the leases last, and nothing is left.
func TestTogether_clientLeavesDuringAChangeOfMasters(t *testing.T) {
	needs.NoRace(t, "a large simulation: others of TestTogether run with it")
	needs.Test(t)
	for name, leave := range map[string]func(t *testing.T, c *redlock.Client){
		"close":    func(t *testing.T, c *redlock.Client) { noErr(t, c.Close()) },
		"shutdown": func(t *testing.T, c *redlock.Client) { _ = c.Shutdown(ended(t)) }, // nil where no lease is left
	} {
		t.Run(name, func(t *testing.T) {
			simulateChange(t, func(t *testing.T, c *cluster, at time.Duration) {
				leaver, waiter := c.on(formerly...), c.on(formerly...)
				var l ledger
				lease := mustLock(t, leaver.Mutex("x", redlock.WithTTL(redlock.DefaultMaxTTL)))
				l.add(lease, 0, "who leaves")
				waited := make(chan struct{})
				ctx, cancel := context.WithCancel(context.Background())
				go func() {
					defer close(waited)
					if lease, err := waiter.Mutex("x").Lock(ctx); err == nil {
						l.add(lease, 0, "who waits on the old list")
						<-lease.Context().Done()
					}
				}()
				changed := make(chan *redlock.Lease, 1)
				go func() {
					c.reconfigure(formerly, thereafter)
					lease, err := c.on(thereafter...).Mutex("x").Lock(context.Background())
					noErr(t, err)
					l.add(lease, 0, "of the new list")
					changed <- lease
				}()
				time.Sleep(at)
				leave(t, leaver)
				<-lease.Context().Done()
				if err := lease.Err(); !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrClosed) {
					t.Errorf("%v", err)
				}
				next := <-changed
				time.Sleep(time.Minute)
				noErr(t, next.Err()) // what was late of the old list took nothing away
				cancel()
				<-waited
				noErr(t, next.Unlock(t.Context()))
				l.judge(t)
				c.nothingLeft()
			})
		})
	}
}

// A lock is forced in the middle of a change of masters. These answer nothing about leases then, so the one it was taken from is told when
// its validity is over, and nobody has the lock before that: here force does not break the promise. The new list's holder has a larger
// token, and is not hit by an operator of the old list.
func TestTogether_forceDuringAChangeOfMasters(t *testing.T) {
	needs.NoRace(t, "a large simulation: others of TestTogether run with it")
	var forced, refused atomic.Int64
	simulateChange(t, func(t *testing.T, c *cluster, at time.Duration) {
		holder, operator := c.on(formerly...), c.on(formerly...)
		var l ledger
		lease := mustLock(t, holder.Mutex("x"))
		l.add(lease, 0, "who is forced")
		changed := make(chan *redlock.Lease, 1)
		go func() {
			c.reconfigure(formerly, thereafter)
			lease, err := c.on(thereafter...).Mutex("x").Lock(context.Background())
			noErr(t, err)
			l.add(lease, 0, "of the new list")
			changed <- lease
		}()
		time.Sleep(at)
		if err := operator.ForceUnlock(t.Context(), "x", lease.Holder()); err == nil {
			forced.Add(1)
			c.wantVotes("x", lease.Holder(), 0)
			time.Sleep(time.Until(lease.ValidUntil()))
			synctest.Wait()
			wantErr(t, lease.Err(), redlock.ErrLost)
		} else {
			refused.Add(1)
			if !errors.Is(err, redlock.ErrUnavailable) && !errors.Is(err, redlock.ErrNotHolder) && !errors.Is(err, redlock.ErrConfig) {
				t.Errorf("%v", err)
			}
		}
		next := <-changed
		wantErr(t, lease.Err(), redlock.ErrLost)
		if err := operator.ForceUnlock(t.Context(), "x", next.Holder()); err == nil {
			t.Error("a client of the old list took the lock away from the new one")
		}
		time.Sleep(time.Minute)
		noErr(t, next.Err())
		noErr(t, next.Unlock(t.Context()))
		l.judge(t)
		c.nothingLeft()
	})
	if forced.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d were forced, %d were not: the moments show nothing", forced.Load(), refused.Load())
	}
}

// room counts who is inside, and wants no more than most at a time.
type room struct {
	n, visits atomic.Int64
	most      int64
}

// stay is inside until ctx ends, or for d.
func (in *room) stay(t *testing.T, ctx context.Context, d time.Duration) {
	if n := in.n.Add(1); n > in.most {
		t.Errorf("%d inside at %v, and %d may be", n, time.Now().Format("04:05.000"), in.most)
	}
	in.visits.Add(1)
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	in.n.Add(-1)
}

// visitors are on a list of masters: each of kinds goes in again and again, until ctx ends.
func visitors(t *testing.T, ctx context.Context, c *redlock.Client, kinds map[string]*room) (done chan struct{}) {
	const d = 3 * time.Second
	visit := map[string]func() error{
		"a semaphore": func() error {
			return semaphore.New(c, "s", 2).Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
				kinds["a semaphore"].stay(t, ctx, d)
				return nil
			})
		},
		"a multi lock": func() error {
			return multilock.New(c.Mutex("m1"), c.Mutex("m2")).Do(ctx, func(ctx context.Context, _ *multilock.Lease) error {
				kinds["a multi lock"].stay(t, ctx, d)
				return nil
			})
		},
		"a flight": func() error {
			_, err := flight.Do(ctx, c, "f", func(context.Context) (int, bool, error) { return 0, false, nil }, func(ctx context.Context) (int, error) {
				kinds["a flight"].stay(t, ctx, d)
				return 1, nil
			})
			return err
		},
	}
	done = make(chan struct{}, len(kinds))
	for kind := range kinds {
		go func() {
			for ctx.Err() == nil {
				if visit[kind]() != nil { // the list was replaced
					time.Sleep(100 * time.Millisecond)
				}
			}
			done <- struct{}{}
		}()
	}
	return done
}

func threeKinds() map[string]*room {
	return map[string]*room{"a semaphore": {most: 2}, "a multi lock": {most: 1}, "a flight": {most: 1}}
}

// What stands on several locks, on the old list and on the new one at the same time: no more are inside than may be, and the new list
// gets on.
func TestTogether_semaphoreMultilockFlight_overAChangeOfMasters(t *testing.T) {
	needs.NoRace(t, "a large simulation: others of TestTogether run with it")
	simulate(t, func(t *testing.T, c *cluster) {
		c.recovery = true
		list, done := c.list(formerly...)
		noErr(t, admin.Init(t.Context(), list, nil, admin.NothingWasEverLocked))
		done()
		ctx, cancel := context.WithCancel(context.Background())
		kinds := threeKinds()
		var all []chan struct{}
		for range 3 {
			all = append(all, visitors(t, ctx, c.on(formerly...), kinds))
		}
		time.Sleep(20 * time.Second)
		c.reconfigure(formerly, thereafter)
		before := map[string]int64{}
		for kind, in := range kinds {
			before[kind] = in.visits.Load()
		}
		for range 3 {
			all = append(all, visitors(t, ctx, c.on(thereafter...), kinds))
		}
		time.Sleep(2 * time.Minute)
		for kind, in := range kinds {
			if n := in.visits.Load() - before[kind]; before[kind] < 5 || n < 10 {
				t.Errorf("%s: %d visits before the change, %d after it", kind, before[kind], n)
			}
		}
		cancel()
		for _, v := range all {
			for range kinds {
				<-v
			}
		}
		c.nothingLeft()
	})
}

// The same names in two namespaces and in none, at once: each has its own, and no more are inside of each than may be.
func TestTogether_semaphoreMultilockFlightEvery_inNamespaces(t *testing.T) {
	needs.NoRace(t, "a large simulation: others of TestTogether run with it")
	simulate(t, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		const period = time.Minute
		var all []chan struct{}
		every := map[string][]time.Time{}
		worlds := map[string]map[string]*room{}
		var everyone []func()
		for _, ns := range []string{"", "team-a", "team-b"} {
			var opts []redlock.Option
			if ns != "" {
				opts = append(opts, redlock.WithNamespace(ns))
			}
			c.init(opts...)
			worlds[ns] = threeKinds()
			for range 2 {
				client := c.client(opts...).Client.Client
				all = append(all, visitors(t, ctx, client, worlds[ns]))
				everyone = append(everyone, func() {
					_, err := client.Every("job", period).Do(t.Context(), func(context.Context, *redlock.Lease) error {
						every[ns] = append(every[ns], time.Now())
						return nil
					})
					noErr(t, err)
				})
			}
		}
		for range 130 { // one after the other, so that nothing but the period keeps them apart
			for _, try := range everyone {
				try()
			}
			time.Sleep(time.Second)
		}
		cancel()
		for _, v := range all {
			for range threeKinds() {
				<-v
			}
		}
		for ns, kinds := range worlds {
			for kind, in := range kinds {
				if n := in.visits.Load(); n < 10 {
					t.Errorf("%s in %q: %d visits", kind, ns, n)
				}
			}
			if runs := every[ns]; len(runs) != 3 {
				t.Errorf("%q ran at %v", ns, runs)
			}
			for i, at := range every[ns][1:] {
				if gap := at.Sub(every[ns][i]); gap < period {
					t.Errorf("%q ran again after %v", ns, gap)
				}
			}
		}
		synctest.Wait()
	})
}
