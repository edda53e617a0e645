// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
	"github.com/redlock-go/redlock/semaphore"
)

// Shutdown waits for the holder, who can do with its lease what it could before. Nothing new is granted.
func TestShutdown_waitsForHolders_grantsNothingNew(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease, theirs := mustLock(t, a.Mutex("x")), mustLock(t, b.Mutex("y"))
		waiter := make(chan error, 1)
		go func() {
			_, err := a.Mutex("y").Lock(context.Background())
			waiter <- err
		}()
		time.Sleep(time.Second)
		shut, began := make(chan error, 1), time.Now()
		go func() { shut <- a.Shutdown(t.Context()) }()
		wantErr(t, <-waiter, redlock.ErrClosed)
		synctest.Wait()
		for name, do := range undertakings(t, a.Client.Client) {
			err := do(t.Context(), func(context.Context, *redlock.Lease) error { return errors.New("it ran") })
			if !errors.Is(err, redlock.ErrClosed) || !strings.Contains(err.Error(), "being shut down") {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantErr(t, a.Ready(), redlock.ErrClosed)
		time.Sleep(20 * time.Second) // the lease is renewed meanwhile
		wantErr(t, lease.Extend(t.Context()), nil)
		inner, err := lease.Reenter(t.Context())
		wantErr(t, err, nil)
		in, err := a.Inspect(t.Context(), "x")
		if err != nil || len(in.Holders) != 1 {
			t.Errorf("%v, %v", in, err)
		}
		wantErr(t, inner.Unlock(t.Context()), nil)
		wantErr(t, lease.Unlock(t.Context()), nil)
		wantErr(t, <-shut, nil)
		if took := time.Since(began); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("it took %v", took)
		}
		c.wantVotes("x", "", 5)
		wantErr(t, theirs.Unlock(t.Context()), nil)
		wantErr(t, a.Shutdown(t.Context()), nil)
		_, err = a.Inspect(t.Context(), "x")
		wantErr(t, err, redlock.ErrClosed)
	})
}

// When ctx ends, Shutdown gives back what is still held, so the next holder has it at once. Close does not.
func TestShutdown_ctxEnds_nextHolderDoesNotWaitForTheTTL(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(c *redlock.Client) error
		want error
		most time.Duration
	}{
		{"Shutdown", func(c *redlock.Client) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return c.Shutdown(ctx)
		}, context.DeadlineExceeded, 1100 * time.Millisecond},
		{"Shutdown at once", func(c *redlock.Client) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return c.Shutdown(ctx)
		}, context.Canceled, 100 * time.Millisecond},
		{"Close", (*redlock.Client).Close, nil, redlock.DefaultTTL},
	} {
		simulate(t, func(t *testing.T, c *cluster) {
			a, b := c.client(), c.client()
			lease, held := mustLock(t, a.Mutex("x")), lockAll(t, a, 300)
			next := make(chan error, 1)
			go func() { next <- second(b.Mutex("x").Lock(context.Background())) }()
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			if err := tc.end(a.Client.Client); !errors.Is(err, tc.want) || errors.Is(err, redlock.ErrUnconfirmed) {
				t.Errorf("%s: %v", tc.name, err)
			}
			wantErr(t, context.Cause(lease.Context()), redlock.ErrClosed)
			wantErr(t, <-next, nil)
			if took := time.Since(began); took > tc.most || tc.want == nil && took < 9*time.Second {
				t.Errorf("%s: the next holder waited %v", tc.name, took)
			}
			wantErr(t, lease.Unlock(t.Context()), redlock.ErrClosed)
			for _, l := range held {
				if tc.want != nil {
					c.wantVotes(l.Name(), "", 5)
					wantErr(t, l.Unlock(t.Context()), redlock.ErrLost)
				}
			}
		})
	}
}

// lockAll takes n locks.
func lockAll(t *testing.T, a *member, n int) (all []*redlock.Lease) {
	t.Helper()
	for i := range n {
		all = append(all, mustLock(t, a.Mutex(fmt.Sprint("more", i))))
	}
	return all
}

// Do's function goes on although Shutdown took its lock away: Do says that the lock was lost.
func TestShutdown_functionGoesOn_doSaysLost(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		for range 2 {
			err := a.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
				over, cancel := context.WithCancel(t.Context())
				cancel()
				wantErr(t, a.Shutdown(over), context.Canceled)
				wantErr(t, context.Cause(ctx), redlock.ErrClosed)
				return nil
			})
			wantErr(t, err, redlock.ErrLost)
			wantErr(t, err, redlock.ErrClosed)
			a = c.client()
		}
	})
}

