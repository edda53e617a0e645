// SPDX-License-Identifier: Apache-2.0

package redlocktest

import (
	"errors"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
)

var errRefused = errors.New("NOPERM the test called Refuse; Heal ends it")

// way is a client's node to one master. It answers in the master's place where Refuse or Lose say
// so. Both answers are a no, so they cannot let two clients hold one lock.
type way struct {
	*nodetest.Node
	ms *Masters
}

// Submit implements [protocol.Node].
func (w *way) Submit(op *protocol.Op) bool {
	switch {
	case (op.Kind == protocol.Acquire || op.Kind == protocol.Adopt) && w.ms.refuse.Load():
		op.Reply = protocol.Reply{Outcome: protocol.Refused, Err: &node.Error{Node: w.Name(), Err: errRefused}}
		return false
	case op.Kind == protocol.Extend:
		op.To = losing{op.To, w.ms}
	}
	return w.Node.Submit(op)
}

// losing takes the answer to an extend, and makes the votes that Lose took missing in it.
type losing struct {
	to protocol.Receiver
	ms *Masters
}

// Receive implements [protocol.Receiver].
func (l losing) Receive(op *protocol.Op) {
	for i := range op.Reply.Intact {
		if _, lost := l.ms.lost.Load(op.Items[i].Holder); lost {
			op.Reply.Intact[i] = false
		}
	}
	l.to.Receive(op)
}

// ask reads the record of n's master, and returns why that failed. A lane that is idle notices by
// it that its connection is broken.
func ask(n node.Node, clk clock.Clock) error {
	now, done := clk.Elapsed(), make(answer, 1)
	op := &protocol.Op{To: done, Request: &protocol.Request{
		Kind: protocol.ReadRecord, Fields: []string{"state"}, Start: now, Deadline: now + limit}}
	if !n.Submit(op) {
		return op.Reply.Err
	}
	return <-done
}

// answer takes the error of one answer.
type answer chan error

// Receive implements [protocol.Receiver].
func (a answer) Receive(op *protocol.Op) { a <- op.Reply.Err }
