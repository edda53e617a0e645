// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// client opens a client whose messages take between 100 and 300 us each way.
func client(t *testing.T, ms simtest.Masters, rng *rand.Rand) (*redlock.Client, *simtest.Clock) {
	t.Helper()
	c, err := ms.Open(t.Context(), func(c *simtest.Client) {
		for _, n := range c.Ways {
			there, back := time.Duration(100_000+rng.IntN(200_000)), time.Duration(100_000+rng.IntN(200_000))
			n.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Delay: there, ReplyDelay: back} })
		}
	}, redlock.WithUnsafeRecoveryOff())
	quorumtest.NoErr(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.Client, c.Clock
}

func three(t *testing.T, c *redlock.Client, try int, opts ...redlock.LockOption) *multilock.Lock {
	return multilock.New(c.Mutex(fmt.Sprint("a", try)), c.Mutex(fmt.Sprint("b", try)), c.Mutex(fmt.Sprint("c", try), opts...))
}

// Ten callers try three free locks at the same moment: one of them has them all.
func TestTryLock_tenAtOnce_oneWins(t *testing.T) {
	replay.Each(t, tenAtOnce)
}

func tenAtOnce(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		rng := replay.RNG(seed)
		ms := simtest.New(5)
		var clients []*redlock.Client
		for range 10 {
			c, _ := client(t, ms, rng)
			clients = append(clients, c)
		}
		const tries = 100
		none, most := 0, time.Duration(0)
		for try := range tries {
			var wins atomic.Int64
			var wg sync.WaitGroup
			start := time.Now()
			for _, c := range clients {
				wg.Go(func() {
					_, err := three(t, c, try).TryLock(t.Context())
					if err == nil {
						wins.Add(1)
					} else if !errors.Is(err, redlock.ErrHeld) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			most = max(most, time.Since(start))
			if wins.Load() > 1 {
				t.Fatalf("%d have them", wins.Load())
			} else if wins.Load() == 0 {
				none++
			}
		}
		t.Logf("nobody won in %d of %d tries; the longest took %v", none, tries, most)
		if none > 0 || most > redlock.DefaultNodeTimeout+100*time.Millisecond {
			t.Errorf("nobody won in %d of %d tries; the longest took %v", none, tries, most)
		}
	})
}

// If one member is held, TryLock returns soon, whichever member it is.
func TestTryLock_oneMemberKept_refusedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		ms := simtest.New(5)
		a, _ := client(t, ms, rng)
		b, _ := client(t, ms, rng)
		for i, name := range []string{"a", "b", "c"} {
			kept := hold(t, b.Mutex(fmt.Sprint(name, i)))
			start := time.Now()
			_, err := three(t, a, i).TryLock(t.Context())
			quorumtest.Is(t, err, redlock.ErrHeld)
			if took := time.Since(start); took > 20*time.Millisecond {
				t.Errorf("%s is kept: refused after %v", name, took)
			}
			unlock(t, kept)
		}
	})
}

// A caller whose time is over while TryLock pauses before it tries again hears so, and not that a member is held. errors.As finds the round
// that says which one.
func TestTryLock_contextEndsInAPause_saysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, masters := redlocktest.New(t)
		masters.Hold("b")
		both := multilock.New(c.Mutex("a"), c.Mutex("b"))
		run := func(context.Context, *multilock.Lease) error { return errors.New("ran although b is held") }
		for what, try := range map[string]func(ctx context.Context) error{
			"TryLock": func(ctx context.Context) error { return second(both.TryLock(ctx)) },
			"TryDo":   func(ctx context.Context) error { return second(both.TryDo(ctx, run)) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond) // shorter than any pause but one in four million
			defer cancel()
			err := try(ctx)
			var round *redlock.RoundError
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrHeld) || !errors.As(err, &round) || round.Name != "b" {
				t.Errorf("%s: %v", what, err)
			}
		}
		unlock(t, hold(t, c.Mutex("a"))) // nothing is kept
	})
}

// Whenever the caller's context ends, the error of a TryLock that fails is that of the context, also while members are given back.
func TestTryLock_contextEnds_errorIsTheContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		ms := simtest.New(3)
		a, _ := client(t, ms, rng)
		b, _ := client(t, ms, rng)
		hold(t, b.Mutex("b0"))
		ended := 0
		for d := time.Duration(1); d < 20*time.Millisecond; d += 133_337 {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			_, err := three(t, a, 0).TryLock(ctx)
			over := ctx.Err() != nil
			cancel()
			if over {
				ended++
			}
			if errors.Is(err, context.DeadlineExceeded) != over || errors.Is(err, redlock.ErrHeld) == over {
				t.Errorf("ctx of %v, which ended: %v; got %v", d, over, err)
			}
		}
		if ended < 10 {
			t.Errorf("%d contexts ended", ended)
		}
	})
}

