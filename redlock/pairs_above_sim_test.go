// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// forced forces whoever Inspect says has the lock, and returns its id.
func (m *member) forced(t *testing.T, lock string) (holder string) {
	t.Helper()
	in, err := m.Inspect(t.Context(), lock)
	noErr(t, err)
	if len(in.Holders) != 1 {
		t.Fatalf("%v", in)
	}
	noErr(t, m.ForceUnlock(t.Context(), lock, in.Holders[0].ID))
	return in.Holders[0].ID
}

// toldWithin is how long it takes at most until a holder that was forced knows.
const toldWithin = redlock.DefaultTTL/3 + time.Second

// An operator forces one of three locks that are held as one. The whole is over for its holder, who gives the other two back, and the
// next one, who waits for all three, has them all.
func TestTogether_multilockAndForce_held(t *testing.T) {
	for _, victim := range []string{"a", "b", "c"} {
		simulate(t, func(t *testing.T, c *cluster) {
			c.init()
			one, two, operator := c.client(), c.client(), c.client()
			of := func(m *member) *multilock.Lock { return multilock.New(m.Mutex("c"), m.Mutex("a"), m.Mutex("b")) }
			var forced, told time.Time
			tokens := map[string]int64{}
			did := make(chan error, 1)
			go func() {
				did <- of(one).Do(context.Background(), func(ctx context.Context, l *multilock.Lease) error {
					for _, m := range l.Members() {
						tokens[m.Name()] = m.Token()
					}
					<-ctx.Done()
					told = time.Now()
					return nil
				})
			}()
			time.Sleep(time.Second)
			got := make(chan *multilock.Lease, 1)
			go func() {
				l, err := of(two).Lock(context.Background())
				noErr(t, err)
				got <- l
			}()
			time.Sleep(time.Second)
			forced = time.Now()
			operator.forced(t, victim)
			wantErr(t, <-did, redlock.ErrLost)
			if took := told.Sub(forced); took > toldWithin {
				t.Errorf("told after %v", took)
			}
			l := <-got
			if took := time.Since(told); took > time.Second {
				t.Errorf("the next has all three %v after the former was told", took)
			}
			for _, m := range l.Members() {
				if m.Token() <= tokens[m.Name()] {
					t.Errorf("%s: token %d after %d", m.Name(), m.Token(), tokens[m.Name()])
				}
			}
			time.Sleep(20 * time.Second)
			wantErr(t, l.Err(), nil)
			noErr(t, l.Unlock(t.Context()))
			c.nothingLeft()
		})
	}
}

// A multi lock has two members and waits for the third. One of the two is forced, and another takes it. Lock never returns a lease of
// which a member is lost: it begins again, and has all three when both holders have gone.
func TestTogether_multilockAndForce_whileItWaits(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, two, operator := c.client(), c.client(), c.client()
		last := mustLock(t, two.Mutex("c"))
		got := make(chan *multilock.Lease, 1)
		go func() {
			l, err := multilock.New(one.Mutex("a"), one.Mutex("b"), one.Mutex("c")).Lock(context.Background())
			noErr(t, err)
			got <- l
		}()
		time.Sleep(time.Second)
		victim := operator.forced(t, "b")
		between := mustLock(t, two.Mutex("b"))
		time.Sleep(toldWithin)
		noErr(t, last.Unlock(t.Context()))
		time.Sleep(5 * time.Second)
		if len(got) > 0 {
			t.Fatal("all three, while another has one")
		}
		wantErr(t, between.Err(), nil)
		noErr(t, between.Unlock(t.Context()))
		l := <-got
		wantErr(t, l.Err(), nil)
		if b := l.Members()[1]; b.Token() <= between.Token() || b.Holder() == victim {
			t.Errorf("%s has b with token %d after %d", b.Holder(), b.Token(), between.Token())
		}
		time.Sleep(20 * time.Second)
		wantErr(t, l.Err(), nil)
		noErr(t, l.Unlock(t.Context()))
		c.nothingLeft()
	})
}

// A member of a multi lock is transferred. The whole is over for its holder at once, with the cause, and the adopter has that member alone.
func TestTogether_multilockAndTransfer(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		one, heir, other := c.client(), c.client(), c.client()
		l, err := multilock.New(one.Mutex("a"), one.Mutex("b")).Lock(t.Context())
		noErr(t, err)
		synctest.Wait()
		voucher := handedOff(t, l.Members()[0])
		synctest.Wait()
		wantErr(t, context.Cause(l.Context()), redlock.ErrReleased)
		adopted, err := heir.Adopt(t.Context(), voucher)
		noErr(t, err)
		_, err = other.Mutex("b").TryLock(t.Context())
		wantErr(t, err, redlock.ErrHeld) // until its holder gives it back
		wantErr(t, l.Unlock(t.Context()), redlock.ErrReleased)
		noErr(t, mustLock(t, other.Mutex("b")).Unlock(t.Context()))
		time.Sleep(20 * time.Second)
		wantErr(t, adopted.Err(), nil)
		noErr(t, adopted.Unlock(t.Context()))
		c.nothingLeft()
	})
}

