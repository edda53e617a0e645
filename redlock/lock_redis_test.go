// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// The proxies make a round trip so long that the test can tell one from two.
func TestPair_healthyMasters_oneRoundTripEach(t *testing.T) {
	t.Parallel()
	stall.Try(t, 50*time.Millisecond, func(t testing.TB) {
		const trip = 60 * time.Millisecond
		ms := startProxied(t, 5, localredis.Config{})
		m := ms.begin().Mutex("pair")
		noErr(t, locked(t, m).Unlock(t.Context()))
		for _, p := range ms.proxies {
			p.Set(faultproxy.ToMaster, faultproxy.Fault{Delay: trip})
		}
		lock, unlock := time.Hour, time.Hour // the best of a few, for the machine may be busy
		for range 5 {
			start := time.Now()
			l := locked(t, m)
			granted := time.Now()
			noErr(t, l.Unlock(t.Context()))
			lock, unlock = min(lock, granted.Sub(start)), min(unlock, time.Since(granted))
		}
		t.Logf("lock %v, unlock %v, a round trip is %v", lock, unlock, trip)
		for _, d := range []time.Duration{lock, unlock} {
			if d < trip || d >= 2*trip {
				t.Errorf("took %v, want one round trip of %v", d, trip)
			}
		}
	})
}

func TestPair_healthyMasters_twoScriptsAMasterAtMostAndNothingLeft(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	const pairs = 50
	ms := startMasters(t, 5, localredis.Config{})
	c := ms.open(redlock.WithUnsafeRecoveryOff()) // else the client notes the masters' clocks once a second, which is a script too
	m := c.Mutex("pair")
	before, hdels := make([]int, 5), make([]int, 5)
	for i := range before {
		before[i], hdels[i] = ms.calls(i, "evalsha"), ms.calls(i, "hdel")
	}
	for range pairs {
		l := locked(t, m)
		noErr(t, l.Unlock(t.Context()))
	}
	for i := range before {
		// Unlock returns at the quorum; the last master may be a little behind, and
		// then gets a release and the next acquire in one script.
		soon(t, "an HDEL a pair", func() bool { return ms.calls(i, "hdel")-hdels[i] >= pairs })
		if n := ms.calls(i, "evalsha") - before[i]; n > 2*pairs {
			t.Errorf("master %d ran %d scripts for %d pairs", i, n, pairs)
		}
	}
	if n := c.Stats().SecondRounds; n != 0 {
		t.Errorf("%d pairs of one client needed a second round trip", n)
	}
	ms.wantNoKeys("*pair*")
}

// The node timeout is so long that waiting for a silent master would show.
func TestLock_mastersSilent_returnsAtTheQuorum(t *testing.T) {
	for name, hurt := range map[string]func(s *localredis.Server) error{
		"paused": (*localredis.Server).Pause,
		"dead":   (*localredis.Server).Kill,
	} {
		for silent := 1; silent <= 2; silent++ {
			t.Run(fmt.Sprintf("%d %s", silent, name), func(t *testing.T) {
				t.Parallel()
				stall.Try(t, 2*time.Second, func(t testing.TB) {
					ms := startMasters(t, 5, localredis.Config{})
					m := ms.begin(redlock.WithTTL(20*time.Second), redlock.WithNodeTimeout(4*time.Second)).Mutex("quorum")
					for i := range silent {
						noErr(t, hurt(ms.servers[i]))
					}
					start := time.Now()
					for range 3 {
						l := locked(t, m)
						noErr(t, l.Unlock(t.Context()))
					}
					if d := time.Since(start); d > 3*time.Second {
						t.Errorf("three pairs took %v with %d masters %s", d, silent, name)
					}
					quorumtest.GivenBack(t, ms.direct[2:], "quorum") // Unlock returns at the quorum
				})
			})
		}
	}
}

