// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock/redlock"
)

// The masters lose everything. A client of one namespace has them vote again, after the wait. That
// must not end the wait of the other namespace, which saw the loss later.
func TestNamespace_recoveryOfOne_leavesTheOtherItsOwn(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		in := func(ns string) []redlock.Option {
			return []redlock.Option{redlock.WithNamespace(ns), redlock.WithFixedMasters()}
		}
		c.init(in("a")...)
		c.init(in("b")...)
		one := c.client(in("a")...)
		begun := time.Now()
		for _, m := range c.masters {
			m.Flush()
		}
		time.Sleep(20 * time.Second)
		other := c.client(in("b")...) // sees the loss now, so its masters wait from now
		_, err := other.Mutex("x").TryLock(t.Context())
		wantIs(t, err, redlock.ErrRecovering)
		noErr(t, locked(t, one.Mutex("x")).Unlock(t.Context())) // waits until its masters vote
		_, err = other.Mutex("x").TryLock(t.Context())
		if wait := time.Since(begun); wait < redlock.DefaultMaxTTL || wait > 40*time.Second || !errors.Is(err, redlock.ErrRecovering) {
			t.Errorf("the other, after %v: %v", wait, err)
		}
		noErr(t, locked(t, other.Mutex("x")).Unlock(t.Context()))
		if wait := time.Since(begun); wait < 20*time.Second+redlock.DefaultMaxTTL {
			t.Errorf("the other votes again after %v", wait)
		}
	})
}

// One name in two namespaces and in none: three locks, which have one counter's number each.
func TestNamespace_sameName_threeLocks(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		var leases []*redlock.Lease
		for _, opts := range [][]redlock.Option{nil, {redlock.WithNamespace("a")}, {redlock.WithNamespace("a.b")}} {
			c.init(opts...)
			client := c.client(opts...)
			leases = append(leases, locked(t, client.Mutex("x")))
			_, err := c.client(opts...).Mutex("x").TryLock(t.Context())
			wantIs(t, err, redlock.ErrHeld)
		}
		for _, l := range leases {
			noErr(t, l.Unlock(context.Background()))
		}
	})
}

// Whoever looks sees the locks of its own namespace, and takes those away only.
func TestNamespace_locksAndForceUnlock_ownOnly(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		var clients []*redlock.Client
		for _, opts := range [][]redlock.Option{nil, {redlock.WithNamespace("a"), redlock.WithClientName("billing")}} {
			c.init(opts...)
			clients = append(clients, c.client(opts...).Client.Client)
		}
		plain, a := clients[0], clients[1]
		kept := locked(t, plain.Mutex("x"))
		locked(t, plain.Mutex("of/none"))
		taken := locked(t, a.Mutex("x"))
		locked(t, a.Mutex("of/a"))
		time.Sleep(time.Second) // until all masters have votes and labels
		for client, want := range map[*redlock.Client]string{plain: "[of/none x]", a: "[of/a x]"} {
			names, err := listed(t, t.Context(), client, "")
			if fmt.Sprint(names) != want || err != nil {
				t.Errorf("%v, %v, want %s", names, err, want)
			}
		}
		in, err := a.Inspect(t.Context(), "x")
		noErr(t, err)
		if len(in.Holders) != 1 || in.Holders[0].Owner != "billing" {
			t.Errorf("%v", in)
		}
		wantIs(t, plain.ForceUnlock(t.Context(), "x", taken.Holder()), redlock.ErrNotHolder)
		noErr(t, a.ForceUnlock(t.Context(), "x", taken.Holder()))
		time.Sleep(redlock.DefaultTTL)
		wantIs(t, taken.Err(), redlock.ErrLost)
		noErr(t, kept.Err())
	})
}
