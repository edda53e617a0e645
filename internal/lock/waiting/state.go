// SPDX-License-Identifier: Apache-2.0

package waiting

// State is where the caller stands whose turn it is. The table in the package comment has all transitions.
type State uint8

// The states of a [Machine].
const (
	Idle      State = iota // nobody has the turn
	Passing                // the next caller's turn comes with the release by this process
	Begun                  // the caller has the turn, and has not asked
	Asking                 // an attempt is under way
	Queued                 // the attempt is open: it has places in queues, and no votes
	Gathering              // it has some votes of which messages told, or expects some: the others come within a moment
	Stuck                  // it got some votes by replies alone: they are given back after a moment
	StepBack               // it gives its votes back and takes places without votes
)

var stateTexts = [...]string{"Idle", "Passing", "Begun", "Asking", "Queued", "Gathering", "Stuck", "StepBack"}

// String is the name of the state.
func (s State) String() string { return stateTexts[s] }

// sleeping says whether the attempt is open while its caller sleeps.
func (s State) sleeping() bool { return s >= Queued }
