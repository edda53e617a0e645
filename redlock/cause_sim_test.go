// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// outcomes are the errors by which a call says what became of it.
var outcomes = []error{
	redlock.ErrHeld, redlock.ErrUnavailable, redlock.ErrUnreachable, redlock.ErrRefused, redlock.ErrRecovering, redlock.ErrNeedsInit, redlock.ErrNotReentrant,
	redlock.ErrLost, redlock.ErrReleased, redlock.ErrUnconfirmed, redlock.ErrNotHolder, redlock.ErrClosed, redlock.ErrConfig, redlock.ErrUpgrade, redlock.ErrUnfinished,
}

var errStep = errors.New("the first step failed")

// wantCallersOwn fails unless err is that of a context that was cancelled for the cause, and says nothing of another call.
func wantCallersOwn(t *testing.T, what string, err, cause error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("%s: %v, want %v: %v", what, err, context.Canceled, cause)
	}
	if errors.Is(cause, errStep) && !errors.Is(err, errStep) {
		t.Errorf("%s: %v is not %v", what, err, errStep)
	}
	for _, not := range outcomes {
		if errors.Is(err, not) {
			t.Errorf("%s: %v is also %v", what, err, not)
		}
	}
}

// wantNoRoundOf fails if the last round in err is of another lock.
func wantNoRoundOf(t *testing.T, lock, what string, err error) {
	t.Helper()
	var round *redlock.RoundError
	if errors.As(err, &round) && round.Name == lock {
		t.Errorf("%s: a round of %q in %v", what, lock, err)
	}
}

