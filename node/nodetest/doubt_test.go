// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// submit queues req, which may be for another lock than the queue's.
func (q *queue) submit(req protocol.Request) *protocol.Op {
	q.t.Helper()
	req.Start = q.clock.Elapsed()
	req.Deadline, req.Token = req.Start+time.Minute, 1
	op := &protocol.Op{Request: &req, To: q}
	if !q.Submit(op) {
		q.t.Fatalf("%v of %s was turned away: %v", req.Kind, req.Lock.Name, op.Reply.Err)
	}
	return op
}

// knowsTheClock has the lane read the master's clock, and then do nothing for so long that it reads it again with the next vote.
func (q *queue) knowsTheClock(idle time.Duration) {
	q.acquire(alice+":1", 5)
	q.release(alice + ":1")
	time.Sleep(idle)
}

// What asks for a vote and is queued when a jump of the master's clock is noticed is not sent: the TIME behind it would fit the one that
// showed the jump. What undoes is sent.
func TestNode_clockJumpIsNoticed_queuedVotesAreNotAsked(t *testing.T) {
	withQueue(t, func(q *queue) {
		q.knowsTheClock(time.Second)
		q.m.StepClock(20 * time.Second)
		q.SetFault(func(cmd Command) Fault {
			if slices.Contains(cmd.Keys, "first") {
				return Fault{ReplyDelay: 20 * time.Millisecond}
			}
			return Fault{}
		})
		first := q.submit(acquireOp("first", alice+":2", 10*time.Second))
		time.Sleep(5 * time.Millisecond)
		adopt := protocol.Request{Kind: protocol.Adopt, Lock: protocol.NewLock("adopted", protocol.Plain), Holder: alice + ":3", From: bob + ":3", TTL: 10 * time.Second}
		queued := []*protocol.Op{
			q.submit(acquireOp("second", alice+":4", 10*time.Second)),
			q.submit(adopt),
			q.submit(protocol.Request{Kind: protocol.Confirm, Lock: protocol.NewLock("confirmed", protocol.Plain), Holder: alice + ":5"}),
		}
		release := q.submit(releaseOp("released", alice+":6"))
		for range 2 + len(queued) {
			<-q.ch
		}
		if r := first.Reply; r.Outcome != protocol.Unknown || !errors.Is(r.Err, node.ErrClock) {
			t.Errorf("the vote that was on its way: %+v", r)
		}
		for _, op := range queued {
			if r := op.Reply; r.Outcome != protocol.NotSent || !errors.Is(r.Err, node.ErrClock) {
				t.Errorf("%v of %s was queued: %+v", op.Kind, op.Lock.Name, r)
			}
		}
		if r := release.Reply; r.Outcome != protocol.Absent {
			t.Errorf("a release was queued: %+v", r)
		}
	})
}

// The master had forgotten a script, so its call and those behind it are sent again, and the connection breaks then. The answers about the
// master that came the first time are lost with it: it might have said that its clock jumped before the votes that came the first time.
func TestNode_sentAgainAndBroken_earlierVoteDoesNotCount(t *testing.T) {
	for name, idle := range map[string]time.Duration{
		"TIME and INFO are asked": time.Second,
		"TIME alone is asked":     7 * time.Millisecond, // INFO is asked each 10 ms
		"neither is asked":        2 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			withQueue(t, func(q *queue) {
				q.knowsTheClock(idle)
				q.m.StepClock(20 * time.Second)
				calls := 0
				q.SetFault(func(cmd Command) Fault {
					if cmd.Name != "acquire" {
						return Fault{}
					}
					switch calls++; calls {
					case 2:
						return Fault{Refuse: errNoScript}
					case 3:
						return Fault{Lose: LoseReply}
					}
					return Fault{}
				})
				first := acquireOp("first", alice+":2", 10*time.Second)
				second := acquireOp("second", alice+":2", 20*time.Second) // in a call of its own, for its TTL is another
				first.Token, second.Token = 1, 1
				for i, r := range q.askAll([]protocol.Request{first, second}) {
					if r.Outcome != protocol.Unknown {
						t.Errorf("acquire %d: %+v", i+1, r)
					}
				}
				if held := q.m.Holder("first"); held != alice+":2" {
					t.Errorf("%q has the first vote: this test proves nothing", held)
				}
			})
		})
	}
}
