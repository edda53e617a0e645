// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"math/bits"

	"github.com/redlock-go/redlock/internal/protocol"
)

// This file is a call that takes over what another one, a release, is to give back: one op of a master does both.

// Instead says that the call, of which the masters in the set are about to be asked, takes over the votes that the release is to give back. A
// master that grants it has acknowledged the release. Any other answer has the release sent, so it gives back what is still there.
//
// Each answer is a use of the release, which a master may have turned away before.
func (q *Call) Instead(release *Call, set uint64) {
	q.instead, q.insteadAt = release, set
	release.mu.Lock()
	release.users += bits.OnesCount64(set)
	release.mu.Unlock()
}

// Hurry sends the release to the masters that have not answered yet: each executes it behind the op of this call. From then on the release is on its
// way everywhere.
func (q *Call) Hurry() {
	q.mu.Lock()
	release, set := q.instead, q.insteadAt&^q.answered
	q.insteadAt &^= set
	q.mu.Unlock()
	release.Send(set)
}

// settle takes, for a release, the answer of master i to the call that takes over. waits says that the master was not sent the release.
func (q *Call) settle(i int, answer protocol.Outcome, waits bool) {
	bit := uint64(1) << i
	q.mu.Lock()
	switch answer {
	case protocol.Granted:
		q.took |= bit
	case protocol.Unknown:
		q.doubt |= bit
	}
	q.mu.Unlock()
	switch op := &q.ops[i]; { // Send and Receive have uses of their own
	case !waits:
	case answer == protocol.Granted:
		op.Reply = protocol.Reply{Outcome: protocol.Granted}
		q.Receive(op)
	default:
		q.Send(bit)
	}
	q.Done()
}

// takenLocked corrects the answer of a master that has no vote any more because another call took it over, or may have: that vote was not lost.
// A master answers that call first, because it was asked first.
func (q *Call) takenLocked(op *protocol.Op) {
	switch bit := uint64(1) << op.Index; {
	case op.Reply.Outcome != protocol.Absent:
	case q.took&bit != 0:
		op.Reply.Outcome = protocol.Granted
	case q.doubt&bit != 0:
		op.Reply.Outcome = protocol.Unknown
	}
}
