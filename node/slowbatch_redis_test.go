// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// A request for votes asks nothing about the master, because another has just asked. It is under way for long, and meanwhile the master evicts
// keys, or its clock jumps: its votes do not count (docs/safety.md A3, A10).
func TestLane_changedWhileVotesWereUnderWay_voteDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(t *testing.T, d *redis.Client, clk *aheadClock)
		want   error
	}{
		"keys are evicted": {func(t *testing.T, d *redis.Client, _ *aheadClock) {
			noErr(t, d.Set(t.Context(), "victim", "of an hour", time.Hour).Err())
			noErr(t, d.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
			noErr(t, d.ConfigSet(t.Context(), "maxmemory", "1").Err())
			_ = d.Set(t.Context(), "more", "", time.Hour) // is refused, with the victim gone
			noErr(t, d.ConfigSet(t.Context(), "maxmemory", "0").Err())
			noErr(t, d.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
		}, errEvicted},
		"the clock jumps": {func(_ *testing.T, _ *redis.Client, clk *aheadClock) { clk.by.Store(int64(20 * time.Second)) }, ErrClock},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startMaster(t, localredis.Config{})
			proxy, err := faultproxy.Start(s.Addr())
			noErr(t, err)
			t.Cleanup(func() { noErr(t, proxy.Close()) })
			clk := &aheadClock{Clock: clock.System()}
			r, d := votingAt(t, s, proxy.Addr(), clk)
			time.Sleep(2 * evictedEvery) // the next request asks the master everything
			acquire := func(lock string) protocol.Reply {
				return ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(lock, protocol.Plain), Holder: "h", Token: 1})
			}
			if reply := acquire("before"); reply.Outcome != protocol.Granted {
				t.Fatalf("%+v", reply)
			}
			sent, late := proxy.Stats().Commands, make(chan protocol.Reply, 1)
			proxy.Set(faultproxy.ToMaster, faultproxy.Fault{Stall: true})
			go func() { late <- acquire("x") }()
			for proxy.Stats().Commands == sent && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			tc.change(t, d, clk)
			time.Sleep(2 * evictedEvery) // what is sent behind this asks by itself
			proxy.Set(faultproxy.ToMaster, faultproxy.Fault{})
			if reply := <-late; reply.Outcome != protocol.Unknown || !errors.Is(reply.Err, tc.want) {
				t.Errorf("%+v, want unknown for %v", reply, tc.want)
			}
		})
	}
}
