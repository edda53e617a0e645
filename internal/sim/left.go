// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
)

// Left is what was left behind when nobody held a lock any more, in words. It is empty if nothing was:
//
// Invariant: when every worker has given back what it held, and every client has reached every master for long enough to send again what
// the masters have not acknowledged, no master has a vote or a place in a queue, and no client owes a master a release.
//
// The TTL may not come to the rescue, so Run looks before the TTL of any vote of the last moment is over. The invariant does not hold
// where masters lose data or are replaced by an older copy, because that brings back votes that were released.
type Left struct {
	Votes  []string // votes on masters
	Places []string // places in the queues of masters
	Debts  []string // releases that a client has not heard of
}

// lookForLeft waits until all can have been sent again, and notes what is left.
func (w *world) lookForLeft() {
	// A client waits 2 s for the reply to what was lost, and dials again within 250 ms.
	quiet := 5 * time.Second
	if w.cfg.does("reorder") {
		quiet += 2 * w.cfg.Pace // then what was held back has arrived
	}
	time.Sleep(quiet)
	for _, m := range w.masters {
		_ = m.Do(func(db *nodetest.DB) {
			for _, l := range w.locks {
				on := w.namespace().Lock(l.name, protocol.Plain)
				for _, holder := range db.HKeys(on.Key) {
					w.stats.Left.Votes = append(w.stats.Left.Votes, fmt.Sprintf("%s has a vote on %q of %s, for another %d ms",
						m.Name(), l.name, holder, db.PTTL(on.Key)))
				}
				for _, place := range db.ZRange(on.Queue, 1000) {
					w.stats.Left.Places = append(w.stats.Left.Places, fmt.Sprintf("%s has %s in the queue of %q", m.Name(), place, l.name))
				}
			}
		})
	}
	for _, m := range w.members {
		if n := m.client.Stats().Unacknowledged; n > 0 {
			w.stats.Left.Debts = append(w.stats.Left.Debts, fmt.Sprintf("client %d has %d releases that no master has acknowledged", m.id, n))
		}
	}
}
