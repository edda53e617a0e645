// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// Issue 25, 18: one of three masters is in quarantine, and another one is away for two seconds. When that one is back, locks are
// back: whoever waits is woken, and does not sleep on because the master in quarantine says that it needs half a minute.
func TestSim_masterBackWhileAnotherWaits_callersAreWoken(t *testing.T) {
	for name, away := range map[string]func(c *cluster, clients ...*member){
		"paused": func(c *cluster, _ ...*member) {
			c.masters[1].Pause()
			time.AfterFunc(2*time.Second, c.masters[1].Resume)
		},
		"cut off": func(_ *cluster, clients ...*member) {
			for _, m := range clients {
				m.Ways[1].SetFault(func(nodetest.Command) nodetest.Fault { return nodetest.Fault{Cut: true} })
				m.Ways[1].Cut()
				time.AfterFunc(2*time.Second, func() { m.Ways[1].SetFault(nil) })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, when := range []time.Duration{0, 300 * time.Millisecond, 3 * time.Second} {
				simulateWith(t, 3, func(t *testing.T, c *cluster) {
					c.init()
					a, b := c.client(), c.client()
					wantErr(t, mustLock(t, a.Mutex("x")).Unlock(t.Context()), nil)
					wantErr(t, mustLock(t, b.Mutex("x")).Unlock(t.Context()), nil)
					c.masters[0].Flush()
					for c.phase(0) != membership.Quarantined {
						if lease, err := a.Mutex("other").TryLock(t.Context()); err == nil {
							wantErr(t, lease.Unlock(t.Context()), nil)
						}
						time.Sleep(time.Millisecond)
					}
					time.Sleep(when)
					away(c, a, b)
					start, got := time.Now(), make(chan time.Duration, 4)
					for i, m := range []*member{a, b, a, b} {
						go func() {
							lease, err := m.Mutex("y"+string('0'+rune(i)), redlock.WithOutageTimeout(time.Minute)).Lock(context.Background())
							if err == nil {
								err = lease.Unlock(context.Background())
							}
							if err != nil {
								t.Error(err)
							}
							got <- time.Since(start)
						}()
					}
					for range cap(got) {
						if d := <-got; d > 2500*time.Millisecond {
							t.Errorf("away after %v: locked %v after the master was back", when, d-2*time.Second)
						}
					}
				})
			}
		})
	}
}
