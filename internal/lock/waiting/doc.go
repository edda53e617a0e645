// SPDX-License-Identifier: Apache-2.0

// Package waiting decides for the callers of one process that wait for one lock: what the caller does next whose turn it is, which
// masters are asked, which place in the masters' queues it has, and how long it waits without being woken. It is pure: package wait
// tells it what happened, does what it says, and keeps the line, the timers and the subscriptions.
//
//   - [Machine] is the waiter: a state, and a transition for each [Event]. It says what is to be done: a [Do].
//   - [Wakes] is which masters may grant the lock now.
//   - [Place] is the place in the masters' queues and the pause between attempts.
//
// To change what a waiter does next, change Machine. To change which masters it asks, change Wakes. To change the order of waiters or
// their back-off, change Place. Package internal/model/waiting explores the machine as it is, over an exact model of the masters.
//
// Sets of masters are bits of a uint64.
//
// # The states
//
// An attempt has a holder id of its own. One that gave no lease stays open while its caller sleeps: its places in the masters' queues are
// acquires that the masters have not executed yet, and may become votes.
//
//   - Idle: nobody has the turn.
//   - Passing: the next caller's turn comes with the release by this process, or after a trip and passAfter.
//   - Begun: the caller has the turn, and has not asked. If the turn came with a release, it may take the lock over, and leaves with it.
//   - Asking: an attempt is under way. Each master is asked when it has woken the caller, and the others when the attempt is decided or
//     the timer fires.
//   - Queued: the attempt is open, and has no votes.
//   - Gathering: messages told of some votes, or are about to. The others come within a moment, so a wake of one master does not end it.
//   - Stuck: some votes came, by replies alone. After a moment they are given back, so that they do not keep others from a quorum.
//   - StepBack: that is to be done now, unless a wake says that an attempt is of use.
//
// The caller whose turn it is is another goroutine than the one that brings the news. So an event may only wake it, and it asks what there
// is to do with Awake. To do - is nothing, Arm sets the timer, and Wake wakes the caller. The last column says which of the rows of a
// state and an event it is. A test compares the other columns with what the machine does.
//
//	state | event | next | do | if
//	Idle, Passing | Turn | Begun | - | the line has told the first caller
//	Begun | Awake | Asking | Begin |
//	Asking | Awake | same | Ask, Arm | it is the first time, and not all masters are asked
//	Asking | Awake | same | Ask | the masters that may grant by now, and were not asked
//	Asking | Decided | same | Ask | the rest
//	Asking | Vote | same | Wake | a quorum of votes: the attempt is decided
//	Asking | Vote | same | - | fewer
//	Asking | Refused | same | Fail | no quorum has answered for longer than the caller's patience
//	Asking | Refused | Queued | Arm | no votes; the patience of Place
//	Asking | Refused | Queued | Arm, Wake | a quorum of votes by now
//	Asking | Refused | Gathering | Arm | a message told of a vote, or this process released the lock
//	Asking | Refused | Stuck | Arm | votes by replies alone
//	Asking | Refused | StepBack | Arm, Wake | the same, where no message can complete them
//	Asking | CtxDone | same | Skip | some masters were not asked
//	Asking | CtxDone | same | GiveBack | all were
//	Queued, Gathering, Stuck, StepBack | CtxDone | same | GiveBack |
//	Queued, Gathering, Stuck, StepBack | Awake | same | Take | a quorum of votes
//	Queued, Gathering, Stuck, StepBack | Outvoted | Asking | Begin | which gave no lease: it came too late, or its token was overtaken
//	Queued, Stuck | Awake | Asking | Begin | a master may grant
//	Queued, Stuck | Awake | same | - | none may
//	Gathering | Awake | Asking | Begin | the timer fired, or this process released the lock
//	Gathering | Awake | same | - |
//	StepBack | Awake | Asking | Begin | a master may grant
//	StepBack | Awake | same | QueueOnly | none may
//	StepBack | Placed | Queued | Arm | as Refused, and so below
//	StepBack | Placed | Queued | Arm, Wake |
//	StepBack | Placed | Gathering | Arm |
//	StepBack | Placed | Gathering | Arm, Wake | the lock is free on a quorum of masters by now
//	StepBack | Placed | Stuck | Arm |
//	StepBack | Placed | StepBack | Arm, Wake |
//	Queued, Gathering, Stuck, StepBack | Free | same | Wake | the lock is free on a quorum of masters that have the caller first
//	Queued, Gathering, Stuck, StepBack | Free | same | - | on fewer: one that wakes the caller makes it ask those too
//	Queued | Vote | Gathering | Arm | fewer than a quorum, and a message told of one
//	Queued | Vote | Stuck | Arm | fewer, by replies alone
//	Queued | Vote | StepBack | Wake | the same, where no message can complete them
//	Queued, Gathering, StepBack | Vote | same | Wake | a quorum
//	Gathering, StepBack | Vote | same | - | fewer
//	Stuck | Vote | Gathering | Wake | a quorum
//	Stuck | Vote | Gathering | - | fewer, and a message told of one: the timer runs already
//	Stuck | Vote | same | - | fewer, by replies alone
//	Idle, Passing, Begun, Asking, Queued, Gathering, Stuck, StepBack | Wake, Heard | same | Wake | masters may grant
//	Begun, Asking, Gathering, Stuck, StepBack | ReleasedHere | same | - | others are ahead, or messages will tell
//	Begun, Asking, Queued, Gathering, Stuck, StepBack | ReleasedHere | same | Wake | no message will: ask behind the release
//	Queued | ReleasedHere | same | - | others are ahead
//	Queued | ReleasedHere | Gathering | Arm | messages will tell
//	Passing | ReleasedHere | same | PassTurn | next it is Turn
//	Passing | Timer | same | PassTurn | the hold is not brief
//	Idle, Begun, Asking, Queued, Gathering, StepBack | Timer | same | Wake | a message may be lost: ask all
//	Stuck | Timer | StepBack | Wake |
//	Begun | CtxDone | same | - | nothing was asked
//	Idle, Passing, Begun, Asking, Queued, Gathering, Stuck, StepBack | Left | Idle | - | nobody is next
//	Begun, Asking, Queued, Gathering, Stuck, StepBack | Left | Idle | PassTurn | next it is Turn
//	Begun, Asking, Queued, Gathering, Stuck, StepBack | Left | Passing | Arm | the caller has the lock, and the line's holds are brief
//	Passing | Left | same | - | the first left before its turn, and another is next
//	Passing | Closed | Idle | Wake | the client is over
//	Idle, Begun, Asking, Queued, Gathering, Stuck, StepBack | Closed | same | Wake |
package waiting