func TestLock_quorumSilent_unreachableAndNothingLeft(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		c := ms.begin(redlock.WithNodeTimeout(100 * time.Millisecond))
		m := c.Mutex("none")
		for i := range 3 {
			noErr(t, ms.servers[i].Pause())
		}
		_, err := m.TryLock(t.Context())
		wantIs(t, err, redlock.ErrUnreachable)
		if errors.Is(err, redlock.ErrHeld) {
			t.Errorf("nobody holds it: %v", err)
		}
		wantText(t, err, "quorum is 3", "3 did not answer")
		ms.wantNoKeys("none", 3, 4)

		start := time.Now()
		_, err = m.Lock(t.Context())
		wantIs(t, err, redlock.ErrUnreachable)
		if d := time.Since(start); d < redlock.DefaultOutageTimeout || d > redlock.DefaultOutageTimeout+2*time.Second {
			t.Errorf("Lock gave up after %v, patience is %v", d, redlock.DefaultOutageTimeout)
		}
		for _, patience := range []time.Duration{0, 1500 * time.Millisecond} {
			impatient := c.Mutex("none", redlock.WithOutageTimeout(patience))
			start := time.Now()
			_, err = impatient.Lock(t.Context())
			wantIs(t, err, redlock.ErrUnreachable)
			if d := time.Since(start); d < patience || d > patience+900*time.Millisecond {
				t.Errorf("Lock gave up after %v, patience is %v", d, patience)
			}
		}
		for i := range 3 {
			noErr(t, ms.servers[i].Resume())
		}
		ms.givenBack("none") // behind the resume
		noErr(t, locked(t, m).Unlock(t.Context()))
	})
}

// pairs locks and unlocks until stop is closed, from several goroutines, and
// returns how many pairs it made.
func pairs(t testing.TB, c *redlock.Client, callers int, stop <-chan struct{}) (count *atomic.Int64, wait func()) {
	count = new(atomic.Int64)
	var wg sync.WaitGroup
	for i := range callers {
		m := c.Mutex(fmt.Sprintf("pair-%d", i))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, err := m.Lock(context.Background())
				if err == nil {
					err = l.Unlock(context.Background())
				}
				if err != nil {
					t.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	return count, wg.Wait
}

// Not parallel: it counts the process's goroutines and memory.
func TestPairs_oneMasterStoppedOrDead_nothingGrows(t *testing.T) {
	needs.Test(t)
	for name, hurt := range map[string]func(s *localredis.Server) error{
		"stopped": (*localredis.Server).Pause,
		"dead":    (*localredis.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			stall.Try(t, 200*time.Millisecond, func(t testing.TB) {
				ms := startMasters(t, 5, localredis.Config{})
				c := ms.begin(redlock.WithNodeTimeout(400 * time.Millisecond))
				stop := make(chan struct{})
				count, wait := pairs(t, c, 8, stop)
				noErr(t, hurt(ms.servers[0]))
				// Goroutines of single instants differ by a probe that is under way.
				sample := func() (goroutines int, heap uint64) {
					for range 50 {
						goroutines = max(goroutines, runtime.NumGoroutine())
						time.Sleep(2 * time.Millisecond)
					}
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					return goroutines, m.HeapAlloc
				}
				time.Sleep(500 * time.Millisecond)
				done, g0, h0 := count.Load(), 0, uint64(0)
				g0, h0 = sample()
				time.Sleep(soak(time.Second, time.Minute))
				soon(t, "pairs are made", func() bool { return count.Load()-done >= 500 })
				g1, h1 := sample()
				made := count.Load() - done
				close(stop)
				wait()
				t.Logf("%d pairs; goroutines %d -> %d, heap %d -> %d KB", made, g0, g1, h0>>10, h1>>10)
				if g1 > g0+8 {
					t.Errorf("goroutines grew from %d to %d", g0, g1)
				}
				if h1 > h0+4<<20 {
					t.Errorf("heap grew from %d to %d KB", h0>>10, h1>>10)
				}
			})
		})
	}
}

// When an attempt is over, however it ended, no master that answers has a key of that attempt. A
// frozen master loses such keys within a second after it goes on.
func TestPairs_cancelsDeadlinesAndAFrozenMaster_noStaleKey(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	replay.Each(t, func(t *testing.T, seed uint64) {
		stall.Try(t, 300*time.Millisecond, func(t testing.TB) { hurriedPairs(t, seed) })
	})
}

func hurriedPairs(t testing.TB, seed uint64) {
	rng := replay.RNG(seed)
	ms := startMasters(t, 5, localredis.Config{})
	// The TTL is longer than the test: nothing goes away by itself.
	c := ms.begin(redlock.WithTTL(30 * time.Second))
	for _, freeze := range []time.Duration{soak(300*time.Millisecond, time.Second), soak(2500*time.Millisecond, 10*time.Second)} {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var granted, gaveUp atomic.Int64
		for range 16 {
			rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					switch err := hurriedPair(c, rng); {
					case err == nil:
						granted.Add(1)
					case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
						gaveUp.Add(1)
					case !errors.Is(err, redlock.ErrHeld) && !errors.Is(err, redlock.ErrUnreachable) && !errors.Is(err, redlock.ErrUnconfirmed):
						t.Error(err)
					}
				}
			})
		}
		soon(t, "some pairs, and some that give up", func() bool { return granted.Load() >= 5 && gaveUp.Load() >= 5 })
		frozen := rng.IntN(5)
		noErr(t, ms.servers[frozen].Pause())
		time.Sleep(freeze)
		close(stop)
		wg.Wait()
		awake := append(append([]int{}, ms.all()[:frozen]...), ms.all()[frozen+1:]...)
		if !within(time.Second, func() bool { return len(ms.keys("hurried*", awake...)) == 0 }) {
			t.Errorf("keys of finished attempts on masters that answer: %v", ms.keys("hurried*", awake...))
		}
		noErr(t, ms.servers[frozen].Resume())
		thaw := time.Now()
		if !within(time.Second, func() bool { return len(ms.keys("hurried*")) == 0 }) {
			t.Errorf("keys of finished attempts a second after the thaw: %v", ms.keys("hurried*"))
		}
		t.Logf("frozen for %v: %d pairs, %d gave up; clean %v after the thaw", freeze, granted.Load(), gaveUp.Load(), time.Since(thaw))
	}
}

