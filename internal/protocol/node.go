// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/clock"
)

// Node is one master as the coordinator sees it. Package node implements it for a real
// master, package nodetest for one in memory. All methods are safe for concurrent use.
type Node interface {
	// Name identifies the master in errors and reports: its address, without
	// credentials.
	Name() string
	// Tag is the hash tag that the names of all locks must have, because the node is
	// one slot of a Redis Cluster. It is empty if lock names are free.
	Tag() string
	// BehindFailover reports whether the node finds its master through Sentinel or a
	// Redis Cluster. During a failover the address may be a replica's.
	BehindFailover() bool
	// ClockOffset returns how far the master's clock is ahead of the client's: the middle of
	// what all readings allow. ok is false before the first.
	ClockOffset() (offset time.Duration, ok bool)
	// VotingState returns the record state in which the master voted when the node last sent it
	// anything: its epoch and its incarnation. It is empty before, and without recovery.
	VotingState() string
	// Unacknowledged returns how many releases the node keeps because the master has not
	// acknowledged them. The node keeps 16384 at most and then drops the
	// oldest that lifts no rest; dropped counts those. A vote whose release was dropped ends with its TTL.
	Unacknowledged() (kept int, dropped uint64)
	// Trip is how long a round trip to the master takes, by its latest answers. It is 0 before the first connection, and while
	// the master cannot be reached. It does no I/O.
	Trip() time.Duration
	// Subscribe makes the node call Binding.Message for each message on channel, until
	// Unsubscribe. The node calls Binding.Subscribed when the subscription is active,
	// and again after each time it was lost and restored. Subscribe and Unsubscribe
	// return at once. All channels share one connection. The node opens it for the
	// first channel and closes it after the last.
	Subscribe(channel string)
	Unsubscribe(channel string)
	// Submit hands op to the node and returns at once. It does no I/O.
	//
	// If Submit returns true, op is queued and belongs to the node. The node calls its
	// Receiver exactly once, from a goroutine of its own. If Submit returns false, the
	// node does not call the Receiver, and op.Reply holds the reason. Its outcome is
	// NotSent; for a Release it is Unknown, because the node keeps it and sends it later.
	//
	// The master executes operations in the order of their Submit calls, kept ones
	// included. The node sends a kept Release again until the master
	// acknowledges it, until its Deadline, or until there are too many
	// ([Node.Unacknowledged]). If the acquire that it undoes may lie unread on a broken
	// connection, the node keeps it for the next connection, past its Deadline.
	Submit(op *Op) bool
	// Bind ties the node to its coordinator. The coordinator must call it once, before
	// any other method. It returns an [Error], and changes nothing, if the node has a coordinator, had one, or is closed.
	Bind(b Binding) error
	// Ready waits for the first answer of the master, for at most the time of one dial
	// or until ctx ends. It returns nil if the master can be used, else the reason.
	// Later calls do not wait.
	Ready(ctx context.Context) error
	// Enter tells the node the epoch of its master, as "number.id", and whether the
	// master may be asked for votes. If refusal is not nil, each Acquire, Adopt and Confirm
	// that was not sent yet is NotSent with refusal as its error.
	//
	// The coordinator must call Enter again after each new connection to another
	// process, and after each [ErrClock]. Until then the node asks for no vote, because
	// nobody has compared the master's clock with the clocks of the other masters. A
	// master whose record state is not checked needs no Enter.
	//
	// asOf is when the coordinator sent the requests on whose replies this call rests,
	// on the node's clock. If the node has refused votes by itself since then, it
	// ignores a call without a refusal.
	Enter(epoch string, refusal error, asOf time.Duration)
	// Close sends what is queued, for at most one round trip's timeout, and then frees
	// everything. Later Submits return false. A second Close does nothing.
	Close() error
}

// Binding is what a coordinator gives to a node: facts about the quorum, and functions to
// call. The node calls them from its lane or its subscription, so none of them may block.
// Each function may be nil.
type Binding struct {
	// Namespace is that of all locks of the coordinator.
	Namespace Namespace
	// CheckRecordState makes the scripts compare the state in the node record with the
	// voting state of the epoch that Enter names. If it is false, the master votes
	// right after a restart, which is unsafe.
	CheckRecordState bool
	// Owner is what the node's connections are called on the master (CLIENT SETNAME), if it is not
	// empty, the node has no name for them of its own, and the master allows it.
	Owner string
	// Drift is how far the master's clock may run apart from the client's before the
	// node reports ErrClock.
	Drift clock.Drift
	// Admit gets the master's identity on each new connection, before the node sends
	// any operation. If Admit returns an error, the node stays down.
	Admit func(Identity) error
	// Up is called after each new connection, when Submit accepts ops again.
	Up func()
	// Back is called when the master answers that had not answered for longer than a node waits before
	// it sends no more ([ErrStalled]), and when the user has a right again that was missing.
	Back func()
	// Down is called with the reason after each connection that broke, and after each attempt to
	// connect that failed, until the node is closed. Up follows if an attempt succeeds.
	Down func(error)
	// Writes is called with an [ErrNoWrites] when the master begins to refuse writes, with an [ErrDenied] when
	// the user has lost a right that every lock needs, and with nil when all is well again. It may be called before Up.
	Writes func(error)
	// Message is called with each message on a subscribed channel.
	Message func(channel, payload string)
	// Subscribed is called when messages on channel may have been missed: after the
	// first subscription, and after each later one.
	Subscribed func(channel string)
	// Trouble is called with a *RecordStateError when the node record does not have
	// the expected state, with WRONGTYPE when the record or a lock is not a hash, and
	// with ErrClock.
	Trouble func(error)
}
