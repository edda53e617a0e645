// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// The masters are changed under a leader. Its term ends before anybody leads on the new list, the next token is larger, and an observer of
// the old list does not name the former leader then.
func TestTogether_electionOverAChangeOfMasters(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		first, second := []int{0, 1, 2}, []int{2, 3, 4}
		c.recovery = true
		list, done := c.list(first...)
		noErr(t, admin.Init(t.Context(), list, nil, admin.NothingWasEverLocked))
		done()
		ctx, cancel := context.WithCancel(context.Background())
		type turn struct {
			token        int64
			began, ended time.Time
		}
		run := func(client *redlock.Client) (began chan *turn, out chan error) {
			began, out = make(chan *turn, 10), make(chan error, 1)
			go func() {
				out <- election.New(client, "x").Run(ctx, func(ctx context.Context, term *election.Term) error {
					of := &turn{token: term.Token(), began: time.Now()}
					began <- of
					<-ctx.Done()
					of.ended = time.Now()
					return ctx.Err()
				})
			}()
			return began, out
		}
		oldTerms, oldOut := run(c.on(first...))
		old := <-oldTerms
		watch := c.on(first...)
		l, err := election.New(watch, "x").Leader(t.Context())
		noErr(t, err)
		if l.Token != old.token {
			t.Errorf("%d leads, want %d", l.Token, old.token)
		}
		c.reconfigure(first, second)
		next := c.on(second...)
		newTerms, newOut := run(next)
		now := <-newTerms
		synctest.Wait()
		if old.ended.IsZero() || old.ended.After(now.began) || now.token <= old.token {
			t.Errorf("the old term %+v, the new one %+v", old, now)
		}
		time.Sleep(time.Minute)
		if len(oldTerms) > 0 {
			t.Error("a term on the old list")
		}
		if l, err := election.New(watch, "x").Leader(t.Context()); err == nil {
			t.Errorf("an observer of the old list says %d leads", l.Token)
		}
		l, err = election.New(next, "x").Leader(t.Context())
		noErr(t, err)
		if l.Token != now.token {
			t.Errorf("%d leads, want %d", l.Token, now.token)
		}
		cancel()
		if <-oldOut == nil || <-newOut == nil {
			t.Error("Run returned nil")
		}
		c.nothingLeft()
	})
}

// The client is shut down in the middle of a run. Shutdown takes the lock away at once, Do says so, and the period holds: nobody runs
// the job before it is over, although the lock was given back.
func TestTogether_everyAndShutdown(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, other := c.client(), c.client()
		const period = 5 * time.Minute
		begun := time.Now()
		did := make(chan error, 1)
		go func() {
			ran, err := one.Every("job", period).Do(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
				<-ctx.Done()
				return nil
			})
			if !ran {
				t.Error("did not run")
			}
			did <- err
		}()
		time.Sleep(time.Second)
		wantErr(t, one.Shutdown(ended(t)), context.Canceled)
		err := <-did
		wantErr(t, err, redlock.ErrLost)
		wantErr(t, err, redlock.ErrClosed)
		c.wantVotes("job", "", 5)
		for {
			ran, err := other.Every("job", period).Do(t.Context(), func(context.Context, *redlock.Lease) error { return nil })
			noErr(t, err)
			if ran {
				break
			}
			time.Sleep(time.Second)
		}
		if gap := time.Since(begun); gap < period || gap > period+2*time.Second {
			t.Errorf("the next run is after %v", gap)
		}
	})
}

// What status says, and doctor with it, is of one namespace: the list of each namespace has its own state on the same masters.
func TestTogether_namespacesAndStatus(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		standing := func(ns string) admin.Standing {
			list, done := c.list(0, 1, 2)
			defer done()
			if ns != "" {
				list.Options = append(list.Options, redlock.WithNamespace(ns))
			}
			s, err := admin.ReadStatus(t.Context(), list)
			noErr(t, err)
			return s.Standing
		}
		want := func(a, b, none admin.Standing) {
			t.Helper()
			for ns, want := range map[string]admin.Standing{"a": a, "b": b, "": none} {
				if got := standing(ns); got != want {
					t.Errorf("namespace %q: %v, want %v", ns, got, want)
				}
			}
		}
		c.init(redlock.WithNamespace("a"))
		want(admin.AllVote, admin.NeedsInit, admin.NeedsInit)
		held := mustLock(t, c.client(redlock.WithNamespace("a")).Mutex("x"))
		c.init(redlock.WithNamespace("b"))
		want(admin.AllVote, admin.AllVote, admin.NeedsInit)
		noErr(t, held.Err())
		noErr(t, held.Unlock(t.Context()))
	})
}

// The context of a lease is of its client: within a lock of one namespace the lock of the same name in another is another lock. It needs no WithReentry,
// and each is given back by itself.
func TestTogether_namespacesAndReentry(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		for _, ns := range []string{"a", "b"} {
			c.init(redlock.WithNamespace(ns))
		}
		a, b := c.client(redlock.WithNamespace("a")), c.client(redlock.WithNamespace("b"))
		outer := mustLock(t, a.Mutex("x", redlock.WithReentry()))
		other, err := b.Mutex("x").Lock(outer.Context())
		noErr(t, err)
		again, err := a.Mutex("x", redlock.WithReentry()).Lock(other.Context())
		noErr(t, err)
		if again.Token() != outer.Token() || again.Holder() != outer.Holder() {
			t.Errorf("%s with token %d within %s with %d", again.Holder(), again.Token(), outer.Holder(), outer.Token())
		}
		noErr(t, outer.Unlock(t.Context()))
		taken := func(m *redlock.Mutex, want error) {
			t.Helper()
			l, err := m.TryLock(context.Background())
			wantErr(t, err, want)
			if err == nil {
				noErr(t, l.Unlock(t.Context()))
			}
		}
		taken(c.client(redlock.WithNamespace("a")).Mutex("x"), redlock.ErrHeld)
		noErr(t, again.Unlock(t.Context()))
		taken(c.client(redlock.WithNamespace("a")).Mutex("x"), nil)
		taken(c.client(redlock.WithNamespace("b")).Mutex("x"), redlock.ErrHeld)
		noErr(t, other.Unlock(t.Context()))
		taken(c.client(redlock.WithNamespace("b")).Mutex("x"), nil)
	})
}
