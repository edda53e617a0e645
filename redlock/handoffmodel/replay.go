// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Real is a real master, or a stand-in, that Replay drives. A Path tells it what ids and states to use. A method returns
// an error only if there was no reply.
type Real interface {
	// Swap and Claim execute one op, and return once what it published has arrived: at Published, in any order.
	Swap(op Swap) (Reply, error)
	Claim(op ClaimOp) (Reply, error)
	// Published returns what arrived since it was last called on the channels of clients that listen.
	Published() ([]Notice, error)
	// Beat takes a sign of life.
	Beat(client string, sign Sign) error
	// Expire removes the holder's vote as an expiry does, and Lapse the client's sign of life.
	Expire(holder string) error
	Lapse(client string) error
	// Listen has the client subscribe its channel, or unsubscribe it.
	Listen(client string, on bool) error
	// JavaWaits has a Redisson client subscribe the lock's channel, or unsubscribe it.
	JavaWaits(on bool) error
	// JavaHolds has a Redisson client take the lock for PathTTL if it is free, or release it, and reports whether it did.
	JavaHolds(on bool) (bool, error)
	// SetState sets the record state of the node record and leaves everything else.
	SetState(state string) error
}

// DivergenceError says that a master did not do what the model does.
type DivergenceError struct {
	Path Path     // up to and with the step in question
	Got  PathStep // that step with the master's answers in it
}

// Error tells what the master did, then the path as a story.
func (e *DivergenceError) Error() string {
	return fmt.Sprintf("handoffmodel: at the last step the master did this instead: %v\n%s", e.Got, e.Path)
}

// slack is how much less than the model's a TTL may be that a master tells: the model's time stands still.
const slack = 2 * time.Second

// Replay executes a path against a fresh master, whose counter is 0, and compares every answer and message. It returns
// nil, a *DivergenceError for the first that differs, or an error of the master.
func Replay(p Path, at Real) error {
	for i, step := range p {
		got, err := deliver(step, at)
		if err != nil {
			return fmt.Errorf("handoffmodel: step %d, %v: %w", i+1, step, err)
		}
		if !same(&got, &step) {
			return &DivergenceError{p[:i+1], got}
		}
	}
	return nil
}

// deliver executes one step and returns it with the master's answers in place of the model's.
func deliver(step PathStep, at Real) (got PathStep, err error) {
	got = step
	switch step.Event {
	case Swapped:
		got.Reply, err = at.Swap(step.Swap)
	case Claimed:
		got.Reply, err = at.Claim(step.Claim)
	case Beaten:
		err = at.Beat(step.Client, step.Sign)
	case Expired:
		err = at.Expire(step.Holder)
	case Lapsed:
		err = at.Lapse(step.Client)
	case Listening:
		err = at.Listen(step.Client, step.On)
	case JavaWaits:
		err = at.JavaWaits(step.On)
	case JavaHolds:
		got.Done, err = at.JavaHolds(step.On)
	case StateBecomes:
		err = at.SetState(step.State)
	}
	if err == nil && (step.Event == Swapped || step.Event == Claimed) {
		got.Notices, err = at.Published()
	}
	return got, err
}

// same compares the answers of two steps: TTLs within the slack, messages in any order. What is sent to clients that do
// not listen arrives nowhere.
func same(got, want *PathStep) bool {
	near := func(got, want time.Duration) bool { return got <= want && want-got < slack }
	a, b := got.Reply, want.Reply
	ttls := near(a.Held, b.Held) && near(a.TTL, b.TTL)
	a.Held, a.TTL, b.Held, b.TTL = 0, 0, 0, 0
	return ttls && a == b && got.Done == want.Done && slices.Equal(sorted(got.Notices), sorted(want.Notices))
}

func sorted(notices []Notice) []Notice {
	return slices.SortedFunc(slices.Values(notices), func(a, b Notice) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Hand.Holder, b.Hand.Holder))
	})
}
