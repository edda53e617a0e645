// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// wantHolder fails unless err has the round that saw holder, of the client with that label.
func wantHolder(t *testing.T, what string, err error, holder, owner string) {
	t.Helper()
	var round *redlock.RoundError
	switch {
	case !errors.As(err, &round):
		t.Errorf("%s: no RoundError in %v", what, err)
	case round.Holder != holder || round.Owner != owner:
		t.Errorf("%s: held by %q of %q, want %q of %q: %v", what, round.Holder, round.Owner, holder, owner, err)
	case owner != "" && !strings.Contains(err.Error(), "held by "+owner):
		t.Errorf("%s: %v", what, err)
	}
}

// A call that waited in vain says who had the lock, however it ended.
func TestLock_timeOver_saysWhoHasTheLock(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client(redlock.WithClientName("billing/1"))
		b, quiet := c.client(redlock.WithClientName("shop/1")), c.client()
		for _, by := range []*member{b, quiet} {
			for _, way := range by.Ways { // a trip of 2 ms
				way.SetFault(func(nodetest.Command) nodetest.Fault {
					return nodetest.Fault{Delay: time.Millisecond, ReplyDelay: time.Millisecond}
				})
			}
		}
		lease, write := mustLock(t, a.Mutex("x")), mustLock(t, a.RWMutex("rw"))
		bounded := func(lock func(context.Context) (*redlock.Lease, error)) error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := lock(ctx)
			if took := time.Since(start); took > 115*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			return err
		}
		for _, tc := range []struct {
			name, holder, owner string
			err, is             error
		}{
			{"Lock", lease.Holder(), "billing/1", bounded(b.Mutex("x").Lock), context.DeadlineExceeded},
			{"WithMaxWait", lease.Holder(), "billing/1", second(b.Mutex("x", redlock.WithMaxWait(100*time.Millisecond)).Lock(t.Context())), redlock.ErrHeld},
			{"TryLock", lease.Holder(), "billing/1", bounded(b.Mutex("x").TryLock), redlock.ErrHeld},
			{"RWMutex.Lock", write.Holder(), "billing/1", bounded(b.RWMutex("rw").Lock), context.DeadlineExceeded},
			{"RWMutex.RLock", write.Holder(), "billing/1", bounded(b.RWMutex("rw").RLock), context.DeadlineExceeded},
			{"Lock without a label", lease.Holder(), "billing/1", bounded(quiet.Mutex("x").Lock), context.DeadlineExceeded},
			{"WithMaxWait without a label", lease.Holder(), "billing/1", second(quiet.Mutex("x", redlock.WithMaxWait(100*time.Millisecond)).Lock(t.Context())), redlock.ErrHeld},
		} {
			wantErr(t, tc.err, tc.is)
			wantHolder(t, tc.name, tc.err, tc.holder, tc.owner)
			if tc.is == context.DeadlineExceeded && errors.Is(tc.err, redlock.ErrHeld) {
				t.Errorf("%s: %v is ErrHeld too", tc.name, tc.err)
			}
		}
		wantErr(t, bounded(func(ctx context.Context) (*redlock.Lease, error) { // a cancel
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err := b.Mutex("x").Lock(ctx)
			wantHolder(t, "cancelled", err, lease.Holder(), "billing/1")
			return nil, err
		}), context.Canceled)
	})
}

// Many callers of one process give up at the same moment. They ask together who has the lock.
func TestLock_manyGiveUp_askTogether(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(redlock.WithClientName("billing/1")), c.client(redlock.WithClientName("shop/1"))
		lease := mustLock(t, a.Mutex("x"))
		var asked atomic.Int64
		for _, way := range b.Ways {
			way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if cmd.Name == "inspect" {
					asked.Add(1)
				}
				return nodetest.Fault{Delay: time.Millisecond}
			})
		}
		const callers = 50
		errs := make(chan error, callers)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range callers {
			go func() { errs <- second(b.Mutex("x").Lock(ctx)) }()
			synctest.Wait()
		}
		for range callers {
			wantHolder(t, "Lock", <-errs, lease.Holder(), "billing/1")
		}
		if n := asked.Load(); n < 1 || n > 5*callers/5 {
			t.Errorf("%d masters were asked", n)
		}
	})
}

