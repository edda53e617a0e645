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
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A job takes its own lock again, in a multilock with "a" and "z". Whatever becomes of that, the lock is not free before its minimum hold is
// over: the job used it.
func TestLock_memberReentered_minimumHoldStands(t *testing.T) {
	const rests = time.Minute
	ran := func(context.Context, *multilock.Lease) error { return nil }
	for what, inner := range map[string]func(ctx context.Context, masters *redlocktest.Masters, l *multilock.Lock) error{
		"z is held, TryDo": func(ctx context.Context, masters *redlocktest.Masters, l *multilock.Lock) error {
			held := masters.Hold("z")
			did, err := l.TryDo(ctx, ran)
			if did {
				return errors.New("ran although z is held")
			}
			return errors.Join(err, held.Unlock(ctx))
		},
		"z is held, Lock until its time is over": func(ctx context.Context, masters *redlocktest.Masters, l *multilock.Lock) error {
			held := masters.Hold("z")
			brief, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := l.Do(brief, ran); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return held.Unlock(ctx)
		},
		"a is held and then released, Do": func(ctx context.Context, masters *redlocktest.Masters, l *multilock.Lock) error {
			held := masters.Hold("a")
			done := make(chan error, 1)
			go func() { done <- l.Do(ctx, ran) }()
			masters.AwaitWaiter("a")
			return errors.Join(held.Unlock(ctx), <-done)
		},
	} {
		for kind, outer := range map[string]func(ctx context.Context, c *redlock.Client, job func(context.Context, *redlock.Lease) error) error{
			"minimum hold": func(ctx context.Context, c *redlock.Client, job func(context.Context, *redlock.Lease) error) error {
				return c.Mutex("job", redlock.WithMinHold(rests)).Do(ctx, job)
			},
			"Every": func(ctx context.Context, c *redlock.Client, job func(context.Context, *redlock.Lease) error) error {
				did, err := c.Every("job", rests).Do(ctx, job)
				if !did {
					err = errors.Join(err, errors.New("the job did not run"))
				}
				return err
			},
		} {
			t.Run(kind+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, masters := redlocktest.New(t)
					l := multilock.New(c.Mutex("job", redlock.WithReentry()), c.Mutex("z"), c.Mutex("a"))
					began := time.Now()
					quorumtest.NoErr(t, outer(t.Context(), c, func(ctx context.Context, _ *redlock.Lease) error { return inner(ctx, masters, l) }))
					other := masters.Client().Mutex("job")
					quorumtest.Is(t, second(other.TryLock(t.Context())), redlock.ErrHeld)
					unlock(t, hold(t, other)) // it is free when that is over
					if took := time.Since(began); took < rests || took > rests+2*time.Second {
						t.Errorf("free again after %v", took)
					}
				})
			})
		}
	}
}

// The outer lease is unlocked while the multilock enters the lock again. The inner share is the only one then, and is given back in vain. It
// is not the first one: the lock was used.
func TestTryLock_outerUnlockedMeanwhile_minimumHoldStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way = 10 * time.Millisecond // to a master, and back
		ms := simtest.New(3)
		mine, other := away(t, ms, way), away(t, ms, 0)
		outer := hold(t, mine.Mutex("job", redlock.WithMinHold(time.Minute)))
		hold(t, other.Mutex("z"))
		carries := context.WithoutCancel(outer.Context())
		extended, tried := make(chan error, 1), make(chan error, 1)
		go func() { extended <- outer.Extend(t.Context()) }()
		time.Sleep(way / 2)
		go func() { // it waits for the extend before it sends its own
			tried <- second(multilock.New(mine.Mutex("job", redlock.WithReentry()), mine.Mutex("z")).TryLock(carries))
		}()
		time.Sleep(way / 2)
		quorumtest.NoErr(t, outer.Unlock(t.Context()))
		quorumtest.NoErr(t, <-extended)
		quorumtest.Is(t, <-tried, redlock.ErrReleased) // z is held, so it tried once more
		time.Sleep(time.Second)
		quorumtest.Is(t, second(other.Mutex("job").TryLock(t.Context())), redlock.ErrHeld)
	})
}
