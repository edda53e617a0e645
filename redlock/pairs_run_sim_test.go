// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// The lock of a job is forced in the middle of a run. The run is told and comes back with ErrLost, another may run at once, and the period
// of that one is not cut short by the first, which ends later.
func TestTogether_forceARunOfEvery(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, other, third, operator := c.client(), c.client(), c.client(), c.client()
		const period = 5 * time.Minute
		did := make(chan error, 1)
		go func() {
			_, err := one.Every("job", period).Do(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
				<-ctx.Done()
				time.Sleep(30 * time.Second) // it cleans up
				return nil
			})
			did <- err
		}()
		time.Sleep(time.Second)
		operator.forced(t, "job")
		var second time.Time
		ran, err := other.Every("job", period).Do(t.Context(), func(context.Context, *redlock.Lease) error {
			second = time.Now()
			return nil
		})
		noErr(t, err)
		if !ran {
			t.Fatal("a job that was forced does not run again")
		}
		wantErr(t, <-did, redlock.ErrLost)
		for {
			ran, err := third.Every("job", period).Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil })
			noErr(t, err)
			if ran {
				break
			}
			time.Sleep(time.Second)
		}
		if gap := time.Since(second); gap < period || gap > period+2*time.Second {
			t.Errorf("the next run is after %v", gap)
		}
	})
}

// The lock of an election rests for a while after each term: whoever resigns, nobody leads before that, and then another does.
func TestTogether_electionWithAMinimumHold(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		const least = time.Minute
		terms := make(chan time.Time, 10)
		ctx, cancel := context.WithCancel(context.Background())
		out := make(chan error, 2)
		for range cap(out) {
			e := election.New(c.client().Client.Client, "x", election.WithLock(redlock.WithMinHold(least)))
			go func() {
				out <- e.Run(ctx, func(context.Context, *election.Term) error {
					terms <- time.Now()
					time.Sleep(time.Second)
					return nil // resigns
				})
			}()
		}
		last := <-terms
		for range 4 {
			next := <-terms
			if gap := next.Sub(last); gap < least || gap > least+5*time.Second {
				t.Errorf("a term after %v", gap)
			}
			last = next
		}
		cancel()
		for range cap(out) {
			<-out
		}
		time.Sleep(least)
		c.nothingLeft()
	})
}

// The time of a leader is over while it announces itself: its caller gives up, its client is shut down, or it resigns. Its function never runs,
// so nobody served the term, and the lock does not rest for it.
func TestTogether_electionWithAMinimumHold_unservedTermDoesNotRest(t *testing.T) {
	for what, over := range map[string]func(one *member, e *election.Election, cancel func()) error{
		"cancelled": func(_ *member, _ *election.Election, cancel func()) error { cancel(); return nil },
		"shut down": func(one *member, _ *election.Election, _ func()) error { return one.Shutdown(context.Background()) },
		"resigned":  func(_ *member, e *election.Election, _ func()) error { return e.Resign(context.Background()) },
	} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			one, other := c.client(), c.client()
			one.faultOn("announce", nodetest.Fault{Delay: 50 * time.Millisecond}, everybody...)
			e := election.New(one.Client.Client, "x", election.WithPause(time.Hour), election.WithLock(redlock.WithMinHold(time.Hour)))
			ctx, cancel := context.WithCancel(context.Background())
			out, led := make(chan error, 2), make(chan int64, 1)
			go func() {
				out <- e.Run(ctx, func(context.Context, *election.Term) error {
					t.Errorf("%s: the function ran", what)
					return nil
				})
			}()
			time.Sleep(20 * time.Millisecond)
			noErr(t, over(one, e, cancel))
			next, stop := context.WithCancel(context.Background())
			go func() {
				out <- election.New(other.Client.Client, "x").Run(next, func(ctx context.Context, term *election.Term) error {
					led <- term.Token()
					<-ctx.Done()
					return nil
				})
			}()
			select {
			case <-led:
			case <-time.After(time.Second):
				t.Errorf("%s: nobody leads a second later", what)
			}
			cancel()
			stop()
			for range cap(out) {
				<-out
			}
			c.nothingLeft()
		})
	}
}

