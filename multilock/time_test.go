// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// away opens a client whose messages take way to a master, and as long back. It has taken a lock before.
func away(t *testing.T, ms simtest.Masters, way time.Duration, opts ...redlock.Option) *redlock.Client {
	t.Helper()
	c, err := ms.Open(t.Context(), func(c *simtest.Client) {
		for _, n := range c.Ways {
			n.SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Delay: way, ReplyDelay: way} })
		}
	}, append(opts, redlock.WithUnsafeRecoveryOff())...)
	quorumtest.NoErr(t, err)
	t.Cleanup(func() { _ = c.Close() })
	unlock(t, hold(t, c.Mutex("before")))
	return c.Client
}

// brief is the TTL of a member whose time is over before the answers of masters that are farFrom away come.
const brief, farFrom = 100 * time.Millisecond, 60 * time.Millisecond

// nearAndFar is a multilock of "a", whose time is over before "b" can be there.
func nearAndFar(t *testing.T, opts ...redlock.LockOption) *multilock.Lock {
	t.Helper()
	ms := simtest.New(3)
	near, far := away(t, ms, 0), away(t, ms, farFrom)
	return multilock.New(near.Mutex("a", redlock.WithTTL(brief), redlock.WithoutRenewal()), far.Mutex("b", opts...))
}

// The maximum wait bounds how often Lock begins again.
func TestLock_memberOverBeforeTheOthers_endsWithTheMaximumWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := nearAndFar(t, redlock.WithMaxWait(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err := both.Lock(ctx)
		quorumtest.Is(t, err, redlock.ErrUnreachable)
		if took := time.Since(start); took < time.Second-2*farFrom || took > time.Second+2*farFrom {
			t.Errorf("it took %v", took)
		}
	})
}

// The maximum wait bounds the rounds too, also where the masters do not answer. It leaves the whole time to a round that can end within it.
func TestLock_mastersHang_endsWithTheMaximumWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way, wait = 10 * time.Millisecond, 200 * time.Millisecond
		ms := simtest.New(3)
		c := away(t, ms, way, redlock.WithNodeTimeout(2*time.Second))
		unlock(t, lock(t, multilock.New(c.Mutex("a"), c.Mutex("b", redlock.WithMaxWait(5*way)))))
		for _, m := range ms {
			m.Pause()
		}
		start := time.Now()
		_, err := multilock.New(c.Mutex("a"), c.Mutex("b", redlock.WithMaxWait(wait))).Lock(t.Context())
		quorumtest.Is(t, err, redlock.ErrUnreachable)
		if took := time.Since(start); took < wait-2*time.Millisecond || took > wait+30*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		for _, m := range ms {
			m.Resume()
		}
		time.Sleep(time.Minute) // what was sent is answered
	})
}

// The caller's time leaves too little for another round. The member is held all the same: the round before has found that.
func TestLock_noTimeForAnotherRound_heldIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 70 * time.Millisecond // a third of what is left behind the first round is less than a trip
		ms := simtest.New(3)
		mine, other := away(t, ms, 10*time.Millisecond), away(t, ms, 0)
		hold(t, other.Mutex("b"))
		start := time.Now()
		_, err := multilock.New(mine.Mutex("a"), mine.Mutex("b", redlock.WithMaxWait(wait))).Lock(t.Context())
		quorumtest.Is(t, err, redlock.ErrHeld)
		if took := time.Since(start); took < wait || took > wait+100*time.Millisecond { // a is given back behind what is on its way
			t.Errorf("it took %v", took)
		}
	})
}

// A member's time is over before the others are there. The caller never had the whole, so it has lost nothing: it is told what a Mutex says that
// was granted too late, or that its context has ended.
func TestTryLock_memberOverBeforeTheOthers_nothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := nearAndFar(t)
		run := func(context.Context, *multilock.Lease) error { return errors.New("ran without a member") }
		for what, try := range map[string]func(ctx context.Context) error{
			"TryLock": func(ctx context.Context) error { return second(both.TryLock(ctx)) },
			"TryDo":   func(ctx context.Context) error { return second(both.TryDo(ctx, run)) },
		} {
			err := try(t.Context())
			var round *redlock.RoundError
			if errors.Is(err, redlock.ErrLost) || !errors.Is(err, redlock.ErrUnreachable) || !errors.As(err, &round) || round.Name != "a" || round.Elapsed < brief {
				t.Errorf("%s: %v", what, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(3*farFrom, cancel) // while b is given back
			if err := try(ctx); errors.Is(err, redlock.ErrLost) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s, and the context ends: %v", what, err)
			}
			time.Sleep(time.Second) // b is given back
		}
	})
}

// Lock holds "a" and waits for "b" until its time is over. Two masters fell silent just before, so nobody confirms that "a" is given back: that
// keeps the caller for a moment, and not for a node timeout. The release is sent all the same.
func TestLock_mastersSilentWhenTheTimeIsOver_returnsInTime(t *testing.T) {
	const wait = 300 * time.Millisecond
	for what, lock := range map[string]func(ctx context.Context, c *redlock.Client) (err, want error){
		"maximum wait": func(ctx context.Context, c *redlock.Client) (err, want error) {
			return second(multilock.New(c.Mutex("a"), c.Mutex("b", redlock.WithMaxWait(wait))).Lock(ctx)), redlock.ErrHeld
		},
		"deadline": func(ctx context.Context, c *redlock.Client) (err, want error) {
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			return second(multilock.New(c.Mutex("a"), c.Mutex("b")).Lock(ctx)), context.DeadlineExceeded
		},
		"cancel": func(ctx context.Context, c *redlock.Client) (err, want error) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(wait, cancel)
			return second(multilock.New(c.Mutex("a"), c.Mutex("b")).Lock(ctx)), context.Canceled
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ms := simtest.New(3)
				mine, other := away(t, ms, time.Millisecond, redlock.WithNodeTimeout(time.Second)), away(t, ms, 0)
				hold(t, other.Mutex("b"))
				start := time.Now()
				time.AfterFunc(wait-10*time.Millisecond, func() {
					for _, m := range ms[:2] {
						m.Pause()
					}
				})
				err, want := lock(t.Context(), mine)
				quorumtest.Is(t, err, want)
				if took := time.Since(start); took < wait || took > wait+60*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				for _, m := range ms[:2] {
					m.Resume()
				}
				time.Sleep(100 * time.Millisecond)
				free, err := other.Mutex("a").TryLock(t.Context())
				quorumtest.NoErr(t, err)
				unlock(t, free)
			})
		})
	}
}
