// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/compat/redislock"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// whileHeld runs test in a bubble, with a client whose ways to n masters suffer what fault says. Another client has the lock.
func whileHeld(t *testing.T, n int, fault func(cmd nodetest.Command) nodetest.Fault, test func(t *testing.T, c *redlock.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		masters := simtest.New(n)
		open := func(fault func(cmd nodetest.Command) nodetest.Fault) *redlock.Client {
			c, err := masters.Open(t.Context(), func(c *simtest.Client) {
				for _, way := range c.Ways {
					way.SetFault(fault)
				}
			}, redlock.WithUnsafeRecoveryOff())
			noErr(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return c.Client
		}
		_, err := open(nil).Mutex(key).TryLock(t.Context())
		noErr(t, err)
		test(t, open(fault))
	})
}

// slow is a fault that has each message take d each way.
func slow(d time.Duration) func(nodetest.Command) nodetest.Fault {
	return func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Delay: d, ReplyDelay: d} }
}

// wantIsNot fails if err is target.
func wantIsNot(t *testing.T, err, target error) {
	t.Helper()
	if errors.Is(err, target) {
		t.Errorf("%v is %v", err, target)
	}
}

// The last try has less time than the masters need. The lock is held all the same: the wait has found that.
func TestObtain_noTimeForTheLastTry_isWhatTheWaitFound(t *testing.T) {
	whileHeld(t, 5, slow(12*time.Millisecond), func(t *testing.T, c *redlock.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		retry := redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 19)
		_, err := redislock.Obtain(ctx, c, key, ttl, &redislock.Options{RetryStrategy: retry})
		wantIs(t, err, redislock.ErrNotObtained, redlock.ErrHeld)
		wantIsNot(t, err, redlock.ErrUnavailable)
	})
}

// The retries are over, and ctx ends while the masters are asked who has the lock. The error is ctx's own: nobody cancelled anything.
func TestObtain_contextEndsWhileTheHolderIsNamed_errorIsTheContexts(t *testing.T) {
	mute := func(cmd nodetest.Command) (f nodetest.Fault) {
		if cmd.Name == "inspect" {
			f.Lose = nodetest.LoseCommand
		}
		return f
	}
	whileHeld(t, 3, mute, func(t *testing.T, c *redlock.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		retry := redislock.LimitRetry(redislock.LinearBackoff(5*time.Millisecond), 199)
		_, err := redislock.Obtain(ctx, c, key, ttl, &redislock.Options{RetryStrategy: retry})
		wantIs(t, err, redislock.ErrNotObtained, context.DeadlineExceeded)
		wantIsNot(t, err, context.Canceled)
	})
}

// ctx ends before the masters can have answered the first round. That is the caller's time, and no outage.
func TestObtain_contextEndsInTheFirstRound_isNotObtained(t *testing.T) {
	whileHeld(t, 3, slow(10*time.Millisecond), func(t *testing.T, c *redlock.Client) {
		for what, opt := range map[string]*redislock.Options{
			"no retries": nil,
			"retries":    {RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(5*time.Millisecond, cancel)
			_, err := redislock.Obtain(ctx, c, key, ttl, opt)
			if !errors.Is(err, redislock.ErrNotObtained) || !errors.Is(err, context.Canceled) || errors.Is(err, redlock.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
