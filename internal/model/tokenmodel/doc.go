// SPDX-License-Identifier: Apache-2.0

// Package tokenmodel is the fencing-token theorem as code: an explicit-state model of how attempts win a token from
// N masters, with an explorer that visits every reachable state.
//
// Guarantee of the sound rule, WhileHeld, for any message delay, loss and order, any abandoned attempt, any proposed
// floor and any clock (votes may vanish at any moment): no token is granted twice, and an attempt that starts after a
// grant is granted a larger token. Two conditions, each with a broken twin here that the explorer refutes: an acquire
// executes at most once per master (Resent), and a vote above the token is never put under it (LateVote). Two
// things need clocks in addition: that tokens follow the order of the grants, and the recovery of a master that lost
// its data (QuarantineThenRelearn).
//
// A Model with Handed is the same theorem for masters that grant by themselves, as in docs/internals/handoff.md. A place in a queue
// is an acquire that the master has not executed yet, so no acquire is refused: a master gives its vote to an attempt at
// any moment at which the lock is free, also after the attempt has left. The proposal is that of whoever has the vote
// handed on, so it may be any of Floors at each grant. A claim looks at a vote and tells the counter, which another lock
// may have raised. An attempt that hears of a larger vote fixes a larger token. Where the clocks are right a vote of
// before a crash has run out when the master's wait is over; its attempt may live on, by votes that it renews.
//
// What breaks without a rule of the hand-off (docs/internals/handoff.md) that tokens need:
//
//	rule            without it                                                  states   test
//	H7              one token is granted twice, once votes vanish              166,740   TestTokens_droppedRules_refuted/H7
//	H8 look         one token is granted twice                                   9,014   TestTokens_droppedRules_refuted/H8_look
//	H8 confirm      one token is granted twice                                   8,612   TestTokens_droppedRules_refuted/H8_confirm
//	H10 incarnation one token is granted twice: a restored place is granted again 22,652 TestTokens_droppedRules_refuted/H10_incarnation
//	H15             two readers have one token                                  16,643   TestTokens_droppedRules_refuted/H15
//	H18             one token is granted twice: an answer of before a crash counts 6,789 TestTokens_droppedRules_refuted/H18
//	R4              one token is granted twice: a late vote above it counts     23,247   TestTokens_droppedRules_refuted/R4
//
// The sound rule holds in worlds of three and five masters of 99,000 to 7,570,000 states (TestTokens_soundWorlds_exhausted;
// the large ones in .ci/run, and some in make soak alone).
//
// Not modelled: extension, top-up and re-entrance (they mint no token), and change of membership. The argument for any N is
// in docs/safety.md, section 3; this package checks it for small N and keeps the broken variants refuted.
//
// The same transitions drive real masters: Paths makes random runs of a model, Replay sends their deliveries to
// implementations of Master and compares every reply (TestScripts_modelPaths_replyAsTheModel). Only tests explore, so all but this
// comment is in test files. Nothing here starts a goroutine; all values may be shared between goroutines as long as nobody writes to a
// Model's slices.
package tokenmodel
