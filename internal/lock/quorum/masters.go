// SPDX-License-Identifier: Apache-2.0

// Package quorum asks all masters one thing, and counts their answers: the first ones that decide count, and later ones are kept, because they
// say where a vote may still be. It knows nothing of leases, of waiting, or of what callers are told.
//
// [Masters] is whom a client asks. A [Call] is one request to all of them:
//
//	call := masters.Call(masters.Need, &req) // nobody was asked yet
//	call.Send(set)
//	call.Skip(masters.All &^ set)
//	verdict := call.Await(ctx, timeout)
//	call.Done()
//
// A call of a waiter lives on after its verdict: its places in the masters' queues may become votes, of which messages tell ([Call.Hand]).
package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Masters is whom the calls of one client ask. Its fields do not change after the first call.
type Masters struct {
	Nodes []protocol.Node
	Need  int    // a quorum
	All   uint64 // the set of all nodes
	Clock clock.Clock
	Drift clock.Drift
	// Timeout returns how long to wait for masters that do not answer. Trusted is when the client's clock jumped last: what began
	// by then is over.
	Timeout, Trusted func() time.Duration
	// Trip returns how long a quorum takes to answer, as far as that is known; else 0. A master without a trip cannot be reached.
	Trip func() time.Duration
	// MaxTTL is the longest TTL of any lock of these masters, which is not held to it where recovery is off.
	MaxTTL time.Duration
	// Voted is told each answer to an acquire. Nil: nobody wants to know.
	Voted func(i int, l *protocol.Lock, r *protocol.Reply)

	// pool has calls that every master has answered, to be used again.
	pool      sync.Pool
	deadlines deadlines
}

// LeaveFor is how long the release of a holder with places in queues is sent again to a master that
// does not answer. The queue itself lives no longer.
const LeaveFor = time.Minute

// RoundTimeout is how long a round waits for silent masters: the TTL divided by the number of masters, or the
// node timeout if that is less, and 1 ms or more. If the caller's time is bounded, it is no more than what is left of
// that divided by the number of masters, which leaves time for further rounds; but masters get their trips to answer as
// far as the caller's time lasts, because a round that ends before is for nothing, and each further one has less.
func (m *Masters) RoundTimeout(ctx context.Context, ttl time.Duration) time.Duration {
	n := time.Duration(len(m.Nodes))
	timeout := min(ttl/n, m.Timeout())
	if deadline, ok := ctx.Deadline(); ok {
		if remain := time.Until(deadline); remain/n < timeout {
			timeout = min(timeout, max(remain/n, min(remain, protocol.TripsToWait*m.Trip())))
		}
	}
	return max(timeout, ShortestRound)
}

// ShortestRound is how long a round waits for silent masters at least.
const ShortestRound = time.Millisecond

// Lives is for how long a vote with that ttl may be there, after the request that gave it. The votes for a read-write lock are in one key, which
// lives as long as the longest of them: a write vote may so outlive its TTL, with a read vote that its client has beside it.
func (m *Masters) Lives(l *protocol.Lock, ttl time.Duration) time.Duration {
	if l.Mode != protocol.Plain {
		ttl = max(ttl, m.MaxTTL)
	}
	return ttl + m.Drift.Of(ttl)
}

// RestOver is when a rest that a master puts now is over for sure.
func (m *Masters) RestOver(rest time.Duration) time.Duration {
	return m.Clock.Elapsed() + rest + m.Drift.Of(rest)
}

// Everybody is a number of masters that Hear waits for, and that never is: all are waited for.
const Everybody = counting.MaxMasters + 1

// Call returns a call of req that was sent to no master. need is how many masters must
// answer Granted for a verdict. With need 0 there is no verdict, and Await waits for every
// master. The caller sends to every master or skips it, and calls Done when it will not use
// the call again.
func (m *Masters) Call(need int, req *protocol.Request) *Call {
	q, _ := m.pool.Get().(*Call)
	if q == nil {
		q = &Call{m: m, decided: make(chan struct{}, 1), ops: make([]protocol.Op, len(m.Nodes))}
		for i := range q.ops {
			q.ops[i] = protocol.Op{Request: &q.req, To: q, Index: i}
		}
	}
	q.req = *req
	q.want, q.heard, q.tally = 0, 0, counting.Tally{Voters: len(m.Nodes), Need: need}
	if need == 0 {
		q.want = Everybody
	}
	q.again = 0
	q.answered, q.handed, q.woken, q.closed, q.over, q.users = 0, 0, 0, false, false, len(m.Nodes)+1
	q.parked, q.before, q.beforeAt = nil, nil, 0
	q.instead, q.insteadAt, q.took, q.doubt = nil, 0, 0, 0
	return q
}

// Poll sends req to the masters in the set, and skips the others.
func (m *Masters) Poll(set uint64, need int, req *protocol.Request) *Call {
	q := m.Call(need, req)
	q.Send(set)
	q.Skip(m.All &^ set)
	return q
}

// Ignore is the receiver of ops whose answer changes nothing.
type Ignore struct{}

// Receive implements [protocol.Receiver].
func (Ignore) Receive(*protocol.Op) {}