// hurriedPair is a pair by somebody with little time.
func hurriedPair(c *redlock.Client, rng *rand.Rand) error {
	m := c.Mutex(fmt.Sprintf("hurried-%d", rng.IntN(8)))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond+time.Duration(rng.Int64N(int64(20*time.Millisecond))))
	defer cancel()
	if rng.IntN(2) == 0 {
		time.AfterFunc(time.Duration(rng.ExpFloat64()*float64(3*time.Millisecond)), cancel)
	}
	take := m.Lock
	if rng.IntN(2) == 0 {
		take = m.TryLock
	}
	l, err := take(ctx)
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

// wantGaveUp fails unless err is the caller's own and nothing else.
func wantGaveUp(t testing.TB, err error, want ...error) {
	t.Helper()
	wantIs(t, err, want...)
	for _, not := range []error{redlock.ErrHeld, redlock.ErrUnreachable, redlock.ErrRecovering, redlock.ErrRefused} {
		if errors.Is(err, not) {
			t.Errorf("%v is also %v", err, not)
		}
	}
}

func TestLock_cancelWhileWaiting_promptWithCauseAndClean(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 5, localredis.Config{})
		holder := locked(t, ms.begin().Mutex("busy"))
		c := ms.open()
		why := errors.New("the user went away")
		for range 5 {
			ctx, cancel := context.WithCancelCause(t.Context())
			got := make(chan error, 1)
			go func() {
				_, err := c.Mutex("busy").Lock(ctx)
				got <- err
			}()
			soon(t, "the waiter is queued", func() bool { return len(ms.keys("redlock:queue:*")) == 5 })
			start := time.Now()
			cancel(why)
			err := <-got
			if d := time.Since(start); d > 500*time.Millisecond {
				t.Errorf("Lock returned %v after the cancel", d)
			}
			wantGaveUp(t, err, context.Canceled, why)
			if n := ms.votes("busy", holder.Holder()); n != 5 {
				t.Errorf("%d masters have the holder's vote alone: %v", n, ms.holders("busy"))
			}
			ms.givenBack("redlock:queue:*")
		}
		noErr(t, holder.Unlock(t.Context()))
	})
}

func TestLock_deadlineWhileWaiting_isTheCallersError(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) {
		ms := startMasters(t, 3, localredis.Config{})
		c := ms.begin()
		locked(t, c.Mutex("busy"))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := ms.open().Mutex("busy").Lock(ctx)
		wantGaveUp(t, err, context.DeadlineExceeded)

		done, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Mutex("free").TryLock(done)
		wantGaveUp(t, err, context.Canceled)
		ms.wantNoKeys("free")

		// The maximum wait is not the caller's.
		_, err = ms.open().Mutex("busy", redlock.WithMaxWait(50*time.Millisecond)).Lock(t.Context())
		wantIs(t, err, redlock.ErrHeld)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is a deadline that the caller never set", err)
		}
	})
}

func TestTryLock_cancelAtRandomTimes_leaseOrNothing(t *testing.T) {
	t.Parallel()
	replay.Each(t, func(t *testing.T, seed uint64) {
		// A master that is held up for longer than the node timeout has its key for a moment longer.
		stall.Try(t, redlock.DefaultNodeTimeout/2, func(t testing.TB) { cancelAtRandomTimes(t, seed) })
	})
}

