// SPDX-License-Identifier: Apache-2.0

// Package membership decides what happens to the record of a master: how it begins to vote, how it votes again after it
// lost its data, and how a list of masters is replaced by another one. The decision is one pure function, [Next]. It
// reads no clock, sends nothing and draws no random numbers: all of that comes in with a [View] and goes out as an
// [Action]. Package internal/model/membershipmodel explores the same function with everything that may go wrong around it.
// docs/internals/membership.md has the rules, each with the counter-example that it prevents.
//
// # Words
//
// An epoch is a period in which the same [Terms] hold: names of the masters, maximum TTL, drift. It has a number that
// grows with each change. The record state names epoch, incarnation and phase of a master; every script that votes
// compares it as one string. The intent of a record is a promise in a change of masters. Record state and intent
// are the head. Every step is one compare-and-set of one head. W is the maximum TTL and twice its drift.
//
// # Phases
//
// A master is lost when it has no record state, or one of another incarnation: it may have forgotten anything. R,
// quarantined, grants nothing and waits. R whole is the same for a master that forgot nothing but whose clock moved. V
// votes. X, retired, takes nothing: its epoch is being left. A live lease may put its vote back on R, after an extend that was
// won, and extend it there.
//
// # Transitions
//
// One test holds this table, and its copy in docs/internals/membership.md, against a scene for each row. Another one holds it
// against what the explorer sees. "before" is a record state of another epoch than the one that the transition leads
// to. "promise" changes the intent alone.
//
//	| from     | to      | goal   | when |
//	| lost     | R       | serve  | the client vouches: it saw the epoch whole less than a maximum TTL ago; or the list is fixed |
//	| lost     | R       | init   | the operator vouches |
//	| lost     | R       | change | the master is in the new list only: it is prepared |
//	| R before | R       | serve  | as lost |
//	| R before | R       | init   | as lost; of two inits the higher number wins; R of another list if the operator abandons the change |
//	| R before | R       | change | as lost; the list that the master was prepared for was given up |
//	| X before | R       | init   | the operator abandons the change |
//	| X        | R       | init   | the operator abandons the change, and a minority votes still |
//	| X before | R       | change | the master is in the new list only, and was retired by an earlier change |
//	| V before | R       | change | the same, for a master that an earlier change left behind in the same list |
//	| R        | V       | serve  | this state stood for W, and the client vouches for it, or its stamp says both; or a plan lists its nonce and its epoch has begun |
//	| R        | V       | init   | all masters stood so for W; or a master votes already |
//	| R        | V       | change | the plan lists its nonce, and the epoch before is over or the new one has begun |
//	| R        | R       | serve  | its clock moved: the wait begins anew; or the client vouches and stamps it |
//	| R whole  | R whole | serve  | the same; any client of the epoch stamps it |
//	| V        | R whole | serve  | its clock moved |
//	| R whole  | V       | serve  | this state stood for W |
//	| V        | V       | change | promise |
//	| X        | X       | change | promise; or it is retired again for a larger ballot |
//	| V        | V       | cancel | promise, without a target |
//	| X        | X       | cancel | promise, without a target |
//	| V        | X       | change | a quorum promised, the plan is safe, and all masters of the target are ready |
//	| V before | V       | change | the epoch before is over, or the new one has begun |
//	| X before | V       | change | the same |
//	| V before | V       | serve  | a master votes in the client's epoch, which began with a change from the one before |
//	| X before | V       | serve  | the same |
//	| X        | V       | cancel | a quorum that is not retired promised to cancel |
//	| X        | V       | serve  | the same |
//
// An epoch is over when a quorum of its masters was retired for one ballot and stood so, unbroken, for W.
//
// # How a driver uses it
//
// Make a [View], then read every master (identity of the connection, then the record), fill in Masters, Now, Wall and a
// fresh Nonce, call [Memory.Observe] and Next, do the one thing that the Action says, and begin again with a new View. A
// compare-and-set that was refused, or whose answer was lost, is never sent again. Times: Sent is taken before a request
// is sent and Received after its answer. A jump of the client's own clock calls for a new Memory.
//
// # Departures from the specification
//
// This machine was specified first and then explored. It differs where exploring showed a
// fault, or something simpler that holds:
//
//   - A ballot belongs to its plan and not to a process. The intent carries the whole plan. So any process goes on with
//     any ballot, and there is nothing to remember between looks but sight. A process that had to remember the plan of
//     its ballot could propose two plans with one ballot after an answer was lost.
//   - Counters and intents are learned from n-q+1 masters that lost nothing: V, X and R whole, not V alone. With
//     V alone a master that is lost in the middle of a change takes its counters from a clock, although enough masters
//     have them.
//   - R whole keeps its counters and intent and needs nobody to vouch for it: it never left its epoch.
//   - A cancelled change takes a retired master back to V at once, and not to R: it has forgotten nothing.
//   - A client of the new list finishes a change that has begun: it lets listed masters vote.
//   - X of an earlier epoch is prepared like a lost master where only the new list has it. Without this nobody could
//     change back.
//   - A change never takes over the plan of another target: it refuses and names that change. The operator decides.
//   - Init is recovery on the operator's word. It goes on where a minority still votes, which is the case that its
//     command is recommended for, and takes the number of that minority. The first master that votes keeps the nonces
//     of all that begin at once. Two holders were found where the word that nothing was ever locked was believed longer.
//   - The check of sight at the claim (half of rule 1) is not needed for exclusion: no world was refuted without it. It
//     is kept so that a client of a list that was left writes nothing.
//   - An init that gives up a change takes a new number, and takes back masters of an epoch in which a minority votes
//     still. Without either, a change that died after it had retired two of three masters could not be given up.
//   - Whoever vouches for a quarantined master stamps it: it writes what the clocks of a quorum show. Without stamps a
//     master never votes again where no process lives for W.
//   - Clock notes share a frame, and not a round. Two holders were found where a round was written to some masters
//     and not yet to others.
//   - Where as many clocks say one thing as another, their votes do not count until another clock can be compared, or
//     until the same doubt has stood for W. Without the second half two masters of three could stop for ever.
//   - A vote that a lease has put back on a quarantined master does not count in the explored world. Two holders were found where
//     it does and an attempt may ask for a whole TTL. What ships counts it: docs/internals/membership.md says on what that rests.
package membership
