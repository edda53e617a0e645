// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// stoppable is the clock of a process that can be stopped: time goes on, and its timers do not fire.
type stoppable struct {
	clock.Clock
	stood atomic.Int64
}

func (c *stoppable) Elapsed() time.Duration {
	return c.Clock.Elapsed() + time.Duration(c.stood.Load())
}

// stoppable is a client whose process can be stopped.
func (c *cluster) stoppable(opts ...redlock.Option) (*redlock.Client, *stoppable) {
	c.t.Helper()
	clk := &stoppable{Clock: clock.Monotonic()}
	var nodes []node.Node
	for _, m := range c.masters {
		nodes = append(nodes, m.Node(node.Config{Clock: clk}))
	}
	client, err := redlock.New(c.t.Context(), nodes, append(opts, redlock.WithClock(clk), redlock.WithUnsafeRecoveryOff())...)
	noErr(c.t, err)
	return client, clk
}

// Issue 26: a process that was stopped hears that it stood still, and not that the masters were out of reach. One whose masters were
// out of reach does not hear that it stood still.
func TestLost_processStoodStill_saysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(clk *stoppable, masters []*nodetest.Master)
		says    bool
	}{
		"stopped": {func(clk *stoppable, _ []*nodetest.Master) { clk.stood.Add(int64(12 * time.Second)) }, true},
		"masters": {func(_ *stoppable, ms []*nodetest.Master) {
			for _, m := range ms {
				m.Crash()
			}
			time.Sleep(12 * time.Second)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk := &stoppable{Clock: clock.Monotonic()}
				var masters []*nodetest.Master
				var nodes []node.Node
				for _, name := range []string{"m0", "m1", "m2"} {
					m := nodetest.NewMaster(name)
					masters, nodes = append(masters, m), append(nodes, m.Node(node.Config{Clock: clk}))
				}
				c, err := redlock.New(t.Context(), nodes, redlock.WithClock(clk), redlock.WithUnsafeRecoveryOff())
				noErr(t, err)
				defer c.Close()
				lease := locked(t, c.Mutex("x"))
				tc.happens(clk, masters)
				err = lease.Err()
				wantIs(t, err, redlock.ErrLost)
				if says := strings.Contains(err.Error(), "this process stood still for 1"); says != tc.says {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A lease that was handed ends with its votes, 3 s after the hand and long before its TTL. A process that was stopped for so long hears of
// that too.
func TestLost_handedAndProcessStoodStill_saysSo(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		first := mustLock(t, c.client().Mutex("x"))
		b, clk := c.stoppable(redlock.WithTTL(10 * time.Minute))
		defer b.Close()
		got := make(chan *redlock.Lease)
		go func() {
			lease, _ := b.Mutex("x").Lock(t.Context())
			got <- lease
		}()
		time.Sleep(100 * time.Millisecond)
		noErr(t, first.Unlock(t.Context()))
		lease := <-got
		clk.stood.Add(int64(12 * time.Second))
		err := lease.Err()
		wantIs(t, err, redlock.ErrLost)
		wantText(t, err, "this process stood still for 1")
	})
}

// A process that was held up for a tenth of the TTL, while the masters refused each extend, hears of both.
func TestLost_refusedAndProcessStoodStill_saysBoth(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		b, clk := c.stoppable(redlock.WithTTL(20 * time.Second))
		defer b.Close()
		lease := mustLock(t, b.Mutex("x"))
		for _, m := range c.masters {
			m.RefuseWrites(errNoReplicas)
		}
		time.Sleep(15 * time.Second)
		clk.stood.Add(int64(2100 * time.Millisecond))
		<-lease.Context().Done()
		wantText(t, context.Cause(lease.Context()), "NOREPLICAS", "this process stood still for 2.1s")
	})
}