func cancelAtRandomTimes(t testing.TB, seed uint64) {
	rng := replay.RNG(seed)
	ms := startMasters(t, 5, localredis.Config{})
	m := ms.begin().Mutex("race")
	granted, gaveUp := 0, 0
	// The cancel comes within a time that grows with each that comes too early and shrinks with each that comes too late, so that on a machine of
	// any speed both come often.
	most := 2 * time.Millisecond
	for i := 0; i < 3000 && (granted < 20 || gaveUp < 20); i++ {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(rng.Int64N(int64(most))), cancel)
		l, err := m.TryLock(ctx)
		if err == nil {
			granted++
			most = max(most*4/5, 10*time.Microsecond)
			if err := l.Err(); err != nil {
				t.Fatalf("a lease that was granted is over: %v", err)
			}
			noErr(t, l.Unlock(t.Context()))
		} else {
			gaveUp++
			most = most * 5 / 4
			wantGaveUp(t, err, context.Canceled)
			ms.wantNoKeys("race") // at once, not soon
		}
		timer.Stop()
		cancel()
	}
	t.Logf("%d granted, %d gave up", granted, gaveUp)
	if granted < 20 || gaveUp < 20 {
		t.Errorf("the race went one way only: %d granted, %d gave up", granted, gaveUp)
	}
}

// turnsDone is a context that ends, unnoticed by those who wait for Done, after
// its error was asked for once: the cancel that comes between win and return.
type turnsDone struct {
	context.Context
	asked atomic.Int32
}

func (c *turnsDone) Done() <-chan struct{} { return nil }
func (c *turnsDone) Err() error {
	if c.asked.Add(1) == 1 {
		return nil
	}
	return context.Canceled
}

func TestTryLock_cancelBetweenWinAndReturn_cancelWins(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	c := ms.begin()
	m := c.Mutex("race")
	l, err := m.TryLock(&turnsDone{Context: t.Context()})
	if l != nil {
		t.Fatal("a lease for a caller that is gone")
	}
	wantGaveUp(t, err, context.Canceled)
	ms.wantNoKeys("race")
	if s := c.Stats(); s.Granted != 0 || s.Held != 0 {
		t.Errorf("stats count it: %+v", s)
	}
	noErr(t, locked(t, m).Unlock(t.Context()))
}

func TestTryLock_cancelAfterReturn_leaseStands(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 5, localredis.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	l, err := ms.begin().Mutex("race").TryLock(ctx)
	noErr(t, err)
	cancel()
	if err := errors.Join(l.Err(), l.Context().Err()); err != nil {
		t.Errorf("the lease went with the context of the wait: %v", err)
	}
	noErr(t, l.Unlock(ctx)) // a context that is done does not stop an Unlock
	ms.givenBack("race")
}

func TestTryLock_cancelBeforeTheReplies_votesGivenBack(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) {
		ms := startProxied(t, 5, localredis.Config{})
		// The cancel ends the round. What gives the votes back then waits for a node timeout at most.
		m := ms.begin(redlock.WithNodeTimeout(400 * time.Millisecond)).Mutex("race")
		ctx, cancel := context.WithCancel(t.Context())
		var rules []*faultproxy.Rule
		for _, p := range ms.proxies {
			rules = append(rules, p.SlowReply(acquires(t), 1500*time.Millisecond))
		}
		got := make(chan error, 1)
		asking, answered := context.WithCancel(t.Context())
		go func() {
			_, err := m.TryLock(ctx)
			got <- err
			answered()
		}()
		for i, r := range rules {
			if err := r.Wait(asking); err != nil {
				t.Fatalf("TryLock returned %v, and master %d was not asked", <-got, i)
			}
		}
		if n := len(ms.keys("race")); n != 5 {
			t.Fatalf("%d masters have voted, want all", n)
		}
		start := time.Now()
		cancel()
		wantGaveUp(t, <-got, context.Canceled)
		if d := time.Since(start); d > 800*time.Millisecond {
			t.Errorf("TryLock returned %v after the cancel: it waited for the replies", d)
		}
		ms.givenBack("race") // behind the slow replies
	})
}

// soak is short, or long in a soak.
func soak(short, long time.Duration) time.Duration {
	if needs.Now() == needs.TierSoak {
		return long
	}
	return short
}