// The loader of a flight is forced. Its load ends when it is told, one of those that wait loads instead, and no load begins beside
// another but in that time, which ForceUnlock speaks of.
func TestTogether_flightAndForce(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		clients, operator := []*member{c.client(), c.client(), c.client()}, c.client()
		var value atomic.Pointer[string]
		read := func(context.Context) (string, bool, error) {
			if v := value.Load(); v != nil {
				return *v, true, nil
			}
			return "", false, nil
		}
		var loads, inside atomic.Int64
		var forced, told time.Time
		errStuck := errors.New("stuck")
		load := func(ctx context.Context) (string, error) {
			inside.Add(1)
			defer inside.Add(-1)
			if loads.Add(1) == 1 { // the one that is stuck
				<-ctx.Done()
				told = time.Now()
				wantErr(t, context.Cause(ctx), redlock.ErrLost)
				return "", errStuck
			}
			time.Sleep(time.Minute)
			if ctx.Err() == nil && inside.Load() != 1 {
				t.Errorf("%d load at once", inside.Load())
			}
			v := "loaded"
			value.Store(&v)
			return v, nil
		}
		type result struct {
			value string
			err   error
		}
		results := make(chan result, len(clients))
		for _, m := range clients {
			go func() {
				v, err := flight.Do(context.Background(), m.Client.Client, "x", read, load)
				results <- result{v, err}
			}()
			time.Sleep(time.Second)
		}
		forced = time.Now()
		operator.forced(t, "x")
		lost := 0
		for range clients {
			if r := <-results; r.err != nil {
				wantErr(t, r.err, errStuck)
				wantErr(t, r.err, redlock.ErrLost)
				lost++
			} else if r.value != "loaded" {
				t.Errorf("%q", r.value)
			}
		}
		if took := told.Sub(forced); lost != 1 || loads.Load() != 2 || took > toldWithin {
			t.Errorf("%d lost, %d loads, told after %v", lost, loads.Load(), took)
		}
		c.nothingLeft()
	})
}

// A slot of a semaphore is forced while others wait. Its permit is told, the first waiter has a permit, and there are never more than k
// of those that were not taken away.
func TestTogether_semaphoreAndForce_slot(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		operator := c.client()
		const k = 2
		permits := func() *semaphore.Semaphore { return semaphore.New(c.client().Client.Client, "db", k) }
		var held []*semaphore.Permit
		for range k {
			p, err := permits().Acquire(t.Context())
			noErr(t, err)
			held = append(held, p)
		}
		type waited struct {
			i int
			p *semaphore.Permit
		}
		got := make(chan waited, 2)
		for i := range 2 {
			s := permits()
			go func() {
				p, err := s.Acquire(context.Background())
				noErr(t, err)
				got <- waited{i, p}
			}()
			time.Sleep(time.Second)
		}
		forced := time.Now()
		if victim := operator.forced(t, held[0].Name()); victim != held[0].Holder() {
			t.Fatalf("forced %s", victim)
		}
		next := <-got
		if took := time.Since(forced); next.i != 0 || next.p.Name() != held[0].Name() || next.p.Token() <= held[0].Token() || took > time.Second {
			t.Errorf("waiter %d has %s after %v, with token %d after %d", next.i, next.p.Name(), took, next.p.Token(), held[0].Token())
		}
		<-held[0].Context().Done()
		wantErr(t, held[0].Err(), redlock.ErrLost)
		if took := time.Since(forced); took > toldWithin {
			t.Errorf("told after %v", took)
		}
		wantErr(t, held[0].Release(t.Context()), redlock.ErrLost) // and takes nothing from the next
		time.Sleep(20 * time.Second)
		noErr(t, next.p.Err())
		noErr(t, held[1].Err())
		if len(got) > 0 {
			t.Error("a third permit")
		}
		noErr(t, held[1].Release(t.Context()))
		last := <-got
		noErr(t, last.p.Release(t.Context()))
		noErr(t, next.p.Release(t.Context()))
		c.nothingLeft()
	})
}