// Masters that do not answer the question for the label keep the caller for a moment only.
func TestLock_timeOverAndMastersSilent_returnsSoon(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(redlock.WithClientName("billing/1")), c.client(redlock.WithClientName("shop/1"))
		mustLock(t, a.Mutex("x"))
		b.faultOn("inspect", nodetest.Fault{Lose: nodetest.LoseCommand}, 0, 1, 2, 3, 4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := b.Mutex("x").Lock(ctx)
		wantHolder(t, "Lock", err, "", "")
		if took := time.Since(start); took > 1050*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		// Nothing is known before the first round.
		over, cancel := context.WithCancel(t.Context())
		cancel()
		var round *redlock.RoundError
		if _, err := b.Mutex("x").Lock(over); errors.As(err, &round) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// The maximum wait is over, and the caller gives up while the masters are asked who has the lock. The error is that of the
// caller's context, which has no deadline, and the Observer is told the same.
func TestMaxWait_cancelledWhileTheHolderIsNamed_isTheCallersOwn(t *testing.T) {
	const wait = 100 * time.Millisecond
	simulate(t, func(t *testing.T, c *cluster) {
		a := c.client()
		for _, name := range []string{"x", "a", "permits:slot:1", "permits:slot:2"} {
			mustLock(t, a.Mutex(name))
		}
		mustLock(t, a.RWMutex("rw"))
		var told []error
		observer := &event.Observer{Acquired: func(_ context.Context, e event.Acquire) {
			if e.Lock == "x" {
				told = append(told, e.Err)
			}
		}}
		for name := range undertakings(t, a.Client.Client) {
			if strings.Contains(name, "Try") || name == "minimum hold" || name == "Every.Do" {
				continue // these do not wait
			}
			b := c.client(redlock.WithMaxWait(wait), redlock.WithObserver(observer)) // a client that lost commands asks with care
			b.faultOn("inspect", nodetest.Fault{Lose: nodetest.LoseCommand}, 0, 1, 2, 3, 4)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(wait+5*time.Millisecond, func() { cancel(errStep) })
			err := undertakings(t, b.Client.Client)[name](ctx, func(context.Context, *redlock.Lease) error { t.Errorf("%s: it ran", name); return nil })
			wantCallersOwn(t, name, err, errStep)
			if round := (*redlock.RoundError)(nil); errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &round) {
				t.Errorf("%s: %v", name, err)
			}
			noErr(t, b.Close())
		}
		if len(told) != 1 {
			t.Fatalf("told %v", told)
		}
		wantCallersOwn(t, "Observer", told[0], errStep)
	})
}

// All masters are well, and some are farther away. A round is decided by the answers of a quorum, and a call that waited in vain calls no
// master silent whose answer came after that. The call behind it in the line of the process says the same.
func TestLock_timeOver_callsNoMasterSilentThatIsWell(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		for i, way := range b.Ways {
			way.SetFault(func(nodetest.Command) nodetest.Fault {
				return nodetest.Fault{Delay: time.Duration(i) * time.Millisecond, ReplyDelay: time.Duration(i) * time.Millisecond}
			})
		}
		limit := redlock.WithMaxWait(100 * time.Millisecond)
		for name, lock := range map[string]func(context.Context) (*redlock.Lease, error){
			"Lock": b.Mutex("x").Lock, "WithMaxWait": b.Mutex("x", limit).Lock, "RLock": b.RWMutex("x", limit).RLock,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			errs := make(chan error, 3)
			for range 3 {
				go func() { errs <- second(lock(ctx)) }()
			}
			for range 3 {
				var round *redlock.RoundError
				if err := <-errs; !errors.As(err, &round) || round.Unknown != 0 || round.Held != 5 {
					t.Errorf("%s: %v", name, err)
				}
			}
			cancel()
			synctest.Wait()
		}
		c.masters[4].Pause() // this one is silent
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		var round *redlock.RoundError
		if err := second(b.Mutex("x").Lock(ctx)); !errors.As(err, &round) || round.Unknown != 1 || round.Held != 4 {
			t.Errorf("with a silent master: %v", err)
		}
		c.masters[4].Resume()
		wantErr(t, lease.Unlock(t.Context()), nil)
	})
}

