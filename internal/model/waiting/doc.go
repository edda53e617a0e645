// SPDX-License-Identifier: Apache-2.0

// Package waiting explores the waiter as it ships: the machine of package internal/lock/waiting, with the calls of package
// internal/lock/quorum, over three masters that are votesmodel's, which is replayed on the scripts. What is written here is what package
// internal/lock/wait does for the machine, and what is between clients and masters.
//
// Two or three processes want one lock, each with a line of callers. Ops to one master are executed in the order in which they were
// sent; everything else comes in any order. Messages are lost, late and twice; a connection breaks before or behind an op; a master's clock
// jumps; a process dies; a caller gives up at any moment; a woken caller may run late.
//
// In every state:
//
//   - no two hold the lock;
//   - each token is larger than the one before;
//   - nothing is left on a master when nobody wants the lock any more, unless a process died;
//   - no vote that a process was handed outlives its sign of life, if the process dies;
//   - from every state everybody can be served: a way to the grant of each caller is open, whatever was lost, came late or jumped before, by time and timers
//     alone. Where nothing was lost or jumped, and no process died with a vote, it is open without the long timer: nobody sleeps beside a free lock,
//     and no two give back to each other for ever.
//
// Each defence on the client's side can be dropped (Rule), and its lack is found. The test has the worlds; here is what breaks:
//
//	rule    the defence that is dropped                                    without it
//	H1      a handed vote counts from the stamp in its message             two hold the lock
//	H4      giving up removes the places as well as the votes              something is left
//	H5      once a give-back is sent, that vote does not count             one token is granted twice
//	H6      each attempt has an id of its own                              something is left
//	H11     votes that no message can complete are given back              only a timer helps
//	H12     a handed vote lasts no longer than a sign of life              a dead waiter's votes last on
//	H14     ops to one master are executed in their order                  something is left
//	H17     a vote that is not believed is given back without a hand       two hold the lock
//	H19     a place whose client no message reaches is passed by           only a timer helps
//	R5      a quorum has the token before the lock is held                 one token is granted twice
//	few     Gathering, Timer: an attempt follows if no other votes come    only a timer helps
//	wake    Wake makes the caller ask                                      only a timer helps
//	vote    Vote: a vote that comes while the caller sleeps                only a timer helps
//	free    Free: the lock may be free where the caller took a place       only a timer helps
//	timer   Queued, Timer: a message that was lost costs a while           somebody is never served
//	offer   what a caller was offered and does not take is released        something is left
//	rest    a master that lets nobody take over is sent the release        something is left
//	passes  Passing: the turn comes with the release, or after a moment    only a timer helps
//
// H2, H3, H7 to H10, H13, H15, H16 and H18 are the masters' or need votes that vanish: see handoffmodel. The other half of H11, that all
// masters order by one ticket, makes no dead end, because each pause of a waiter opens a way; votesmodel has that order. Where a world is too
// large for dead ends, walks look for states in which nothing happens by itself.
//
// Only tests explore, so all but this comment is in test files.
//
// Not modelled: extends and top-ups, readers, re-entry, Redisson, a subscription that is not there yet, masters that recover, ops of
// several locks in one call.
package waiting
