// SPDX-License-Identifier: Apache-2.0

// Package wait has the callers of one client that wait for its locks. They form a line for each lock and mode; the first of a line has the
// turn, and makes rounds as one contender among those of other processes. What it does next is decided by [waiting.Machine], which is pure.
// This package tells the machine what happened, and does what it says, and nothing else: it has the lines, the goroutines that wait, the
// timers, the subscriptions and the heartbeat.
//
// It knows nothing of leases, of users' errors and of Observers. Each call brings a [Face], which makes a lease of a round that won and an
// error of one that did not, and a client brings a [Config].
//
//   - [Lines] is all of it: Lock, and the news that a client brings, as Message, LookAgain and Released.
//   - [Caller] is one call.
//
// To change what a waiter does next, change waiting.Machine. To change which message means what, change [Lines.Message]. To change the order
// of the callers of one process, change joinLocked and leaveLine.
//
// # Goroutines
//
// The goroutine of a caller is in [Lines.Lock] until the call ends. While it has the turn it is the only one that uses open, wake, timer,
// rounds and offloaded of its contender; the lock of Lines passes them on to the next. A node's goroutine brings messages and answers, a
// timer's brings its end, and another caller's brings a release: none of them waits, and each only tells the machine, under the lock, and
// wakes the caller if the machine says so.
//
// # Lock order
//
// Who has one of these locked may lock those after it, and none before it:
//
//  1. the mutex of a Lease, 2. that of its hold (package hold): both are free when Released is called
//  3. Lines.mu
//  4. the mutex of a quorum.Call: the machine is told of its votes, and has it ask a master again
//  5. those of a node's lane and of its subscriptions: Submit, Subscribe, Unsubscribe
//
// A call that receives an answer unlocks its own mutex before it tells its [quorum.Sleeper], which locks Lines.mu. A node has nothing locked
// when it brings a message or an answer, or says that it is subscribed. Of Config only Over, Jitter and the functions of
// Masters are called under Lines.mu: they lock nothing of this package.
package wait
