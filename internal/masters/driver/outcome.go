// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"

	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/event"
)

// Outcome is what a Step saw, and what it did.
type Outcome struct {
	View   *membership.View
	Action membership.Action
	Clocks membership.Judgement
	// OurClock: this process's own clock has jumped. Every time that it measured before is wrong.
	OurClock bool
	// Pending: the clocks of these masters jumped against this process's, and it is not known yet whose did.
	Pending []bool
	// Errs says of a master that did not answer, or whose record cannot be read, why.
	Errs []error
	// Unwritten is why a master refused to write what this step has decided. A change goes on without that master. With another goal the
	// next step would decide the same.
	Unwritten error
	// Untold: a change is done, and a master that only the old list has was not told. Its clients may hear it from another one.
	Untold bool
}

// Reachable says whether a quorum of the masters of Terms answered.
func (o *Outcome) Reachable() bool {
	n := 0
	for i := range o.View.Masters {
		if o.View.Masters[i].Old && o.View.Masters[i].Answered {
			n++
		}
	}
	return n >= o.View.Terms.Quorum()
}

// BadRecord is the error of a master whose record is not ours to read, or nil.
func (o *Outcome) BadRecord() error {
	for _, err := range o.Errs {
		if errors.Is(err, protocol.ErrRecord) || errors.Is(err, protocol.ErrProtocol) {
			return err
		}
	}
	return nil
}

// NeedsWord reports whether only an operator can help: for want of records, or because those of before a restart are of another list.
func (o *Outcome) NeedsWord() bool {
	a := &o.Action
	if a.Kind != membership.Refuse {
		return false
	}
	switch a.Why.Code {
	case membership.NeedsWord, membership.NeedsMasters:
		return true
	case membership.Foreign:
		_, now := membership.Belongs(o.View, a.Why.Master)
		return !now // else that master says so for itself, and the others may wait for a program
	}
	return false
}

// Left reports whether another list took the place of this one.
func (o *Outcome) Left() bool {
	return o.Action.Kind == membership.Refuse && o.Action.Why.Code == membership.Moved
}

// Votes says whether master k of the View votes in the epoch of its list: in that in which a quorum was seen to vote or, where none was seen, in the
// newest of those that the records name. So a master that votes beside two that were emptied is still called one that votes.
func (o *Outcome) Votes(k int) bool {
	v := o.View
	e := membership.Epoch{Number: v.Memory.Number, ID: v.Terms.ID}
	for i := range v.Masters {
		if v.Memory.Number == 0 && membership.Word(v, i) == "votes" {
			e.Number = max(e.Number, v.Masters[i].Record.State.Epoch.Number)
		}
	}
	return membership.Votes(v, k, e)
}

// State is what master k of the View is, in the words that a client's Observers and metrics have too. A master whose record says that it
// votes does, also where no quorum is in reach.
func (o *Outcome) State(k int) event.State {
	v := o.View
	_, other := membership.Belongs(v, k)
	switch err := o.Errs[k]; {
	case !v.Masters[k].Answered && (cause.Refuses(err) || errors.Is(err, protocol.ErrRecord) || errors.Is(err, protocol.ErrProtocol)):
		return event.MasterRefuses
	case !v.Masters[k].Answered:
		return event.MasterDown
	case o.Votes(k):
		return event.MasterVotes
	case other, o.Left(), o.NeedsWord():
		return event.MasterRefuses
	}
	return event.MasterRecovers
}

// String is for logs.
func (o *Outcome) String() string {
	return fmt.Sprintf("%s: %s", membership.Explain(o.View, o.Action), membership.States(o.View))
}