// The leader enters its own lock again, by its term's context. The term ends, and another leads only when that was given back, too.
func TestTogether_electionAndReentry(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		leader, other := c.client().Client.Client, c.client().Client.Client
		ctx, cancel := context.WithCancel(context.Background())
		out := make(chan error, 2)
		entered := make(chan *redlock.Lease, 1)
		go func() {
			out <- election.New(leader, "x", election.WithLock(redlock.WithReentry()), election.WithPause(time.Hour)).Run(ctx, func(ctx context.Context, term *election.Term) error {
				lease, err := leader.Mutex("x", redlock.WithReentry()).Lock(ctx)
				noErr(t, err)
				if lease.Token() != term.Token() {
					t.Errorf("token %d within a term of %d", lease.Token(), term.Token())
				}
				entered <- lease
				return nil
			})
		}()
		again := <-entered
		led := make(chan int64, 1)
		go func() {
			out <- election.New(other, "x").Run(ctx, func(ctx context.Context, term *election.Term) error {
				led <- term.Token()
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(3 * redlock.DefaultTTL)
		noErr(t, again.Err())
		if len(led) > 0 {
			t.Error("another leads while the lock is held")
		}
		gaveBack := time.Now()
		noErr(t, again.Unlock(t.Context()))
		if token, took := <-led, time.Since(gaveBack); token <= again.Token() || took > time.Second {
			t.Errorf("it leads with token %d after %d, after %v", token, again.Token(), took)
		}
		cancel()
		<-out
		<-out
		c.nothingLeft()
	})
}

// A leader campaigns within its own term and leads there. When that is over, observers still find the leader.
func TestTogether_electionWithinItsTerm(t *testing.T) {
	for what, within := range map[string]func(ctx context.Context, outer *election.Term) context.Context{
		"the function's context": func(ctx context.Context, _ *election.Term) context.Context { return ctx },
		"Term.Context":           func(_ context.Context, outer *election.Term) context.Context { return outer.Context() },
	} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			leader, observer := c.client().Client.Client, election.New(c.client().Client.Client, "x")
			named := func(when string) {
				t.Helper()
				if says, err := observer.Leader(t.Context()); err != nil || says.Value != "outer" {
					t.Errorf("with %s, %s: the leader is %v, %v", what, when, says, err)
				}
			}
			again := func(value string) *election.Election {
				return election.New(leader, "x", election.WithValue(value), election.WithLock(redlock.WithReentry()))
			}
			done := errors.New("done")
			err := again("outer").Run(t.Context(), func(ctx context.Context, outer *election.Term) error {
				for range 2 { // the second finds what the first left
					err := again("inner").Run(within(ctx, outer), func(_ context.Context, inner *election.Term) error {
						if inner.Token() != outer.Token() {
							t.Errorf("token %d within %d", inner.Token(), outer.Token())
						}
						named("within")
						return done
					})
					wantErr(t, err, done)
					named("after it")
				}
				time.Sleep(time.Second)
				named("a second later")
				return done
			})
			wantErr(t, err, done)
			time.Sleep(time.Second)
			if _, err := observer.Leader(t.Context()); !errors.Is(err, election.ErrNoLeader) {
				t.Errorf("after the term: %v", err)
			}
			c.nothingLeft()
		})
	}
}

// A lock that is held is entered again by terms, one after the other. Each of them is announced, as the lock alone is not.
func TestTogether_electionWithinALease_eachTermIsAnnounced(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		leader, observer := c.client().Client.Client, election.New(c.client().Client.Client, "x")
		lease := mustLock(t, leader.Mutex("x"))
		done := errors.New("done")
		for _, value := range []string{"first", "second"} {
			e := election.New(leader, "x", election.WithValue(value), election.WithLock(redlock.WithReentry()))
			err := e.Run(lease.Context(), func(context.Context, *election.Term) error {
				if says, err := observer.Leader(t.Context()); err != nil || says.Value != value {
					t.Errorf("the leader is %v, %v, want %s", says, err, value)
				}
				return done
			})
			wantErr(t, err, done)
			time.Sleep(time.Second)
			if _, err := observer.Leader(t.Context()); !errors.Is(err, election.ErrNoLeader) {
				t.Errorf("after the %s term: %v", value, err)
			}
		}
		noErr(t, lease.Unlock(t.Context()))
		c.nothingLeft()
	})
}

