// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
	"github.com/redlock-go/redlock/semaphore"
)

// under is a Do of something else than a lock, as one of a lock. The work gets the lease that its context has, if there is one.
func under[H any](do func(context.Context, func(context.Context, H) error) error) func(context.Context, work) error {
	return func(ctx context.Context, fn work) error {
		return do(ctx, func(ctx context.Context, _ H) error { return fn(ctx, redlock.LeaseFrom(ctx)) })
	}
}

// tries is under for a TryDo.
func tries[H any](try func(context.Context, func(context.Context, H) error) (bool, error)) func(context.Context, work) (bool, error) {
	return func(ctx context.Context, fn work) (bool, error) {
		return try(ctx, func(ctx context.Context, _ H) error { return fn(ctx, redlock.LeaseFrom(ctx)) })
	}
}

// undertakings are all calls that run a function under a lock, by name.
func undertakings(t *testing.T, c *redlock.Client) map[string]func(context.Context, work) error {
	t.Helper()
	both := multilock.New(c.Mutex("a"), c.Mutex("b"))
	permits := semaphore.New(c, "permits", 2)
	m, rw := c.Mutex("x"), c.RWMutex("rw")
	return map[string]func(context.Context, work) error{
		"Mutex.Do": m.Do, "Mutex.TryDo": tried(m.TryDo), "RWMutex.Do": rw.Do, "RWMutex.TryDo": tried(rw.TryDo), "RWMutex.RDo": rw.RDo, "RWMutex.TryRDo": tried(rw.TryRDo),
		"RLocker.Do": rw.RLocker().Do, "minimum hold": c.Mutex("kept", redlock.WithMinHold(10*time.Second)).Do,
		"Every.Do": tried(c.Every("every", 10*time.Second).Do), "multilock.Do": under(both.Do), "multilock.TryDo": tried(tries(both.TryDo)),
		"Semaphore.Do": under(permits.Do), "Semaphore.TryDo": tried(tries(permits.TryDo)),
	}
}

// Without a fault the function's error comes back as it is: a caller may compare it.
func TestDo_functionFails_returnsItsErrorItself(t *testing.T) {
	failed := errors.New("failed")
	simulate(t, func(t *testing.T, c *cluster) {
		for name, do := range undertakings(t, c.client().Client.Client) {
			if err := do(t.Context(), func(context.Context, *redlock.Lease) error { return failed }); err != failed {
				t.Errorf("%s: a %T, %v", name, err, err)
			}
		}
	})
}

// A quorum of masters freezes while the function works: what it did is done, and Do says so. The release
// that nobody confirmed is told and logged.
func TestDo_releaseUnconfirmed_returnsTheFunctionsError(t *testing.T) {
	failed := errors.New("failed")
	simulate(t, func(t *testing.T, c *cluster) {
		var out syncBuffer
		var unconfirmed atomic.Int64
		told := &event.Observer{Unlocked: func(_ context.Context, e event.Unlock) {
			if errors.Is(e.Err, redlock.ErrUnconfirmed) {
				unconfirmed.Add(1)
			}
		}}
		a := c.client(redlock.WithLogger(slog.New(slog.NewTextHandler(&out, nil))), redlock.WithObserver(told))
		for name, do := range undertakings(t, a.Client.Client) {
			for _, want := range []error{nil, failed} {
				before := unconfirmed.Load()
				err := do(t.Context(), func(context.Context, *redlock.Lease) error {
					for _, m := range c.masters[:3] {
						m.Pause()
					}
					return want
				})
				if fmt.Sprint(err) != fmt.Sprint(want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
				if unconfirmed.Load() == before {
					t.Errorf("%s: no Observer was told of the release", name)
				}
				for _, m := range c.masters[:3] {
					m.Resume()
				}
				time.Sleep(30 * time.Second) // all votes are over
			}
		}
		if got := out.String(); !strings.Contains(got, `level=WARN msg="redlock: a release is not confirmed" lock=`) {
			t.Errorf("the log:\n%.2000s", got)
		}
	})
}

// A lease that is lost while the function works is reported, whatever the function returns.
func TestDo_lost_isJoined(t *testing.T) {
	failed := errors.New("failed")
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		for name, do := range undertakings(t, a.Client.Client) {
			for _, want := range []error{nil, failed} {
				err := do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
					for _, m := range c.masters {
						m.Flush()
					}
					<-ctx.Done()
					return want
				})
				wantErr(t, err, redlock.ErrLost)
				if !errors.Is(err, want) && want != nil {
					t.Errorf("%s: %v, want %v too", name, err, want)
				}
				time.Sleep(30 * time.Second)
			}
			err := do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
				for _, m := range c.masters {
					m.Flush()
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			wantErr(t, err, redlock.ErrLost)
			if n := strings.Count(err.Error(), redlock.ErrLost.Error()); n != 1 && !(strings.HasPrefix(name, "multilock") && n == 2) {
				t.Errorf("%s tells the loss %d times: %v", name, n, err)
			}
			time.Sleep(30 * time.Second)
		}
	})
}

