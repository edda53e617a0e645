// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// aheadClock is a clock that a test sets ahead.
type aheadClock struct {
	clock.Clock
	by atomic.Int64
}

func (c *aheadClock) Elapsed() time.Duration { return c.Clock.Elapsed() + time.Duration(c.by.Load()) }

// voting returns a node of a master whose record says that it votes, on clk, and a client that reaches the server past it.
func voting(t *testing.T, s *localredis.Server, clk clock.Clock) (*redisNode, *redis.Client) {
	t.Helper()
	return votingAt(t, s, s.Addr(), clk)
}

// votingAt is voting for a node that reaches the server at addr.
func votingAt(t *testing.T, s *localredis.Server, addr string, clk clock.Clock) (*redisNode, *redis.Client) {
	t.Helper()
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = d.Close() })
	r, err := openURL("redis://"+addr, Config{Clock: clk, DialTimeout: patience})
	noErr(t, err)
	t.Cleanup(func() { _ = r.Close() })
	var id protocol.Identity
	r.Bind(protocol.Binding{CheckRecordState: true, Drift: clock.DefaultDrift(), Admit: func(got protocol.Identity) error { id = got; return nil }})
	noErr(t, r.Ready(t.Context()))
	state := membership.RecordState{Epoch: membership.Epoch{Number: 1, ID: 0xe}, Incarnation: id.Incarnation(), Phase: membership.Voting}
	noErr(t, d.HSet(t.Context(), protocol.RecordKey, membership.FieldState, state.String()).Err())
	r.Enter(state.Epoch.String(), nil, r.clock.Elapsed())
	return r, d
}

// An idle connection was closed, so what asks for a vote goes out on the next one. The greeting there finds that a clock has jumped: nobody
// is asked for the vote then.
func TestLane_clockJumpedWhileIdle_putBackVoteIsNotAsked(t *testing.T) {
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	clk := &aheadClock{Clock: clock.System()}
	r, d := voting(t, s, clk)
	acquire := func(name string) protocol.Reply {
		return ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(name, protocol.Plain), Holder: "h", Token: 1})
	}
	if reply := acquire("before"); reply.Outcome != protocol.Granted {
		t.Fatalf("%+v", reply)
	}
	noErr(t, d.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	clk.by.Store(int64(20 * time.Second))
	if reply := acquire("behind"); reply.Outcome != protocol.NotSent || !errors.Is(reply.Err, ErrClock) {
		t.Errorf("%+v", reply)
	}
}
