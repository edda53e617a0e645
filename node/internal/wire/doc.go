// SPDX-License-Identifier: Apache-2.0

// Package wire turns requests into Redis commands, and the master's answers into replies.
//
// It knows the scripts, the order of their arguments, what each answer means, and the
// words in which each server reports an error. It does not know when a request is sent or
// what happens if nobody answers: package node does. It imports internal/protocol,
// internal/mutants and node/lua.
//
// The parts that package node uses:
//
//   - [Pipeline] gathers requests, sends them over a [Conn] and reads the replies.
//   - [Keys] are the names of a node's own keys.
//   - [Sources] and [Check] are what a new connection loads and runs.
//   - [IsReply], [NotServing] and [Explain] classify errors.
//
// To add a kind of request, add it to command and answer, or to votes if it belongs into
// the script that carries many of them.
package wire