// elsewhere are errors of a lock that is held: that of a TryLock, that of a Lock whose own time is over, and that of a step of
// the program.
func elsewhere(t *testing.T, c *cluster) (held, over, step error) {
	t.Helper()
	a := c.client()
	mustLock(t, c.client().Mutex("other"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	held, over = second(a.Mutex("other").TryLock(t.Context())), second(a.Mutex("other").Lock(ctx))
	wantErr(t, held, redlock.ErrHeld)
	wantErr(t, over, context.DeadlineExceeded)
	return held, over, fmt.Errorf("%w: %w", errStep, held)
}

// Several goroutines have one context, as with an errgroup, and it ends with the error of one of them. That is not the outcome of
// what the others call: their locks are free.
func TestCause_ofAnotherCall_isNoOutcomeOfThisOne(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		held, over, step := elsewhere(t, c)
		var told sync.Map
		a := c.client(redlock.WithObserver(&event.Observer{Acquired: func(_ context.Context, e event.Acquire) { told.Store(e.Lock, e.Err) }}))
		lease := mustLock(t, a.Mutex("mine"))
		for _, cause := range []error{held, over, step, redlock.ErrRecovering, redlock.ErrLost, redlock.ErrReleased, redlock.ErrClosed} {
			told.Clear()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			for name, do := range undertakings(t, a.Client.Client) {
				err := do(ctx, func(context.Context, *redlock.Lease) error { t.Errorf("%s: it ran", name); return nil })
				wantCallersOwn(t, name, err, cause)
				wantNoRoundOf(t, "other", name, err)
			}
			free := a.Mutex("free")
			for name, err := range map[string]error{
				"Lock": second(free.Lock(ctx)), "TryLock": second(free.TryLock(ctx)), "Reenter": second(lease.Reenter(ctx)),
				"WithMaxWait": second(a.Mutex("free", redlock.WithMaxWait(time.Hour)).Lock(ctx)),
				"Inspect":     second(a.Inspect(ctx, "free")), "ForceUnlock": a.ForceUnlock(ctx, "free", "x"), "Locks": atEnd(a.Locks(ctx, "")),
				"flight.Do": second(flight.Do(ctx, a.Client.Client, "free", func(context.Context) (int, bool, error) { return 0, false, nil },
					func(context.Context) (int, error) { return 0, nil })),
				"Election.Run":    election.New(a.Client.Client, "free").Run(ctx, func(context.Context, *election.Term) error { return nil }),
				"Election.Leader": second(election.New(a.Client.Client, "free").Leader(ctx)),
			} {
				wantCallersOwn(t, name, err, cause)
			}
			told.Range(func(lock, err any) bool {
				wantCallersOwn(t, fmt.Sprint("Observer of ", lock), err.(error), cause)
				wantNoRoundOf(t, "other", fmt.Sprint("Observer of ", lock), err.(error))
				return true
			})
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// The context ends while the call is under way. The last round in the error is of the lock that the call is for.
func TestCause_meanwhile_isNoOutcomeOfThisOne(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		held, over, step := elsewhere(t, c)
		a := c.client()
		for _, name := range []string{"x", "a", "permits:slot:1", "permits:slot:2"} {
			mustLock(t, c.client().Mutex(name))
		}
		mustLock(t, c.client().RWMutex("rw"))
		lease := mustLock(t, a.Mutex("mine"))
		calls := undertakings(t, a.Client.Client)
		maps.DeleteFunc(calls, func(name string, _ func(context.Context, work) error) bool {
			return strings.Contains(name, "Try") || name == "minimum hold" || name == "Every.Do" // these do not wait
		})
		calls["Election.Run"] = under(election.New(a.Client.Client, "x").Run)
		calls["Extend"] = func(ctx context.Context, _ work) error { return lease.Extend(ctx) }
		a.faultOn("extend", nodetest.Fault{Delay: 50 * time.Millisecond}, 0, 1, 2, 3, 4)
		for _, cause := range []error{held, over, step, redlock.ErrUnreachable, redlock.ErrLost} {
			for name, do := range calls {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
				err := do(ctx, func(context.Context, *redlock.Lease) error { t.Errorf("%s: it ran", name); return nil })
				wantCallersOwn(t, name, err, cause)
				wantNoRoundOf(t, "other", name, err)
			}
		}
		a.heal()
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// Shutdown says that its time is over, and not that a release was not confirmed.
func TestCause_ofShutdownsContext_isNoOutcome(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		mustLock(t, a.Mutex("x"))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(redlock.ErrUnconfirmed)
		wantCallersOwn(t, "Shutdown", a.Shutdown(ctx), redlock.ErrUnconfirmed)
	})
}

// What was not confirmed in the caller's time says why that ended, and nothing of another call.
func TestCause_ofARelease_isInTheError(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		for _, cause := range []error{errStep, fmt.Errorf("%w: %w", errStep, redlock.ErrHeld)} {
			for name, do := range map[string]func(ctx context.Context, lease *redlock.Lease) error{
				"Unlock":      func(ctx context.Context, lease *redlock.Lease) error { return lease.Unlock(ctx) },
				"ForceUnlock": func(ctx context.Context, lease *redlock.Lease) error { return a.ForceUnlock(ctx, "x", lease.Holder()) },
			} {
				lease := mustLock(t, a.Mutex("x"))
				a.faultOn("release", nodetest.Fault{Delay: 50 * time.Millisecond}, 0, 1, 2, 3, 4)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
				err := do(ctx, lease)
				if !errors.Is(err, redlock.ErrUnconfirmed) || !errors.Is(err, context.Canceled) || !errors.Is(err, errStep) || errors.Is(err, redlock.ErrHeld) {
					t.Errorf("%s, ended by %v: %v", name, cause, err)
				}
				a.heal()
				_ = lease.Unlock(t.Context())
				time.Sleep(time.Second)
			}
		}
	})
}

// Resign does not wait for a function longer than its caller does, and says why that one went.
func TestCause_ofResign_isInTheError(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		e := election.New(c.client().Client.Client, "x")
		leads, done := make(chan struct{}), make(chan struct{})
		term, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(term, func(context.Context, *election.Term) error {
				close(leads)
				<-done
				return nil
			})
		}()
		<-leads
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStep)
		if err := e.Resign(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, errStep) {
			t.Error(err)
		}
		end()
		close(done)
		<-ended
	})
}
