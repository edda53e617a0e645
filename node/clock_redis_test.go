// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// aheadClock is a clock that a test sets ahead.
type aheadClock struct {
	clock.Clock
	by atomic.Int64
}

func (c *aheadClock) Elapsed() time.Duration { return c.Clock.Elapsed() + time.Duration(c.by.Load()) }

// voting returns a node of a master whose record says that it votes, on clk, and a client that reaches the server past it. at is the
// address at which the node finds it; empty: its own.
func voting(t *testing.T, s *localredis.Server, clk clock.Clock, at string) (*redisNode, *redis.Client) {
	t.Helper()
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = d.Close() })
	if at == "" {
		at = s.Addr()
	}
	r, err := openURL("redis://"+at, Config{Clock: clk})
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
	clk := &aheadClock{Clock: clock.System()}
	r, d := voting(t, startMaster(t, localredis.Config{}), clk, "")
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

// The connection is cut behind the answer to an acquire and before that to the TIME behind it: the vote does not count, and is given back.
func TestLane_cutBeforeTime_voteDoesNotCount(t *testing.T) {
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	proxy, err := faultproxy.Start(s.Addr())
	noErr(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	r, d := voting(t, s, clock.System(), proxy.Addr())
	req := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h", Token: 1, TTL: time.Hour}
	cut := proxy.CutBeforeReply(func(cmd [][]byte) bool { return bytes.EqualFold(cmd[0], []byte("time")) })
	if reply := ask(t, r, req); reply.Outcome != protocol.Unknown {
		t.Errorf("%+v", reply)
	}
	cut.Remove()
	if cut.Hits() == 0 || d.Exists(t.Context(), "x").Val() == 0 {
		t.Fatalf("%d cuts, or no vote is there: this test proves nothing", cut.Hits())
	}
	req.Kind = protocol.Release
	ask(t, r, req)
	soon(t, "the vote is given back", func() bool { return d.Exists(t.Context(), "x").Val() == 0 })
}
