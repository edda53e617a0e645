// SPDX-License-Identifier: Apache-2.0

package handoffmodel

// Rule is one of the rules of the protocol, to be dropped from a model. docs/internals/handoff.md gives their reasons. Those that tokens need are in
// package tokenmodel, and those of the waiter in internal/model/waiting.
type Rule uint8

const (
	Sound    Rule = iota // no rule is dropped
	H1                   // a handed vote counts from the stamp in its message; dropped: from the message's arrival
	H2                   // the stamp is read at the grant; dropped: it is the newest beat that was acknowledged
	H3                   // "you hold it" dates a vote only if that op renewed it; dropped: always
	H4Leave              // a leave removes a vote too; dropped: only the place
	H4Unlock             // an Unlock removes a place too; dropped: only the vote
	H5                   // a vote does not count once its give-back is sent or owed; dropped: it does
	H6                   // every retry has a fresh holder id; dropped: it keeps its id
	H9Settle             // a settle compares the record state; dropped: a recovering master hands its vote on too
	H9Claim              // a claim compares the record state; dropped: a master that has left the epoch renews votes
	H10Epoch             // a place dies with its epoch; dropped: the queue outlives a change of masters
	H13                  // a restarted master waits for the longest TTL; dropped: it votes at once
	H14                  // ops are executed as they were sent; dropped: an enqueue may come after its leave
	H16                  // a master hands only a lock that the same op set free; dropped: also one that it finds free
	H17                  // a vote that its client has not seen, or does not believe, is given back without a hand; dropped: with one
)

var ruleNames = [...]string{
	"sound", "H1", "H2", "H3", "H4 leave", "H4 unlock", "H5", "H6", "H9 settle", "H9 claim", "H10 epoch", "H13", "H14", "H16", "H17",
}

// String is the rule's short name.
func (r Rule) String() string { return ruleNames[r] }
