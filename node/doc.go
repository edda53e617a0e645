// SPDX-License-Identifier: Apache-2.0

// Package node connects a client to one Redis master and sends the operations of a quorum
// lock to it.
//
// A user calls [Open] or [New] and gives the [Node] to redlock.New. What a coordinator
// asks of a node is in internal/protocol.
//
// It guarantees, whatever the network does:
//
//   - The master executes operations in the order in which they were submitted, as long
//     as one connection lasts.
//   - An operation whose reply is lost has the outcome unknown. It never counts as a
//     vote.
//   - An operation that was never sent is reported as not sent, and leaves nothing
//     behind.
//   - A release that the master has not acknowledged is sent again, until the master
//     acknowledges it or its vote has expired.
//
// It needs Redis 6.2 or later, or Valkey; scripts and commands use nothing newer.
package node
