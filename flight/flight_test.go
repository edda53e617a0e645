// SPDX-License-Identifier: Apache-2.0

package flight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// store is what the processes share.
type store struct {
	mu    sync.Mutex
	value string
	loads int
	fails int // so many loads fail first
}

func (s *store) read(context.Context) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.value != "", nil
}

var errLoad = errors.New("the source is down")

func (s *store) load(ctx context.Context) (string, error) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	if s.loads <= s.fails {
		return "", errLoad
	}
	s.value = "loaded"
	return s.value, nil
}

// all has many callers of several clients ask at once, and returns how many got the value and how many failed.
func (s *store) all(t *testing.T, clients []*redlock.Client) (values, failed int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range clients {
		for range 4 {
			wg.Go(func() {
				got, err := flight.Do(t.Context(), c, "x", s.read, s.load)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && got == "loaded":
					values++
				case errors.Is(err, errLoad):
					failed++
				default:
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
	}
	wg.Wait()
	return values, failed
}

func TestDo_manyAtOnce_oneLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, masters := redlocktest.New(t)
		s, began := &store{}, time.Now()
		if values, _ := s.all(t, []*redlock.Client{c, masters.Client(), masters.Client()}); values != 12 || s.loads != 1 {
			t.Errorf("%d have it, after %d loads", values, s.loads)
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestDo_loaderFails_nextLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, masters := redlocktest.New(t)
		s := &store{fails: 2}
		if values, failed := s.all(t, []*redlock.Client{c, masters.Client(), masters.Client()}); values != 10 || failed != 2 || s.loads != 3 {
			t.Errorf("%d have it, %d failed, after %d loads", values, failed, s.loads)
		}
	})
}

func TestDo_loaderDies_nextLoadsAfterTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, masters := redlocktest.New(t)
		dying, s := masters.Client(), &store{}
		_, err := flight.Do(t.Context(), dying, "x", s.read, func(context.Context) (string, error) { return "", dying.Close() })
		if err != nil && !errors.Is(err, redlock.ErrClosed) {
			t.Error(err)
		}
		began := time.Now()
		if got, err := flight.Do(t.Context(), c, "x", s.read, s.load); got != "loaded" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if took := time.Since(began); took > redlock.DefaultTTL+3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// away opens a client whose messages take way to a master, and as long back.
func away(t *testing.T, masters simtest.Masters, way time.Duration) *redlock.Client {
	t.Helper()
	c, err := masters.Open(t.Context(), func(c *simtest.Client) {
		for _, n := range c.Ways {
			n.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Delay: way, ReplyDelay: way} })
		}
	}, redlock.WithUnsafeRecoveryOff())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.Client
}

// The caller waits for a loader that loads nothing, and then behind another writer: both waits are within one maximum wait. The masters are
// farther from it than from the writers, so the second one has the lock before it when it has read.
func TestDo_maxWait_boundsBothWaits(t *testing.T) {
	const wait, load, inTime = 2 * time.Second, 100 * time.Millisecond, 1950 * time.Millisecond
	for _, tc := range []struct {
		name             string
		slow             time.Duration // what a read under the lock takes
		leaves           time.Duration // when the second writer does; 0: there is none
		want             error
		earliest, latest time.Duration
	}{
		{"the second writer stays", 0, 3 * wait, redlock.ErrHeld, wait, wait + 100*time.Millisecond},
		{"the second writer leaves in time", 0, inTime, nil, inTime + load, wait + load},
		{"nothing is left after the read, and the second writer stays", 200 * time.Millisecond, 3 * wait, redlock.ErrHeld, wait, wait + 200*time.Millisecond},
		{"nothing is left after the read, and the lock is free", 200 * time.Millisecond, 0, nil, wait + 200*time.Millisecond + load, wait + 400*time.Millisecond + load},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				masters := simtest.New(3)
				a, first, next := away(t, masters, 200*time.Microsecond), away(t, masters, 0), away(t, masters, 0)
				s, began := &store{}, time.Now()
				writes := func(c *redlock.Client, leaves time.Duration) {
					lease, err := c.RWMutex("x").Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					time.AfterFunc(leaves-time.Since(began), func() { _ = lease.Unlock(t.Context()) })
				}
				writes(first, 1900*time.Millisecond)
				if tc.leaves > 0 {
					time.AfterFunc(500*time.Millisecond, func() { writes(next, tc.leaves) })
				}
				read := func(ctx context.Context) (string, bool, error) {
					if time.Since(began) > time.Second {
						time.Sleep(tc.slow)
					}
					return s.read(ctx)
				}
				_, err := flight.Do(t.Context(), a, "x", read, s.load, redlock.WithMaxWait(wait))
				took := time.Since(began)
				if !errors.Is(err, tc.want) || took < tc.earliest || took > tc.latest {
					t.Errorf("%v after %v, want %v", err, took, tc.want)
				}
				var round *redlock.RoundError
				if tc.want != nil && !errors.As(err, &round) {
					t.Errorf("no RoundError in %v", err)
				}
				time.Sleep(3 * wait) // the second writer has left
			})
		})
	}
}

