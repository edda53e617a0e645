// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// The clock of an operator's host jumps while a command waits until every lock is over. The client that has one is cut off, and its lease is as
// long as can be: nobody else is granted the lock before it has ended.
func TestSim_operatorsClockJumps_theWaitBeginsAnew(t *testing.T) {
	for name, tc := range map[string]struct {
		first   []int // the list that votes before
		flushed []int // masters
		then    []int // the list that votes afterwards
		do      func(ctx context.Context, from, to admin.List) error
	}{
		"reconfigure": {formerly, nil, thereafter, func(ctx context.Context, from, to admin.List) error {
			return admin.Reconfigure(ctx, from, to, nil)
		}},
		"reconfigure of one master": {formerly[:1], nil, thereafter, func(ctx context.Context, from, to admin.List) error {
			return admin.Reconfigure(ctx, from, to, nil)
		}},
		"init": {formerly, formerly, formerly, func(ctx context.Context, from, _ admin.List) error {
			return admin.Init(ctx, from, nil)
		}},
		"status --wait": {formerly, formerly[:1], formerly, func(ctx context.Context, from, _ admin.List) error {
			_, err := admin.AwaitVotes(ctx, from, nil)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				c.recovery = true
				list, done := c.list(tc.first...)
				noErr(t, admin.Init(t.Context(), list, nil, admin.NothingWasEverLocked))
				done()
				theirs, _ := c.list(tc.first...)
				holder, err := redlock.New(t.Context(), theirs.Nodes, theirs.Options...)
				noErr(t, err)
				defer func() { _ = holder.Close() }()
				lease := mustLock(t, holder.Mutex("x", redlock.WithTTL(redlock.DefaultMaxTTL), redlock.WithoutRenewal()))
				for _, n := range theirs.Nodes {
					n.(*nodetest.Node).SetFault(func(nodetest.Command) nodetest.Fault {
						return nodetest.Fault{Lose: nodetest.LoseCommand}
					})
				}
				for _, i := range tc.flushed {
					c.masters[i].Flush()
				}

				clk := &simtest.Clock{Clock: clock.Monotonic()}
				from, doneFrom := c.listBy(clk, tc.first...)
				defer doneFrom()
				to, doneTo := c.listBy(clk, thereafter...)
				defer doneTo()
				began, did := time.Now(), make(chan error, 1)
				ctx := t.Context()
				go func() { did <- tc.do(ctx, from, to) }()
				time.Sleep(2500 * time.Millisecond) // between two looks
				clk.Stop(31 * time.Second)
				noErr(t, <-did)
				if took := time.Since(began); took < redlock.DefaultMaxTTL {
					t.Errorf("it ended after %v", took)
				}
				if next, err := c.on(tc.then...).Mutex("x").TryLock(t.Context()); err == nil {
					if lease.Err() == nil {
						t.Errorf("%s has the lock, and %s has it too", lease.Holder(), next.Holder())
					}
					noErr(t, next.Unlock(t.Context()))
				}
			})
		})
	}
}
