// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/event"
)

// noContexts fails the test if err, which no caller's context caused, is that of a context.
func noContexts(t *testing.T, what string, err error) {
	t.Helper()
	for _, of := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, of) {
			t.Errorf("%s: %q is %v", what, err, of)
		}
	}
}

// Masters whose connects are not answered give an error that is no context's, in every call and event. The
// reason of each master is in the text, and errors.As finds it.
func TestErrors_connectsTimeOut_areNoContexts(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		var mu sync.Mutex
		told := 0
		tell := func(what string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if noContexts(t, what, err); err != nil {
				told++
			}
		}
		a := c.client(redlock.WithObserver(&event.Observer{
			Acquired: func(_ context.Context, e event.Acquire) { tell("Acquired", e.Err) },
			Voted:    func(e event.Vote) { tell("Voted", e.Err) },
			Extended: func(e event.Extend) { tell("Extended", e.Err) },
			Ended:    func(e event.End) { tell("Ended", e.Err) },
			Master:   func(e event.Master) { tell("Master", e.Err) },
			Unlocked: func(_ context.Context, e event.Unlock) { tell("Unlocked", e.Err) },
		}))
		lease, lost := mustLock(t, a.Mutex("x")), mustLock(t, a.Mutex("y"))
		for _, m := range c.masters[:3] {
			m.Crash() // breaks the connections
		}
		a.faultOn("dial", nodetest.Fault{Lose: nodetest.LoseCommand}, 0, 1, 2)
		time.Sleep(5 * time.Second) // the first extend has found that they are broken
		_, tried := a.Mutex("z").TryLock(t.Context())
		_, waited := a.Mutex("z").Lock(t.Context())
		_, inspected := a.Inspect(t.Context(), "x")
		for what, err := range map[string]error{"TryLock": tried, "Lock": waited, "Inspect": inspected, "Extend": lease.Extend(t.Context()),
			"Unlock": lease.Unlock(t.Context()), "Ready": a.Ready(), "ForceUnlock": a.ForceUnlock(t.Context(), "y", lost.Holder()),
			"Locks": atEnd(a.Locks(t.Context(), "y"))} {
			if noContexts(t, what, err); err == nil {
				t.Errorf("%s: no error", what)
			}
		}
		for what, err := range map[string]error{"TryLock": tried, "Lock": waited, "Inspect": inspected, "Ready": a.Ready()} {
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || !strings.Contains(err.Error(), "m0: node: master unreachable: dial tcp: i/o timeout") {
				t.Errorf("%s: %v", what, err)
			}
			wantErr(t, err, redlock.ErrUnreachable)
		}
		<-lost.Context().Done()
		noContexts(t, "Err", lost.Err())
		noContexts(t, "cause", context.Cause(lost.Context()))
		mu.Lock()
		defer mu.Unlock()
		if told < 5 {
			t.Errorf("Observers were told of %d errors", told)
		}
	})
}

// Open's error is that of its own context when that ended, and of no context when a master refused.
func TestErrors_open_contextIsTheCallers(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		for _, m := range c.masters[:3] {
			m.Pause()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.masters.Open(ctx, nil)
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, redlock.ErrUnreachable)
		for _, m := range c.masters[:3] {
			m.Resume()
		}
		synctest.Wait()
	})
}

// While a cluster moves slots, two names may lead to one server for a moment. With another master down
// that is an outage, and no mistake of the caller's.
func TestErrors_oneServerUnderTwoNamesForAMoment_isNoConfig(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a := c.client()
		c.masters[2].Crash()
		c.masters[3].Crash()
		own, other := c.masters[1].Identity(), c.masters[0].Identity()
		c.masters[1].Crash()
		c.masters[1].Restart()
		c.masters[1].SetIdentity(other)
		time.Sleep(10 * time.Second) // an idle client looks at its masters after a quarter of the maximum TTL at the latest
		_, tried := a.Mutex("z").TryLock(t.Context())
		_, inspected := a.Inspect(t.Context(), "z")
		for what, err := range map[string]error{"TryLock": tried, "Inspect": inspected, "Ready": a.Ready()} {
			wantErr(t, err, redlock.ErrUnreachable)
			if errors.Is(err, redlock.ErrConfig) || !strings.Contains(err.Error(), "are the same master") {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := c.masters.Open(t.Context(), nil) // when a program begins it is one
		wantErr(t, err, redlock.ErrConfig)
		c.masters[1].Crash()
		c.masters[1].SetIdentity(own)
		for _, m := range c.masters[1:4] {
			m.Restart()
		}
		time.Sleep(time.Minute)
		wantErr(t, second(a.Mutex("z").TryLock(t.Context())), nil)
	})
}
