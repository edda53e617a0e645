// SPDX-License-Identifier: Apache-2.0

// Package masters keeps the masters of a client voting. A [Keeper] opens the client when a quorum of masters was seen, looks at them from then
// on with a [driver.Driver], tells each node whether its master may be asked for votes, and has the state of each master on a [Board].
// What a client and an operator's call share about their list of masters is here too: its [Settings], who met which process, first answers.
//
// The package knows nothing of locks, leases or callers that wait: a [Config] has functions for what follows for them.
//
// A node's goroutine may call Admit, Up, Back, Trouble, Writes and Board.Down at any time: they do no I/O, and call what listens. One
// goroutine at a time looks: that of Open first, and then one that Close ends.
package masters