// The turn of the first waiter of a semaphore is forced, which no operator should do. Order may suffer. There are k permits, everybody is
// served, and nothing is left.
func TestTogether_semaphoreAndForce_turn(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		operator := c.client()
		held, err := semaphore.New(c.client().Client.Client, "db", 1).Acquire(t.Context())
		noErr(t, err)
		var inside atomic.Int64
		served := make(chan error, 3)
		for range cap(served) {
			s := semaphore.New(c.client().Client.Client, "db", 1)
			go func() {
				served <- s.Do(context.Background(), func(ctx context.Context, _ *semaphore.Permit) error {
					if n := inside.Add(1); n > 1 {
						t.Errorf("%d inside", n)
					}
					defer inside.Add(-1)
					time.Sleep(3 * time.Second)
					return ctx.Err()
				})
			}()
			time.Sleep(time.Second)
		}
		operator.forced(t, "db:turn")
		time.Sleep(10 * time.Second)
		if inside.Load() != 0 || held.Err() != nil {
			t.Errorf("%d inside beside the holder, %v", inside.Load(), held.Err())
		}
		noErr(t, held.Release(t.Context()))
		for range cap(served) {
			noErr(t, <-served)
		}
		c.nothingLeft()
	})
}

// A leader is forced. Another leads with a larger token, and observers say so; the former is told with its next extend, and
// campaigns again.
func TestTogether_electionAndForce(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		operator := c.client()
		ctx, cancel := context.WithCancel(context.Background())
		type term struct {
			who          int
			token        int64
			began, ended time.Time
		}
		terms, out := make(chan *term, 10), make(chan error, 2)
		for who := range cap(out) {
			e := election.New(c.client().Client.Client, "x", election.WithValue(fmt.Sprint(who)))
			go func() {
				out <- e.Run(ctx, func(ctx context.Context, now *election.Term) error {
					of := &term{who: who, token: now.Token(), began: time.Now()}
					terms <- of
					<-ctx.Done()
					of.ended = time.Now()
					return ctx.Err()
				})
			}()
			time.Sleep(time.Second)
		}
		first := <-terms
		watch := election.New(c.client().Client.Client, "x")
		leader := func() string {
			l, err := watch.Leader(t.Context())
			noErr(t, err)
			return fmt.Sprint(l.Value, " ", l.Token)
		}
		if got := leader(); got != fmt.Sprint(first.who, " ", first.token) {
			t.Errorf("%s leads", got)
		}
		forced := time.Now()
		operator.forced(t, "x")
		second := <-terms
		if took := time.Since(forced); second.who == first.who || second.token <= first.token || took > time.Second {
			t.Errorf("%d leads with token %d after %v", second.who, second.token, took)
		}
		time.Sleep(toldWithin)
		synctest.Wait()
		if took := first.ended.Sub(forced); first.ended.IsZero() || took > toldWithin {
			t.Errorf("the former was told after %v", took)
		}
		if got := leader(); got != fmt.Sprint(second.who, " ", second.token) {
			t.Errorf("%s leads", got)
		}
		operator.forced(t, "x") // and back: the former stood again
		third := <-terms
		if third.who != first.who || third.token <= second.token {
			t.Errorf("%d leads with token %d", third.who, third.token)
		}
		cancel()
		for range cap(out) {
			if err := <-out; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		c.nothingLeft()
	})
}

// The function of a leader transfers the lease of its term. Its term ends at once, the adopter has the lock and is no leader, and nobody
// leads beside it.
func TestTogether_electionAndTransfer(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		heir := c.client()
		ctx, cancel := context.WithCancel(context.Background())
		vouchers, began, out := make(chan string, 1), make(chan int64, 10), make(chan error, 2)
		for range cap(out) {
			e := election.New(c.client().Client.Client, "x")
			go func() {
				out <- e.Run(ctx, func(ctx context.Context, term *election.Term) error {
					began <- term.Token()
					if len(began) == 1 && cap(vouchers) > len(vouchers) {
						voucher, err := redlock.LeaseFrom(ctx).Transfer(context.WithoutCancel(ctx))
						noErr(t, err)
						vouchers <- voucher
					}
					<-ctx.Done()
					wantErr(t, ctx.Err(), context.Canceled)
					return ctx.Err()
				})
			}()
		}
		adopted, err := heir.Adopt(t.Context(), <-vouchers)
		noErr(t, err)
		first := <-began
		time.Sleep(30 * time.Second)
		wantErr(t, adopted.Err(), nil)
		if len(began) > 0 {
			t.Error("another leads, while an adopter has the lock")
		}
		_, err = election.New(heir.Client.Client, "x").Leader(t.Context())
		wantErr(t, err, election.ErrNoLeader)
		vouchers <- "no more"
		noErr(t, adopted.Unlock(t.Context()))
		if next := <-began; next <= adopted.Token() || adopted.Token() <= first {
			t.Errorf("tokens %d, %d, %d", first, adopted.Token(), next)
		}
		cancel()
		for range cap(out) {
			if err := <-out; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		c.nothingLeft()
	})
}