// Masters that recover decide a round, and those that have the lock for another answer after them. It is also what shows internal/lockorder that late
// answers are asked with the lines locked: without them that test is red, and this one is not.
func TestSim_lateAnswers_behindMastersThatRecover_areTold(t *testing.T) {
	simulateWith(t, 5, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		for _, way := range b.Ways[3:] {
			way.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Delay: time.Millisecond} })
		}
		for _, m := range c.masters[:3] {
			m.Flush()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		var round *redlock.RoundError
		if err := second(b.Mutex("x").Lock(ctx)); !errors.As(err, &round) || round.Held != 2 {
			t.Errorf("%v", err)
		}
		_ = lease.Unlock(t.Context())
	})
}

// The time of a caller that waits through an outage is over, and the next one gets the turn. What is counted as an outage is told as one: answers
// that came behind a round do not make it ErrHeld, for which a Lock without a maximum wait goes on waiting.
func TestSim_lateAnswers_outageStaysUnreachable(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client(redlock.WithNodeTimeout(50*time.Millisecond))
		mustLock(t, a.Mutex("x"))
		_, _ = b.Mutex("y").TryLock(t.Context())
		for _, way := range b.Ways {
			way.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{ReplyDelay: 60 * time.Millisecond} })
		}
		for end := 1300 * time.Millisecond; end < 1500*time.Millisecond; end += 7 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), end)
			go func() { _, _ = b.Mutex("x", redlock.WithOutageTimeout(time.Minute)).Lock(ctx) }()
			synctest.Wait()
			_, err := b.Mutex("x").Lock(t.Context())
			cancel()
			if !errors.Is(err, redlock.ErrUnreachable) {
				t.Errorf("behind a caller whose time is over after %v: %v", end, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// Masters that hang are named, and the node.Error of each is in the chain. Those that are down say so at once: they were not left too little time.
func TestUnreachable_namesEachMaster(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		hang := func(fault nodetest.Fault) {
			for _, way := range a.Ways {
				way.SetFault(func(nodetest.Command) nodetest.Fault { return fault })
			}
		}
		named := func(what string, err error) {
			t.Helper()
			var on *node.Error
			wantErr(t, err, redlock.ErrUnreachable)
			if !errors.As(err, &on) {
				t.Errorf("%s: no node.Error in %v", what, err)
			}
			for _, m := range c.masters {
				wantText(t, err, m.Name()+": ")
			}
		}
		hang(nodetest.Fault{ReplyDelay: 10 * time.Second})
		_, err := a.Mutex("x").TryLock(t.Context())
		named("masters hang", err)
		time.Sleep(time.Minute)
		hang(nodetest.Fault{})
		time.Sleep(time.Minute)
		for _, m := range c.masters {
			m.Crash()
		}
		time.Sleep(time.Second)
		short, cancel := context.WithTimeout(t.Context(), 8*time.Millisecond)
		defer cancel()
		_, err = a.Mutex("x").TryLock(short)
		named("masters are down", err)
		if strings.Contains(err.Error(), "time left them") {
			t.Error(err)
		}
		for _, m := range c.masters {
			m.Restart()
		}
		time.Sleep(time.Minute)
	})
}

// A client that waits for very many locks runs the rounds of further ones elsewhere. A lock that is free there is had without a wait.
func TestSim_freeLockBesideManyWaiters_doesNotWait(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		const many = 200
		waited := make(map[string]bool)
		a, b := c.client(), c.client(redlock.WithObserver(&event.Observer{
			Acquired: func(_ context.Context, e event.Acquire) {
				if strings.HasPrefix(e.Lock, "free") { // one call at a time
					waited[e.Lock] = e.Waited
				}
			},
		}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range many {
			name := fmt.Sprint("held", i)
			mustLock(t, a.Mutex(name))
			go func() { _, _ = b.Mutex(name).Lock(ctx) }()
		}
		synctest.Wait()
		for i := range 3 {
			name := fmt.Sprint("free", i)
			noErr(t, mustLock(t, b.Mutex(name)).Unlock(t.Context()))
			if is, told := waited[name]; is || !told {
				t.Errorf("%s: waited %v, told %v", name, is, told)
			}
		}
	})
}