// Two of five masters were down when the lock was taken, and one of the others lost its vote: no quorum had the votes when it was unlocked,
// and that is said, although only one master says that its vote is gone.
func TestUnlock_quorumGoneWithMastersThatWereDown_isLost(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		c.masters[3].Crash()
		c.masters[4].Crash()
		wantErr(t, mustLock(t, a.Mutex("warm")).Unlock(t.Context()), nil) // finds the connections broken
		time.Sleep(time.Second)
		forget := func() { noErr(t, c.masters[0].Do(func(db *nodetest.DB) { db.Del("x") })) }
		l := mustLock(t, a.Mutex("x"))
		forget()
		wantErr(t, l.Unlock(t.Context()), redlock.ErrLost)
		wantErr(t, a.Mutex("x").Do(t.Context(), func(context.Context, *redlock.Lease) error {
			synctest.Wait()
			forget()
			return nil
		}), redlock.ErrLost)
	})
}

// A function that hands its lease off has done its work: nothing is left to give back.
func TestDo_handsItsLeaseOff_returnsTheFunctionsError(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		ticket := ""
		handOff := func(ctx context.Context, lease *redlock.Lease) (err error) {
			ticket, err = lease.Transfer(context.WithoutCancel(ctx))
			return err
		}
		permits := semaphore.New(a.Client.Client, "permits", 1)
		for name, do := range map[string]func(context.Context, work) error{"Do": a.Mutex("x").Do, "TryDo": tried(a.Mutex("y").TryDo), "Semaphore.Do": under(permits.Do)} {
			if err := do(t.Context(), handOff); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			lease, err := b.Adopt(t.Context(), ticket)
			wantErr(t, err, nil)
			wantErr(t, lease.Unlock(t.Context()), nil)
		}
	})
}

// The client is closed while the function works. If the function returns while its lease is still valid
// nobody else can have had the lock. Later another may have it, and Do says that it was lost.
func TestDo_clientClosedMeanwhile_lostWhenValidityIsOver(t *testing.T) {
	for _, tc := range []struct {
		goesOn time.Duration
		lost   bool
	}{{time.Second, false}, {redlock.DefaultTTL, true}} {
		simulate(t, func(t *testing.T, c *cluster) {
			a := c.client()
			err := a.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
				_ = a.Close()
				wantErr(t, context.Cause(ctx), redlock.ErrClosed)
				time.Sleep(tc.goesOn)
				return nil
			})
			if tc.lost {
				wantErr(t, err, redlock.ErrLost)
				wantErr(t, err, redlock.ErrClosed)
			} else if err != nil {
				t.Errorf("after %v: %v", tc.goesOn, err)
			}
		})
	}
}

// The end of an election is the error of its function, or that of ctx, and says nothing of a release that
// was not confirmed.
func TestElectionRun_releaseUnconfirmed_returnsTheFunctionsError(t *testing.T) {
	failed := errors.New("failed")
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := election.New(a.Client.Client, "x").Run(ctx, func(context.Context, *election.Term) error {
			for _, m := range c.masters[:3] {
				m.Pause()
			}
			return failed
		})
		wantErr(t, err, failed)
		if errors.Is(err, redlock.ErrUnconfirmed) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// flight.Do returns the value that is there, or load's error, and nothing about the release.
func TestFlightDo_releaseUnconfirmed_returnsLoadsError(t *testing.T) {
	failed := errors.New("failed")
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		for _, want := range []error{nil, failed} {
			got, err := flight.Do(t.Context(), a.Client.Client, "x", func(context.Context) (int, bool, error) { return 0, false, nil },
				func(context.Context) (int, error) {
					for _, m := range c.masters[:3] {
						m.Pause()
					}
					return 7, want
				})
			if fmt.Sprint(err) != fmt.Sprint(want) || want == nil && got != 7 {
				t.Errorf("%d, %v, want %v", got, err, want)
			}
			for _, m := range c.masters[:3] {
				m.Resume()
			}
			time.Sleep(30 * time.Second)
			synctest.Wait()
		}
	})
}

// With a maximum wait, as a client's default, each call that waits returns what the masters said when that is over, and holds nothing.
func TestMaxWait_eachCallThatWaits_isBounded(t *testing.T) {
	const wait = 2 * time.Second
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(redlock.WithMaxWait(wait)), c.client()
		for _, name := range []string{"x", "a", "permits:slot:1", "permits:slot:2"} {
			mustLock(t, b.Mutex(name))
		}
		mustLock(t, b.RWMutex("rw"))
		for name, do := range undertakings(t, a.Client.Client) {
			if name == "minimum hold" || name == "Every.Do" {
				continue // these locks are free
			}
			start := time.Now()
			err := do(t.Context(), func(context.Context, *redlock.Lease) error { t.Errorf("%s: it ran", name); return nil })
			wantErr(t, err, redlock.ErrHeld)
			took := time.Since(start)
			if tries := strings.Contains(name, "Try"); tries && took > 100*time.Millisecond || !tries && (took < wait || took > wait+100*time.Millisecond) {
				t.Errorf("%s took %v", name, took)
			}
		}
		lease, err := a.Mutex("free").Lock(t.Context())
		wantErr(t, err, nil)
		if _, bounded := lease.Context().Deadline(); bounded {
			t.Error("the lease has the deadline of the wait")
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait/2)
		defer cancel()
		_, err = a.Mutex("x").Lock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		// The order of the queue is not that of a wait that has ended.
		_, err = a.Mutex("x", redlock.WithMaxWait(0)).TryLock(t.Context())
		wantErr(t, err, redlock.ErrHeld)
	})
}
