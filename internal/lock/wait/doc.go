// SPDX-License-Identifier: Apache-2.0

// Package wait has the callers of one client that wait for its locks. They form a line for each lock and mode; the first of a line has the
// turn, and makes rounds as one contender among those of other processes. What it does next is decided by [waiting.Machine], which is pure.
// This package tells the machine what happened, and does what it says, and nothing else: it has the lines, the goroutines that wait, the
// timers, the subscriptions and the heartbeat.
//
// It knows nothing of leases, of users' errors and of Observers. Each call brings a [Face], which makes a lease of a round that won and an
// error of one that did not, and a client brings a [Config].
//
//   - [Lines] is all of it: Lock, Offer, and the news that a client brings, as Message, Subscribed, LookAgain and Released.
//   - [Caller] is one call.
//
// To change what a waiter does next, change waiting.Machine. To change which message means what, change [Lines.Message]. To change the order
// of the callers of one process, change joinLocked and leaveLine. To change which of them take a lock over from one another, change [Lines.Offer].
//
// # Goroutines
//
// The goroutine of a caller is in [Lines.Lock] until the call ends. While it has the turn it is the only one that uses open, wake, timer,
// rounds and offloaded of its contender; the lock of Lines passes them on to the next. A node's goroutine brings messages and answers, a
// timer's brings its end, and another caller's brings a release: none of them waits, and each only tells the machine, under the lock, and
// wakes the caller if the machine says so. A release that is offered is settled by the caller that has the offer, with nothing locked, or by its own
// when that has not come to it in time.
//
// # Lock order
//
// docs/internals/architecture.md has the order of all mutexes. Lines.mu is taken before that of a quorum.Call, which the machine has ask a master again,
// before those of a node's lane and subscriptions, and before that of what keeps the masters, which [Failed].Late asks. So a lease and its hold are not locked when Released is called, a call that receives an
// answer unlocks its own mutex before it tells its [quorum.Sleeper], and a node has nothing locked when it brings a message or an answer.
// Of Config only Over, Jitter and the functions of Masters are called under Lines.mu: they lock nothing of this package.
package wait
