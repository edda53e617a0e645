// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"
)

// The locks "b" and "{b}" are two, in one cluster slot. A release of one is not handed to a waiter of the other.
func TestSim_locksThatDifferByBraces_haveAQueueEach(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		plain, braced := mustLock(t, a.Mutex("b")), mustLock(t, a.Mutex("{b}"))
		first := b.waitsFor(t.Context(), "{b}")
		second := b.waitsFor(t.Context(), "b")
		start := time.Now()
		wantErr(t, plain.Unlock(t.Context()), nil)
		lease := <-second
		if took := time.Since(start); lease == nil || took > 10*time.Millisecond {
			t.Fatalf("%v after %v", lease, took)
		}
		select {
		case <-first:
			t.Error("the waiter of the other lock has it")
		default:
		}
		wantErr(t, lease.Unlock(t.Context()), nil)
		wantErr(t, braced.Unlock(t.Context()), nil)
		wantErr(t, (<-first).Unlock(t.Context()), nil)
	})
}
