// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/internal/unacked"
)

var (
	errNoKey    = errors.New("NOPERM No permissions to access a key")
	errNoScript = errors.New("NOSCRIPT No matching script")
)

// A kept release that the master refused because of the user's rights goes out in a call of its own, so that what callers ask need not be
// sent a second time.
func TestNode_keptReleaseDenied_isACallOfItsOwn(t *testing.T) {
	withQueue(t, func(c *queue) {
		keys := 0
		c.SetFault(func(cmd Command) Fault {
			switch {
			case slices.Contains(cmd.Keys, "other"):
				keys = max(keys, len(cmd.Keys))
				return Fault{Refuse: errNoKey}
			case slices.Contains(cmd.Keys, "slow"):
				return Fault{ReplyDelay: 2 * unacked.Pause}
			}
			return Fault{}
		})
		ask := func(kind protocol.Kind, name string) {
			c.send(protocol.Request{Kind: kind, Lock: protocol.NewLock(name, protocol.Plain), Holder: "h", Token: 1, TTL: time.Minute}, time.Minute)
		}
		ask(protocol.Release, "other")
		if op := <-c.ch; op.Reply.Outcome != protocol.Refused || !errors.Is(op.Reply.Err, node.ErrDenied) {
			t.Fatalf("%+v", op.Reply)
		}
		ask(protocol.Acquire, "slow")
		time.Sleep(unacked.Pause + time.Millisecond)
		ask(protocol.Acquire, "behind") // goes out with the release when the slow one is answered
		for range 2 {
			if op := <-c.ch; op.Reply.Outcome != protocol.Granted {
				t.Errorf("%s: %+v", op.Lock.Name, op.Reply)
			}
		}
		if keys != 3 {
			t.Errorf("the release was in a call of %d keys, want 3", keys)
		}
	})
}

// What the lane asks about the master behind votes is asked again with them: a clock that jumped before the votes were given is noticed.
func TestNode_sentAgain_timeIsBehindTheVotes(t *testing.T) {
	withQueue(t, func(c *queue) {
		c.knowsTheClock(time.Second)
		asked := 0
		c.SetFault(func(cmd Command) Fault {
			if cmd.Name != "acquire" {
				return Fault{}
			}
			if asked++; asked == 1 {
				return Fault{Refuse: errNoScript}
			}
			c.m.StepClock(20 * time.Second)
			return Fault{}
		})
		if r := c.acquire(bob+":1", 5); r.Outcome != protocol.Unknown || !errors.Is(r.Err, node.ErrClock) {
			t.Errorf("a vote that was given after the jump: %+v", r)
		}
	})
}