// When its maximum wait is over, Lock returns what the masters answered, as that of a Mutex does, and not
// a deadline error.
func TestLock_maxWaitOver_saysWhatTheMastersSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		ms := simtest.New(3)
		a, _ := client(t, ms, rng)
		b, _ := client(t, ms, rng)
		kept := hold(t, b.Mutex("b0"))
		for _, wait := range []time.Duration{1, 50 * time.Millisecond, time.Second} {
			start := time.Now()
			_, err := three(t, a, 0, redlock.WithMaxWait(wait)).Lock(t.Context())
			quorumtest.Is(t, err, redlock.ErrHeld)
			if took := time.Since(start); took < wait || took > wait+30*time.Millisecond {
				t.Errorf("%v: refused after %v", wait, took)
			}
		}
		got := make(chan error, 1)
		go func() {
			lease, err := three(t, a, 0, redlock.WithMaxWait(time.Minute)).Lock(context.Background())
			if err == nil {
				err = lease.Unlock(lease.Context())
			}
			got <- err
		}()
		time.Sleep(time.Second)
		unlock(t, kept)
		quorumtest.NoErr(t, <-got)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := three(t, a, 0, redlock.WithMaxWait(time.Second)).Lock(ctx)
		quorumtest.Is(t, err, context.Canceled)
		for _, m := range ms {
			m.Crash()
		}
		_, err = three(t, a, 0, redlock.WithMaxWait(50*time.Millisecond)).Lock(t.Context())
		quorumtest.Is(t, err, redlock.ErrUnreachable)
	})
}

// A member is lost while Do waits for another one, and the caller's time is over while both are given back. It never had the whole, so it has
// lost nothing: the error is its context's.
func TestDo_memberLostAndContextEnds_errorIsTheContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := simtest.New(3)
		open := func() *simtest.Client {
			c, err := ms.Open(t.Context(), nil, redlock.WithUnsafeRecoveryOff())
			quorumtest.NoErr(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		c, other := open(), open()
		kept := hold(t, other.Mutex("b"))
		for _, way := range c.Ways {
			way.SetFault(func(cmd nodetest.Command) (f nodetest.Fault) {
				if cmd.Name == "release" {
					f.Delay = 20 * time.Millisecond
				}
				return f
			})
		}
		time.AfterFunc(3*time.Second, func() { _ = kept.Unlock(context.Background()) })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second+10*time.Millisecond)
		defer cancel()
		both := multilock.New(c.Mutex("a", redlock.WithTTL(time.Second), redlock.WithoutRenewal()), c.Mutex("b"))
		err := both.Do(ctx, func(context.Context, *multilock.Lease) error {
			t.Error("ran without a member")
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrLost) {
			t.Error(err)
		}
	})
}

// The context of one member ends when that one is unlocked, which is no reason not to wait for the masters that give back the others.
func TestUnlock_contextOfAMember_isConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := simtest.New(3)
		a, _ := client(t, ms, rand.New(rand.NewPCG(1, 2)))
		for k := range 3 {
			for try := range 20 {
				lease := lock(t, three(t, a, try))
				if err := lease.Unlock(lease.Members()[k].Context()); err != nil {
					t.Errorf("member %d, try %d: %v", k, try, err)
				}
			}
		}
		// The deadline of such a context counts.
		lease := lock(t, three(t, a, 0))
		brief, cancel := context.WithTimeout(lease.Members()[0].Context(), 50*time.Microsecond)
		defer cancel()
		if err := lease.Unlock(brief); !errors.Is(err, redlock.ErrUnconfirmed) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind the deadline: %v", err)
		}
	})
}

// After a suspend, the context of Do's function and the lease's own context have ended at the first
// call of Err.
func TestDo_hostSuspended_contextSaysSoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := simtest.New(3)
		a, on := client(t, ms, rand.New(rand.NewPCG(1, 2)))
		err := three(t, a, 0).Do(t.Context(), func(ctx context.Context, _ *multilock.Lease) error {
			quorumtest.NoErr(t, ctx.Err())
			on.Stop(redlock.DefaultTTL)
			quorumtest.Is(t, ctx.Err(), context.Canceled)
			quorumtest.Is(t, context.Cause(ctx), redlock.ErrLost)
			return nil
		})
		quorumtest.Is(t, err, redlock.ErrLost)
		lease := lock(t, three(t, a, 1))
		on.Stop(redlock.DefaultTTL)
		quorumtest.Is(t, lease.Context().Err(), context.Canceled)
		quorumtest.Is(t, lease.Err(), redlock.ErrLost)
	})
}

// asked counts how often a context is asked for a value.
type asked struct {
	context.Context
	times *atomic.Int64
}

func (a asked) Value(key any) any {
	a.times.Add(1)
	return a.Context.Value(key)
}

// Each lock call asks its context for leases. With multilocks in each other that is one way out, however many members they have.
func TestDo_insideEachOther_contextIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := simtest.New(3)
		a, _ := client(t, ms, rand.New(rand.NewPCG(1, 2)))
		again := redlock.WithReentry()
		all := multilock.New(a.Mutex("a", again), a.Mutex("b", again), a.Mutex("c", again))
		var times atomic.Int64
		var further func(ctx context.Context, depth int) error
		further = func(ctx context.Context, depth int) error {
			if depth == 0 {
				times.Store(0)
				if v := ctx.Value(asked{}); v != nil || times.Load() != 1 {
					t.Errorf("%v: asked %d times", v, times.Load())
				}
				return nil
			}
			return all.Do(ctx, func(ctx context.Context, lease *multilock.Lease) error {
				if multilock.LeaseFrom(ctx) != lease {
					t.Errorf("%d further out, another lease is found", depth)
				}
				return further(ctx, depth-1)
			})
		}
		quorumtest.NoErr(t, further(asked{t.Context(), &times}, 7))
	})
}