// Masters that do not answer do not keep Shutdown for long, and it says what it could not do.
func TestShutdown_mastersGone_bounded(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		lockAll(t, a, 1000)
		for _, m := range c.masters[:3] {
			m.Pause()
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		err := a.Shutdown(over)
		wantErr(t, err, context.Canceled)
		wantErr(t, err, redlock.ErrUnconfirmed)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, m := range c.masters[:3] {
			m.Resume()
		}
	})
}

// A round that wins while Shutdown begins gives no lease, and leaves nothing behind.
func TestShutdown_roundUnderWay_givesNoLease(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		for i := range 5 {
			a.faultOn("acquire", nodetest.Fault{ReplyDelay: 20 * time.Millisecond}, i)
		}
		tried := make(chan error, 1)
		go func() { tried <- second(a.Mutex("x").TryLock(context.Background())) }()
		time.Sleep(10 * time.Millisecond)
		wantErr(t, a.Shutdown(t.Context()), nil)
		wantErr(t, <-tried, redlock.ErrClosed)
		time.Sleep(time.Second)
		c.wantVotes("x", "", 5)
	})
}

// Everything that waits or leads leaves, and Shutdown does not need its deadline.
func TestShutdown_whatStandsOnLocks_leaves(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		for _, name := range []string{"x", "permits:slot:1", "other"} {
			mustLock(t, b.Mutex(name))
		}
		permits := semaphore.New(a.Client.Client, "permits", 1)
		both := multilock.New(a.Mutex("x"), a.Mutex("free"))
		ends := make(chan error, 4)
		go func() { ends <- under(permits.Do)(context.Background(), nothing) }()
		go func() { ends <- under(both.Do)(context.Background(), nothing) }()
		go func() {
			ends <- election.New(a.Client.Client, "other").Run(context.Background(), func(context.Context, *election.Term) error { return nil })
		}()
		go func() {
			ends <- election.New(a.Client.Client, "leads").Run(context.Background(), func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				wantErr(t, context.Cause(ctx), redlock.ErrClosed)
				return ctx.Err()
			})
		}()
		time.Sleep(5 * time.Second)
		began := time.Now()
		wantErr(t, a.Shutdown(t.Context()), nil)
		for range cap(ends) {
			wantErr(t, <-ends, redlock.ErrClosed)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		c.wantVotes("leads", "", 5)
	})
}

func nothing(context.Context, *redlock.Lease) error { return nil }

// Close while Shutdown waits ends it, and two Shutdowns wait together.
func TestShutdown_twiceAndWithClose(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		lease := mustLock(t, a.Mutex("x"))
		ends := make(chan error, 2)
		for range 2 {
			go func() { ends <- a.Shutdown(context.Background()) }()
		}
		time.Sleep(time.Second)
		wantErr(t, lease.Err(), nil)
		wantErr(t, a.Close(), nil)
		wantErr(t, <-ends, redlock.ErrClosed)
		wantErr(t, <-ends, redlock.ErrClosed)
		wantErr(t, lease.Err(), redlock.ErrClosed)
	})
}

// While one Shutdown releases what is held, another closes nothing under it: it waits, and both say what was found. So does one that comes later.
func TestShutdown_anotherReleases_waitsForItAndSaysTheSame(t *testing.T) {
	for _, waits := range []bool{false, true} {
		simulate(t, func(t *testing.T, c *cluster) {
			a := c.client()
			held := lockAll(t, a, 300)
			for _, way := range a.Ways {
				way.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Delay: 20 * time.Millisecond} })
			}
			over, first := ended(t), make(chan error, 1)
			go func() { first <- a.Shutdown(over) }()
			synctest.Wait()
			ctx := over
			if waits {
				ctx = context.Background()
			}
			wantErr(t, a.Shutdown(ctx), context.Canceled)
			err := <-first
			if !errors.Is(err, context.Canceled) || errors.Is(err, redlock.ErrUnconfirmed) {
				t.Errorf("%v", err)
			}
			for _, l := range held {
				c.wantVotes(l.Name(), "", 5)
			}
			wantErr(t, a.Shutdown(t.Context()), context.Canceled)
		})
	}
}

// A Shutdown whose time is over closes no connection under an Unlock or a Transfer that has ended its lease, and sends what it releases a moment later.
func TestShutdown_unlockUnderWay_releaseIsSent(t *testing.T) {
	for name, giveBack := range map[string]func(l *redlock.Lease) error{
		"Unlock": func(l *redlock.Lease) error { return l.Unlock(context.Background()) },
		"Transfer": func(l *redlock.Lease) error { // of the masters that have the vote since the grant, which the fifth has not
			return second(l.Transfer(context.Background()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				var a *member
				shut := make(chan error, 1)
				a = c.client(redlock.WithObserver(&event.Observer{Ended: func(event.End) {
					go func() { shut <- a.Shutdown(ended(t)) }()
					time.Sleep(10 * time.Millisecond)
				}}))
				l := mustLock(t, a.Mutex("x"))
				c.masters[4].Do(func(db *nodetest.DB) { db.Del("x") })
				wantErr(t, l.Extend(t.Context()), nil) // puts the vote back
				synctest.Wait()
				wantErr(t, giveBack(l), nil)
				wantErr(t, <-shut, nil)
				if c.wantVotes("x", "", map[string]int{"Unlock": 5, "Transfer": 1}[name]); a.Stats().Held != 0 {
					t.Errorf("%d leases are held", a.Stats().Held)
				}
			})
		})
	}
}

