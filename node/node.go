// SPDX-License-Identifier: Apache-2.0

package node

import "github.com/redlock-go/redlock/internal/protocol"

// Node is one Redis master, made by [Open] or [New], for redlock.New. Its methods are for
// package redlock, but for two: Name identifies the master in errors, and Close frees the
// node. Whoever makes a node closes it.
type Node = protocol.Node

// Error is an error of one master, with the master's name.
type Error = protocol.Error

var (
	// ErrClosed: the node was closed.
	ErrClosed = protocol.ErrClosed
	// ErrDown: the master cannot be reached. The node tries to connect again, one
	// attempt at a time.
	ErrDown = protocol.ErrDown
	// ErrStalled: the master has not answered for longer than Config.StallAfter. The
	// node sends nothing more until it does.
	ErrStalled = protocol.ErrStalled
	// ErrBusy: more than Config.QueueLimit operations wait for this master.
	ErrBusy = protocol.ErrBusy
	// ErrClock: the master's clock and the client's moved apart by more than round trip
	// and drift explain. Votes that such a clock times are worth nothing
	// (docs/safety.md A3, A4).
	ErrClock = protocol.ErrClock
	// ErrNotEntered: nobody has looked at the master's record and clock since the last
	// connection to another process.
	ErrNotEntered = protocol.ErrNotEntered
	// ErrLate: the deadline of the operation had passed before the node could send it.
	ErrLate = protocol.ErrLate
	// ErrReplica: the address is a replica's. A replica's votes mean nothing.
	ErrReplica = protocol.ErrReplica
	// ErrDenied: the master, or a sentinel, refused the user or the password, or the user
	// lacks a right, or the master a command. An operator must change it.
	ErrDenied = protocol.ErrDenied
	// ErrEviction: the master may evict locks when memory runs short
	// (docs/safety.md A10).
	ErrEviction = protocol.ErrEviction
	// ErrHidden: INFO does not tell what the lock must know of its master, as behind a proxy
	// that leaves fields out.
	ErrHidden = protocol.ErrHidden
	// ErrNoWrites: the master is up and refuses to write, because its memory is full (OOM), its
	// disk is (MISCONF), or it has too few replicas (NOREPLICAS).
	ErrNoWrites = protocol.ErrNoWrites
	// ErrRecord: the node record is not one of this library's.
	ErrRecord = protocol.ErrRecord
	// ErrProtocol: the node record was written by another version of this library.
	ErrProtocol = protocol.ErrProtocol
)