// A load that loads the same thing again is refused, where it would wait for itself. With WithReentry it loads within its own load, and others still have to
// wait for the outer one.
func TestTogether_flightAndReentry(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client().Client.Client, c.client().Client.Client
		missing := func(context.Context) (string, bool, error) { return "", false, nil }
		within := func(opts ...redlock.LockOption) (string, error) {
			return flight.Do(t.Context(), one, "x", missing, func(ctx context.Context) (string, error) {
				return flight.Do(ctx, one, "x", missing, func(context.Context) (string, error) {
					_, err := other.RWMutex("x").Locker().TryLock(context.Background())
					wantErr(t, err, redlock.ErrHeld)
					return "inner", nil
				}, opts...)
			}, opts...)
		}
		began := time.Now()
		_, err := within()
		wantErr(t, err, redlock.ErrNotReentrant)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it was refused after %v", took)
		}
		got, err := within(redlock.WithReentry())
		noErr(t, err)
		if got != "inner" {
			t.Errorf("loaded %q", got)
		}
		c.nothingLeft()
	})
}

// The client of a loader is shut down: the load is told and fails, the client loads nothing more, and another loads at once.
func TestTogether_flightAndShutdown(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client().Client.Client, c.client().Client.Client
		missing := func(context.Context) (string, bool, error) { return "", false, nil }
		began := make(chan struct{})
		did := make(chan error, 1)
		go func() {
			_, err := flight.Do(context.Background(), one, "x", missing, func(ctx context.Context) (string, error) {
				close(began)
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			did <- err
		}()
		<-began
		wantErr(t, one.Shutdown(ended(t)), context.Canceled)
		err := <-did
		wantErr(t, err, redlock.ErrLost)
		wantErr(t, err, redlock.ErrClosed)
		_, err = flight.Do(t.Context(), one, "x", missing, func(context.Context) (string, error) {
			return "", errors.New("loaded by a client that is shut down")
		})
		wantErr(t, err, redlock.ErrClosed)
		start := time.Now()
		v, err := flight.Do(t.Context(), other, "x", missing, func(context.Context) (string, error) { return "loaded", nil })
		noErr(t, err)
		if took := time.Since(start); v != "loaded" || took > time.Second {
			t.Errorf("%q after %v", v, took)
		}
		c.nothingLeft()
	})
}

// While a voucher travels the lock is taken, inspect shows one holder and who waits, and a list has the lock. After Adopt they show the adopter.
func TestTogether_transferAndInspect(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		giver, heir, watch, waiter := c.client(), c.client(), c.client(), c.client()
		lists := func(holder string) {
			t.Helper()
			var names []string
			for in, err := range watch.Locks(t.Context(), "") {
				noErr(t, err)
				names = append(names, in.Name)
				if len(in.Holders) != 1 || in.Holders[0].ID != holder {
					t.Errorf("list: %+v, want the holder %s", in, holder)
				}
			}
			if !slices.Equal(names, []string{"x"}) {
				t.Errorf("listed: %q", names)
			}
		}
		lease := mustLock(t, giver.Mutex("x"))
		voucher := handedOff(t, lease)
		got := make(chan *redlock.Lease, 1)
		go func() {
			l, err := waiter.Mutex("x").Lock(context.Background())
			noErr(t, err)
			got <- l
		}()
		time.Sleep(time.Second)
		in, err := watch.Inspect(t.Context(), "x")
		noErr(t, err)
		if len(in.Holders) != 1 || in.Free || len(in.Waiters) != 1 {
			t.Fatalf("while it travels: %+v", in)
		}
		lists(in.Holders[0].ID)
		adopted, err := heir.Adopt(t.Context(), voucher)
		noErr(t, err)
		in, err = watch.Inspect(t.Context(), "x")
		noErr(t, err)
		if len(in.Holders) != 1 || in.Holders[0].ID != adopted.Holder() || in.Holders[0].Votes < in.Quorum || adopted.Token() <= lease.Token() {
			t.Errorf("adopted by %s with token %d after %d: %+v", adopted.Holder(), adopted.Token(), lease.Token(), in)
		}
		lists(adopted.Holder())
		noErr(t, adopted.Unlock(t.Context()))
		next := <-got
		if next.Token() <= adopted.Token() {
			t.Errorf("token %d after %d", next.Token(), adopted.Token())
		}
		noErr(t, next.Unlock(t.Context()))
		c.nothingLeft()
	})
}
