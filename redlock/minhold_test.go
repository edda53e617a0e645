// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

func TestWithMinHold_unlockedBefore_staysTaken(t *testing.T) {
	for name, tc := range map[string]struct{ hold, held, free time.Duration }{
		"shorter than the TTL": {5 * time.Second, time.Second, 5 * time.Second},
		"longer than the TTL":  {time.Minute, time.Second, time.Minute},
		"renewed meanwhile":    {time.Minute, 25 * time.Second, time.Minute},
		"over":                 {5 * time.Second, 7 * time.Second, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 3, func(t *testing.T, c *cluster) {
				c.init()
				one, other := c.client(), c.client()
				l := locked(t, one.Mutex("x", redlock.WithMinHold(tc.hold)))
				begun := time.Now()
				time.Sleep(tc.held)
				noErr(t, l.Unlock(t.Context()))
				if now := time.Since(begun); now > tc.held+time.Second {
					t.Errorf("Unlock took until %v", now)
				}
				if l.Context().Err() == nil || !errors.Is(l.Err(), redlock.ErrReleased) {
					t.Error("the lease goes on")
				}
				if tc.held < tc.hold {
					_, err := one.Mutex("x").TryLock(t.Context()) // nor does the process itself have it
					wantIs(t, err, redlock.ErrHeld)
				}
				next := locked(t, other.Mutex("x"))
				if now := time.Since(begun); now < tc.free || now > tc.free+2*time.Second {
					t.Errorf("free after %v, want %v", now, tc.free)
				}
				if next.Token() <= l.Token() {
					t.Errorf("token %d after %d", next.Token(), l.Token())
				}
				noErr(t, next.Unlock(t.Context()))
				synctest.Wait()
				for _, m := range c.masters {
					if left := m.Holder("x"); left != "" {
						t.Errorf("%s has a vote of %s", m.Name(), left)
					}
				}
			})
		})
	}
}

// Without recovery there are no records, and so no epochs: a rest is respected all the same.
func TestWithMinHold_recoveryOff_staysTaken(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		one, other := c.client(), c.client()
		l := locked(t, one.Mutex("x", redlock.WithMinHold(time.Minute)))
		begun := time.Now()
		noErr(t, l.Unlock(t.Context()))
		noErr(t, locked(t, other.Mutex("x")).Unlock(t.Context()))
		if now := time.Since(begun); now < time.Minute || now > time.Minute+time.Second {
			t.Errorf("free after %v", now)
		}
		adopted, err := other.Adopt(t.Context(), handedOff(t, locked(t, one.Mutex("y"))))
		noErr(t, err)
		noErr(t, adopted.Unlock(t.Context()))
	})
}

// Waiters that are in the queue when the lock is unlocked have their turn when the minimum hold is over.
func TestWithMinHold_waiters_haveTheirTurn(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		l := locked(t, c.client().Mutex("x", redlock.WithMinHold(20*time.Second)))
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range 3 {
			client := c.client()
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				lease, err := client.Mutex("x").Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if now := time.Since(begun); now < 20*time.Second || now > 23*time.Second {
					t.Errorf("waiter %d has it after %v", i, now)
				}
				if err := lease.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		noErr(t, l.Unlock(t.Context()))
		wg.Wait()
	})
}

// The process dies right after its Lock. The masters keep the lock taken all the same.
func TestWithMinHold_holderDies_staysTaken(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(), c.client()
		locked(t, one.Mutex("x", redlock.WithMinHold(time.Minute)))
		begun := time.Now()
		noErr(t, one.Close())
		locked(t, other.Mutex("x"))
		if now := time.Since(begun); now < time.Minute || now > time.Minute+50*time.Millisecond {
			t.Errorf("free after %v", now)
		}
	})
}

func TestWithMinHold_votesGone_unlockSaysSo(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		l := locked(t, c.client().Mutex("x", redlock.WithMinHold(time.Minute)))
		synctest.Wait()
		for _, m := range c.masters[:3] {
			noErr(t, m.Do(func(db *nodetest.DB) { db.Del("x") }))
		}
		wantIs(t, l.Unlock(t.Context()), redlock.ErrLost)
	})
}