// The maximum wait leaves too little for another round: a third of what is left behind the first one is less than a trip. The lock is held all the
// same, by a writer that stays.
func TestDo_noTimeForAnotherRound_heldIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 70 * time.Millisecond
		masters := simtest.New(3)
		mine, other := away(t, masters, 10*time.Millisecond), away(t, masters, 0)
		if _, err := other.RWMutex("x").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, began := &store{}, time.Now()
		_, err := flight.Do(t.Context(), mine, "x", s.read, s.load, redlock.WithMaxWait(wait))
		if took := time.Since(began); !errors.Is(err, redlock.ErrHeld) || took < wait || took > wait+100*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A caller that waited reads under the lock for so long that its lease is over. It has lost nothing that it needs: it goes on.
func TestDo_leaseLostWhileItReads_loads(t *testing.T) {
	const ttl = time.Second
	for what, slow := range map[string]func(ctx context.Context) error{
		"read does not mind":         func(context.Context) error { time.Sleep(2 * ttl); return nil },
		"read ends with its context": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, masters := redlocktest.New(t)
				writer, err := masters.Client().RWMutex("x").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(ttl, func() { _ = writer.Unlock(context.Background()) })
				s, reads := &store{}, 0
				read := func(ctx context.Context) (string, bool, error) {
					if reads++; reads == 2 { // the first one under the lock
						if err := slow(ctx); err != nil {
							return "", false, err
						}
					}
					return s.read(ctx)
				}
				got, err := flight.Do(t.Context(), c, "x", read, s.load, redlock.WithTTL(ttl), redlock.WithoutRenewal())
				if got != "loaded" || err != nil || reads != 3 || s.loads != 1 {
					t.Errorf("got %q, %v, after %d reads and %d loads", got, err, reads, s.loads)
				}
			})
		})
	}
}

func TestDo_badInputAndReadFails_told(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := redlocktest.New(t)
		s := &store{}
		var none context.Context
		reads := 0
		full := func(context.Context) (string, bool, error) { reads++; return "found", true, nil }
		for _, err := range []error{
			second(flight.Do(t.Context(), c, "", full, s.load)), // also where the value is there: else it is found on the day that it is not
			second(flight.Do(t.Context(), c, "x", full, s.load, redlock.WithTTL(-1))),
			second(flight.Do(t.Context(), c, "x", full, s.load, nil)),
			second(flight.Do(none, c, "x", s.read, s.load)),
			second(flight.Do(t.Context(), nil, "x", s.read, s.load)),
			second(flight.Do(t.Context(), c, "x", nil, s.load)),
			second(flight.Do(t.Context(), c, "x", s.read, nil)),
			second(flight.Do(t.Context(), c, "", s.read, s.load)),
		} {
			if !errors.Is(err, redlock.ErrConfig) {
				t.Errorf("got %v", err)
			}
		}
		if reads != 0 {
			t.Errorf("%d reads before the name and the options were looked at", reads)
		}
		broken := func(context.Context) (string, bool, error) { return "", false, errLoad }
		if _, err := flight.Do(t.Context(), c, "x", broken, s.load); !errors.Is(err, errLoad) || s.loads != 0 {
			t.Errorf("got %v, after %d loads", err, s.loads)
		}
	})
}

// A read under the lock fails, and says that it found something: the error counts, and what was found is not the value.
func TestDo_readUnderTheLockFailsAndFinds_errorIsTold(t *testing.T) {
	for what, held := range map[string]time.Duration{"the lock is free": 0, "another loads": time.Second} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, masters := redlocktest.New(t)
				if held > 0 {
					writer, err := masters.Client().RWMutex("x").Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(held, func() { _ = writer.Unlock(context.Background()) })
				}
				s, reads := &store{}, 0
				read := func(context.Context) (string, bool, error) {
					if reads++; reads == 1 {
						return "", false, nil
					}
					return "half", true, errLoad
				}
				if _, err := flight.Do(t.Context(), c, "x", read, s.load); !errors.Is(err, errLoad) || s.loads != 0 || reads != 2 {
					t.Errorf("%v, after %d reads and %d loads", err, reads, s.loads)
				}
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestDo_realMasters_oneLoads(t *testing.T) {
	masters := quorumtest.Start(t, 3)
	s := &store{}
	if values, _ := s.all(t, []*redlock.Client{masters.Open(), masters.Open()}); values != 8 || s.loads != 1 {
		t.Errorf("%d have it, after %d loads", values, s.loads)
	}
}