// Ready says what a call for a lock would find, without one.
func TestReady_followsTheMasters(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		wantErr(t, a.Ready(), nil)
		for _, m := range c.masters[:2] {
			m.Crash()
		}
		time.Sleep(10 * time.Second)
		wantErr(t, a.Ready(), nil)
		c.masters[2].Pause()
		time.Sleep(10 * time.Second)
		err := a.Ready()
		wantErr(t, err, redlock.ErrUnreachable)
		for _, name := range []string{"m0", "m1", "m2"} {
			if !strings.Contains(err.Error(), name+":") {
				t.Errorf("%s is not in: %v", name, err)
			}
		}
		c.masters[2].Resume()
		time.Sleep(10 * time.Second)
		wantErr(t, a.Ready(), nil)
		for _, m := range c.masters[:3] {
			m.Crash()
			m.Flush()
			m.Restart()
		}
		time.Sleep(2 * time.Second)
		wantErr(t, a.Ready(), redlock.ErrRecovering)
		_, err = a.Mutex("x").TryLock(t.Context())
		wantErr(t, err, redlock.ErrRecovering)
		time.Sleep(redlock.DefaultMaxTTL + 5*time.Second)
		wantErr(t, a.Ready(), nil)
		wantErr(t, second(a.Mutex("x").TryLock(t.Context())), nil)
		synctest.Wait()
		sent := 0
		for _, n := range a.Ways {
			n.SetFault(func(nodetest.Command) nodetest.Fault { sent++; return nodetest.Fault{} })
		}
		for range 100 {
			wantErr(t, a.Ready(), nil)
		}
		if synctest.Wait(); sent != 0 {
			t.Errorf("%d commands", sent)
		}
	})
}

// unanswered is a client that has x, and has asked for y masters that answer nothing any more, until resume. Its Close takes a while.
func unanswered(t *testing.T, c *cluster) (a *member, resume func()) {
	a = c.client()
	mustLock(t, a.Mutex("x"))
	for _, m := range c.masters {
		m.Pause()
	}
	go func() { _, _ = a.Mutex("y").TryLock(context.Background()) }()
	time.Sleep(time.Millisecond)
	return a, func() {
		for _, m := range c.masters {
			m.Resume()
		}
	}
}

// Every Close returns when the client is closed, so a program may exit then: what was on its way to the masters was sent.
func TestClose_besideAnother_waitsForIt(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, resume := unanswered(t, c)
		defer resume()
		began, first := time.Now(), make(chan time.Duration, 1)
		go func() {
			_ = a.Close()
			first <- time.Since(began)
		}()
		time.Sleep(time.Millisecond)
		wantErr(t, a.Shutdown(t.Context()), nil)
		wantErr(t, a.Close(), nil)
		second := time.Since(began)
		if d := <-first; d < 10*time.Millisecond || second < d {
			t.Errorf("the first Close took %v, and the second returned after %v", d, second)
		}
	})
}

// A Shutdown that a Close overtakes returns when that is done: a program may end behind it.
func TestShutdown_closedMeanwhile_waitsForClose(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, resume := unanswered(t, c)
		defer resume()
		began, shut := time.Now(), make(chan time.Duration, 1)
		go func() {
			wantErr(t, a.Shutdown(context.Background()), redlock.ErrClosed) // it waits for the holder of x
			shut <- time.Since(began)
		}()
		time.Sleep(time.Millisecond)
		wantErr(t, a.Close(), nil)
		closed := time.Since(began)
		if d := <-shut; closed < 10*time.Millisecond || d < closed {
			t.Errorf("Close took %v, and Shutdown returned after %v", closed, d)
		}
	})
}

// A Close within another one does not wait for itself for ever: Observers must not call it, and some do.
func TestClose_withinAnother_returns(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		var a *member
		told := 0
		again := func() {
			told++
			wantErr(t, a.Close(), nil)
		}
		a = c.client(redlock.WithObserver(&event.Observer{Ended: func(event.End) { again() }, Closed: func(event.Client) { again() }}))
		for _, name := range []string{"x", "y", "z"} {
			mustLock(t, a.Mutex(name))
		}
		began := time.Now()
		wantErr(t, a.Close(), nil)
		if d := time.Since(began); told != 4 || d > 2*time.Second {
			t.Errorf("it took %v, and %d Observers were told", d, told)
		}
	})
}
