// SPDX-License-Identifier: Apache-2.0

// Package protocol is the vocabulary between a coordinator, which counts votes, and a
// node, which sends requests to one Redis master and reads its replies.
//
// It knows what can be asked of a master and what the master can answer, how a lock's
// name becomes keys, channels and a counter, and what a master reports about itself. It
// knows neither connections, scripts, quorums nor leases. It imports package clock and
// internal/membership, whose record state it reads, and nothing else of this module. It
// starts no goroutine and does no I/O.
//
// The parts that other packages use:
//
//   - [Node] is one master, [Binding] is what a coordinator gives it.
//   - [Op] carries a [Request] to the master and its [Reply] to a [Receiver]. A new
//     kind of request begins with a new [Kind].
//   - [Hand] is what a master publishes when it gives its vote to a waiter.
//   - [Lock] holds the keys of a lock; make one with [Namespace.Lock].
//   - [Namespace] is a set of locks with a prefix for its keys and channels.
//   - [Identity] names one life of a master's data.
//   - [RecordKey], [Counters] and [CounterField] lay out the node record.
//   - [Error], [RecordStateError] and the Err variables are the errors of a reply.
package protocol
