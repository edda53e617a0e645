// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/simtest"
	"github.com/redlock-go/redlock/node/nodetest"
)

// opening opens a client whose messages to and from some masters take this long in the first moments.
func (c *cluster) opening(trip, first time.Duration, masters ...int) *member {
	c.t.Helper()
	start := time.Now()
	m, err := c.masters.Open(c.t.Context(), func(m *simtest.Client) {
		for _, i := range masters {
			m.Ways[i].SetFault(func(cmd nodetest.Command) nodetest.Fault {
				if d := time.Since(start); cmd.Name != "dial" && d < first {
					return nodetest.Fault{Delay: trip / 2, ReplyDelay: trip / 2}
				}
				return nodetest.Fault{}
			})
		}
	})
	wantErr(c.t, err, nil)
	c.t.Cleanup(func() { _ = m.Close() })
	return &member{m}
}

// Issue 25, 8: messages take 200 ms while a client opens, longer than it waits for an answer. Open returns when a quorum was seen to
// vote, so a lock that is free is had at once, and not at the next look of an idle client, 7 s later.
func TestSim_open_slowAtFirst_locksAtOnce(t *testing.T) {
	simulateWith(t, 3, func(t *testing.T, c *cluster) {
		c.init()
		for _, first := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second} {
			start := time.Now()
			m := c.opening(200*time.Millisecond, first, 0, 1, 2)
			opened := time.Since(start)
			wantErr(t, mustLock(t, m.Mutex("free")).Unlock(t.Context()), nil)
			if opened > first+time.Second {
				t.Errorf("slow for %v: opened after %v", first, opened)
			}
		}
	})
}
