// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node"
)

// docs/safety.md A11. One of the masters is behind redis-sentinel. It freezes with a vote that its
// replica does not have. The replica is promoted, and votes only when it has recovered.
func TestSentinel_failover_promotedReplicaRecoversFirst(t *testing.T) {
	needs.EveryServer(t)
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{})
	replica, err := localredis.Start(t.Context(), localredis.Config{ReplicaOf: ms.servers[0].Addr()})
	noErr(t, err)
	t.Cleanup(func() { noErr(t, replica.Close()) })
	looker := redis.NewClient(&redis.Options{Addr: replica.Addr()})
	t.Cleanup(func() { _ = looker.Close() })
	sentinel := quorumtest.StartSentinel(t, ms.servers[0].Addr())
	asked := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	t.Cleanup(func() { _ = asked.Close() })
	soon(t, "the sentinel knows the replica, which is in sync", func() bool {
		replicas, err := asked.Replicas(t.Context(), "mine").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})

	const wait = clusterWait
	opts := clusterOpts
	urls := append(ms.pick(1, 2), "redis-sentinel://"+sentinel+"/mine")
	initAt(t, urls, opts...)
	c := openAt(t, urls, opts...)
	if state := ms.recordState(0); state == "" {
		t.Fatal("the client does not use the master that the sentinel names")
	}
	idle := openAt(t, urls, opts...)
	before := locked(t, idle.Mutex("before"))
	noErr(t, before.Unlock(t.Context()))

	// A bare quorum: one plain master, and the one that will be failed over. Its replica
	// is cut off before.
	noErr(t, replica.Pause())
	noErr(t, ms.direct[0].Do(t.Context(), "client", "kill", "type", "replica").Err())
	held := ms.bare(c, 2, "held")
	noErr(t, ms.servers[0].Pause())
	downAfter := func(millis string) { noErr(t, asked.Set(t.Context(), "mine", "down-after-milliseconds", millis).Err()) }
	downAfter("300")
	noErr(t, replica.Resume())
	soon(t, "the replica is promoted", func() bool {
		addr, err := asked.GetMasterAddrByName(t.Context(), "mine").Result()
		return err == nil && len(addr) == 2 && net.JoinHostPort(addr[0], addr[1]) == replica.Addr()
	})
	promoted := time.Now()
	downAfter(quorumtest.SentinelPatience) // or it would fail over again where the machine is busy
	other := openAt(t, urls, opts...)
	phase := func() membership.Phase {
		text, err := looker.HGet(t.Context(), protocol.RecordKey, "state").Result()
		if err != nil {
			return 0
		}
		rs, err := membership.ParseRecordState(text)
		noErr(t, err)
		return rs.Phase
	}
	soon(t, "it recovers", func() bool { return phase() == membership.Quarantined })
	heldToItsEnd(t, held, other, "else") // of the other masters a quorum is there: that one fails over costs nothing
	soon(t, "it votes again", func() bool { return phase() == membership.Voting })
	if d := time.Since(promoted); d < wait/2 { // the sentinel may have promoted it a little earlier
		t.Errorf("it voted %v after it was promoted", d)
	}
	noErr(t, ms.servers[2].Kill())   // now it is needed
	noErr(t, ms.servers[0].Resume()) // this one does not know yet
	l := locked(t, idle.Mutex("before"))
	if l.Token() <= before.Token() {
		t.Errorf("token %d after %d", l.Token(), before.Token())
	}
	if n, err := looker.Exists(t.Context(), "before").Result(); err != nil || n != 1 {
		t.Errorf("the promoted master has no vote: %d, %v", n, err)
	}
	noErr(t, l.Unlock(t.Context()))
}

// A master that sentinels name: one of the sentinels is down, another one answers. go-redis's own search for the master prints lines for
// each connection.
func TestSentinel_goRedisPrintsNothing(t *testing.T) {
	needs.Redis(t)
	ms := startMasters(t, 3, localredis.Config{})
	sentinel := quorumtest.StartSentinel(t, ms.servers[0].Addr())
	quietly(t, func(t *testing.T) {
		urls := append(ms.pick(1, 2), "redis-sentinel://127.0.0.1:1,"+sentinel+"/mine")
		initAt(t, urls)
		c := openAt(t, urls)
		noErr(t, locked(t, c.Mutex("x")).Unlock(t.Context()))
		if state := ms.recordState(0); state == "" {
			t.Error("the client does not use the master that the sentinel names")
		}
		noErr(t, c.Close())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n, err := node.Open("redis-sentinel://127.0.0.1:1,"+sentinel+"/other", node.Config{})
		noErr(t, err)
		defer n.Close()
		if err := n.Ready(ctx); err == nil || strings.Contains(err.Error(), `127.0.0.1:1: dial`) || !strings.Contains(err.Error(), sentinel+`: knows no master "other"`) {
			t.Error(err)
		}
	})
}
