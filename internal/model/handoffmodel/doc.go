// SPDX-License-Identifier: Apache-2.0

// Package handoffmodel is the time argument of docs/internals/handoff.md as an explicit-state model: a release grants the lock to a place of the queue on
// each master, and a waiter holds the lock once a quorum of masters has told it so.
//
// Clocks is one world of it. Check visits every reachable state of a small world, nearest first, and returns a shortest counter-example; Walk
// makes a random run of a larger one. It is about time: no two holders at once, nothing left behind, one vote for an id and master. It is looser
// than what ships: every op of the exact model of the scripts, votesmodel.Master, is a step of it (TestMaster_everyOp_isAStepOfTheWorld). Tokens,
// without clocks, are in package tokenmodel. What a waiter does is in internal/model/waiting, which runs the waiter that ships.
//
// Each rule of the protocol can be dropped. What breaks then:
//
//	rule            without it                                                        states   test
//	H1              two holders: a message that is read late counts for a whole TTL   22,338   TestClocks_droppedRules_refuted/H1
//	H2              two holders: grant, beat, late message                               537   TestClocks_droppedRules_refuted/H2
//	H3              two holders: an answer extends what the master does not              259   TestClocks_droppedRules_refuted/H3
//	H4 leave        a vote is left on a master, and nobody gives it back                  34   TestClocks_droppedRules_refuted/H4_leave
//	H4 unlock       a place is left on a master, and is granted later                     13   TestClocks_droppedRules_refuted/H4_unlock
//	H5              two holders: a vote counts that is given back                     19,383   TestClocks_droppedRules_refuted/H5
//	H6              two holders: the old message counts for the new place                867   TestClocks_droppedRules_refuted/H6
//	H9 settle       two holders: a recovering master hands on what it forgot          53,089   TestClocks_droppedRules_refuted/H9_settle
//	H9 claim        two holders: a vote outlives the wait of an epoch that ended      23,080   TestClocks_droppedRules_refuted/H9_claim
//	H10 epoch       two holders: a place of the old epoch is granted in the new one    3,998   TestClocks_droppedRules_refuted/H10_epoch
//	H13             two holders: a restarted master votes again at once               28,772   TestClocks_droppedRules_refuted/H13
//	H14             a place is left on a master: the enqueue came after its leave         17   TestClocks_droppedRules_refuted/H14
//	H16             two holders: a clock jumps, and the master hands what it expired  75,456   TestClocks_droppedRules_refuted/H16
//	H17             two holders: the same, by a vote that nobody believed              5,880   TestClocks_droppedRules_refuted/H17
//
// H7, H8, H15 and H18 need tokens: see tokenmodel. H11, H12 and H19 are about what waiters wait for: see internal/model/waiting.
//
// The sound protocol holds in every state of these worlds; the large ones in .ci/run, and some in make soak alone (REDLOCK_TIER=soak):
//
//	Clocks, three masters and two clients, in seven worlds    225,000 to 1,450,000 states   TestClocks_soundWorlds_exhausted
//	the same with ticks of one, and where an epoch ends       60,000 to 1,030,000
//	Clocks, one master of any number, two or three clients    14,000 to 1,480,000
//
// Not modelled: top-up, re-entry, batching of ops in a script, multilock. docs/internals/handoff.md says why they change nothing.
// Only tests explore, so all but this comment is in test files. Nothing here starts a goroutine. A world may be shared between goroutines.
package handoffmodel
