// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// A change that is finished tells the masters that it leaves. It tells one again that did not hear it, but it does not wait for one that is gone,
// and it does not fail when the new list votes already.
func TestSim_reconfigure_tellsTheMastersThatItLeaves(t *testing.T) {
	w := time.Second + 2*clock.DefaultDrift().Of(time.Second)
	for name, tc := range map[string]struct {
		lost   int // how many times the first master does not hear it
		crash  bool
		ends   time.Duration // after that the context ends
		untold int
		within time.Duration
	}{
		"all hear it":        {0, false, time.Hour, 0, w + 100*time.Millisecond},
		"one hears it later": {1, false, time.Hour, 0, w + 2*time.Second},
		"one never hears it": {1 << 30, false, time.Hour, 1, w + 5*time.Second},
		"one is gone":        {0, true, time.Hour, 1, w + 5*time.Second},
		"the context ends":   {1 << 30, false, w + time.Second, 1, w + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			simulateWith(t, 6, func(t *testing.T, c *cluster) {
				opts := []redlock.Option{redlock.WithMaxTTL(time.Second), redlock.WithTTL(time.Second)}
				from, done := c.list(0, 1, 2)
				from.Options = append(from.Options, opts...)
				noErr(t, admin.Init(t.Context(), from, nil, admin.NothingWasEverLocked))
				done()
				from, doneFrom := c.list(0, 1, 2)
				defer doneFrom()
				to, doneTo := c.list(3, 4, 5)
				defer doneTo()
				from.Options, to.Options = append(from.Options, opts...), append(to.Options, opts...)
				from.Nodes[0].(*nodetest.Node).SetFault(func(cmd nodetest.Command) nodetest.Fault {
					if cmd.Name != "record" || !slices.Contains(cmd.Args, membership.FieldOver) || tc.lost == 0 {
						return nodetest.Fault{}
					}
					tc.lost--
					return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: true}
				})
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tc.ends)
				defer cancel()
				noErr(t, admin.Reconfigure(ctx, from, to, func(string, time.Duration) {
					if tc.crash {
						c.masters[0].Crash()
					}
				}))
				if took := time.Since(began); took > tc.within {
					t.Errorf("it took %v, want %v", took, tc.within)
				}
				untold := 0
				for i := range 3 {
					var r membership.Record
					_ = c.masters[i].Do(func(db *nodetest.DB) { r, _ = membership.ParseRecord(db.HGetAll(protocol.RecordKey)) })
					if !r.Finished() {
						untold++
					}
				}
				if untold != tc.untold {
					t.Errorf("%d masters were not told, want %d", untold, tc.untold)
				}
			})
		})
	}
}
