// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"encoding/binary"

	"github.com/redlock-go/redlock/internal/protocol"
)

// This file is for the explorer of package internal/model/waiting, which runs calls as they are. Nothing else calls it.

// Clone returns a copy of a call that nobody awaits. The ops that are under way belong to the copy as well as to q.
func (q *Call) Clone() *Call {
	c := &Call{m: q.m, decided: make(chan struct{}, 1), tally: q.tally, want: q.want, heard: q.heard, req: q.req,
		answered: q.answered, handed: q.handed, woken: q.woken, again: q.again, closed: q.closed, over: q.over, parked: q.parked,
		before: q.before, beforeAt: q.beforeAt, users: q.users,
		ops: append([]protocol.Op(nil), q.ops...), votes: append([]Vote(nil), q.votes...), first: append([]protocol.Reply(nil), q.first...)}
	for i := range c.ops {
		c.ops[i].To = c
		if c.ops[i].Request == &q.req {
			c.ops[i].Request = &c.req
		}
	}
	if len(q.decided) > 0 {
		c.decided <- struct{}{}
	}
	return c
}

// Answer is the reply of master i to its op.
func (q *Call) Answer(i int, r protocol.Reply) {
	q.ops[i].Reply = r
	q.Receive(&q.ops[i])
}

// Append appends to b what the call has of master i, and AppendRest what it has of none. Two calls of one holder of which both are
// equal have one future.
func (q *Call) Append(b []byte, i int) []byte {
	var bits byte
	for k, set := range [...]uint64{q.answered, q.handed, q.woken, q.again, q.beforeAt} {
		bits |= byte(set>>i&1) << k
	}
	b = append(b, bits)
	if q.answered>>i&1 != 0 {
		b = appendReply(b, &q.ops[i].Reply)
	}
	if q.again>>i&1 != 0 {
		b = appendReply(b, &q.first[i])
	}
	if q.handed>>i&1 != 0 {
		b = binary.AppendVarint(binary.AppendVarint(b, q.votes[i].Token), int64(q.votes[i].From))
	}
	return b
}

func appendReply(b []byte, r *protocol.Reply) []byte {
	b = append(b, byte(r.Outcome), byte(r.Ahead))
	b = binary.AppendVarint(binary.AppendVarint(b, r.Token), r.Ticket)
	return binary.AppendVarint(b, int64(r.Remaining))
}

// AppendRest is described at Append.
func (q *Call) AppendRest(b []byte) []byte {
	var bits byte
	for k, is := range [...]bool{q.closed, q.over, q.parked != nil, len(q.decided) > 0, q.before != nil} {
		if is {
			bits |= 1 << k
		}
	}
	return append(b, bits, byte(q.tally.Yes), byte(q.tally.No), byte(q.want), byte(q.heard))
}