func TestWithMinHold_badInput_refused(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		client := c.client()
		_, err := client.Mutex("x", redlock.WithMinHold(-1)).TryLock(t.Context())
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, "-1ns")
		_, err = client.RWMutex("x", redlock.WithMinHold(time.Second)).TryRLock(t.Context())
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, "WithMinHold(0)")
		noErr(t, locked(t, client.RWMutex("x", redlock.WithMinHold(0)).RLocker()).Unlock(t.Context()))
		run := func(context.Context, *redlock.Lease) error { return nil }
		err = done(client.Every("x", time.Millisecond).Do(t.Context(), run))
		wantIs(t, err, redlock.ErrConfig)
		wantText(t, err, "1ms", "10ms")
		wantIs(t, done(client.Every("", time.Second).Do(t.Context(), run)), redlock.ErrConfig)
		wantIs(t, done(client.Every("x", time.Second).Do(t.Context(), nil)), redlock.ErrConfig)
		wantIs(t, done((*redlock.Every)(nil).Do(t.Context(), run)), redlock.ErrConfig)
		wantIs(t, done(new(redlock.Every).Do(t.Context(), run)), redlock.ErrConfig)
	})
}

// A context of the run's own lease starts no second run.
func TestEvery_fromWithin_runsNothing(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		e := c.client().Every("x", time.Minute, redlock.WithReentry())
		noErr(t, done(e.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			wantIs(t, done(e.Do(ctx, func(context.Context, *redlock.Lease) error { t.Error("runs"); return nil })), redlock.ErrNotReentrant)
			return nil
		})))
	})
}

// If the masters cannot be told of the period, nothing runs, and the period is not used up.
func TestEvery_periodNotKept_runsNothing(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(), c.client()
		one.faultOn("confirm", nodetest.Fault{Lose: nodetest.LoseReply}, 0, 1, 2)
		did, err := one.Every("x", time.Hour).Do(t.Context(), func(context.Context, *redlock.Lease) error { t.Error("runs"); return nil })
		if did {
			t.Error("is said to have run")
		}
		wantIs(t, err, redlock.ErrUnreachable)
		one.heal()
		time.Sleep(20 * time.Second)
		ran := false
		noErr(t, done(other.Every("x", time.Hour).Do(t.Context(), func(context.Context, *redlock.Lease) error { ran = true; return nil })))
		if !ran {
			t.Error("does not run")
		}
	})
}

// Hosts with timers of their own, which are killed in the middle of a run and cut off. No two runs
// start within a period, and there are runs.
//
// There must be three runs for each seed of the list. In 60 runs of one seed each there were 5 to 9, 7.0 in the mean with a standard deviation of 0.9: two
// seeds together have fewer than 6 once in 10^9 times (6.3 sigma).
func TestEvery_faults_atMostOnceAPeriod(t *testing.T) {
	seeds := 2
	if needs.InSoak(t) {
		seeds = 200
	}
	started, runs := 0, 0
	for seed := range replay.Many(t, seeds) {
		simulateWith(t, 3, func(t *testing.T, c *cluster) { started += everyWithFaults(t, c, seed) })
		runs++
	}
	if replay.Listed() && started < 3*runs {
		t.Errorf("only %d runs with %d seeds", started, runs)
	}
}

func everyWithFaults(t *testing.T, c *cluster, seed uint64) (started int) {
	const period, hosts, last = time.Minute, 3, 6 * time.Minute
	c.init()
	begun := time.Now()
	var mu sync.Mutex
	var starts []time.Duration
	var wg sync.WaitGroup
	for i := range uint64(hosts) {
		rnd := rand.New(rand.NewPCG(seed, i))
		wg.Go(func() {
			for time.Since(begun) < last {
				host := c.client()
				e := host.Every("job", period)
				alive := true
				for range 8 {
					time.Sleep(time.Duration(rnd.Int64N(int64(period / 2))))
					switch rnd.IntN(6) {
					case 0:
						host.faultOn("confirm", nodetest.Fault{Lose: nodetest.LoseReply}, rnd.IntN(3), rnd.IntN(3))
					case 1:
						host.faultOn("release", nodetest.Fault{Lose: nodetest.LoseCommand}, rnd.IntN(3))
					default:
						host.heal()
					}
					killed, takes := rnd.IntN(3) == 0, time.Duration(rnd.Int64N(int64(2*period)))
					_, _ = e.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
						mu.Lock()
						starts = append(starts, time.Since(begun))
						mu.Unlock()
						if killed {
							alive = false
							_ = host.Close()
							return nil
						}
						select {
						case <-time.After(takes):
						case <-ctx.Done():
						}
						return nil
					})
					if !alive {
						break
					}
				}
				_ = host.Close()
			}
		})
	}
	wg.Wait()
	for i := 1; i < len(starts); i++ {
		if gap := starts[i] - starts[i-1]; gap < period {
			t.Errorf("run %d starts %v after the one before", i, gap)
		}
	}
	t.Logf("%d runs", len(starts))
	return len(starts)
}
