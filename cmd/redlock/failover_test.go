// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// doctor names the settings with which an old master may vote beside the replica that took its place, and says nothing more of them once they are what
// it advises.
func TestDoctor_settingsBehindFailover(t *testing.T) {
	needs.Cluster(t)
	needs.Test(t)
	t.Parallel()
	ask := func(list string) string {
		_, said, _ := cli(t, "doctor", "--max-ttl", "10s", "--nodes", list)
		return strings.Join(strings.Fields(said), " ")
	}
	set := func(url string, settings ...any) {
		must(t, direct(t, url).Do(t.Context(), append([]any{"config", "set"}, settings...)...).Err())
	}
	others := strings.Join(startURLs(t, 2), ",")

	cl := quorumtest.StartCluster(t, localredis.None, time.Minute)
	slot := cl.URL(cl.Tag(0), 1) + "&name=slot," + others
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(slot), "failover slot: cluster-node-timeout is 60000: not below the maximum TTL of 10s",
			"set cluster-node-timeout, in milliseconds, below the maximum TTL on every server of the cluster",
			"failover slot: cluster-require-full-coverage is yes: ", "set cluster-require-full-coverage no")
	})
	set(cl.Servers[0].URL(), "cluster-node-timeout", 9999, "cluster-require-full-coverage", "no")
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(slot), "failover slot: min-replicas-to-write is 0: a master that is cut off may go on voting")
	})
	set(cl.Servers[0].URL(), "min-replicas-to-write", 1, "min-replicas-max-lag", 8)
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(slot), "failover slot: min-replicas-max-lag is 8: it stops up to 2 s after that")
	})
	set(cl.Servers[0].URL(), "min-replicas-max-lag", 7)
	if said := ask(slot); strings.Contains(said, "failover") || strings.Contains(said, "refuses writes") {
		t.Errorf("all is as advised: %s", said)
	}

	master := start(t, localredis.Config{})
	replica := start(t, localredis.Config{ReplicaOf: master.Addr()})
	eventually(t, "a replica", func() bool {
		info, err := direct(t, master.URL()).Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "state=online")
	})
	guard := quorumtest.StartSentinel(t, master.Addr())
	sentinel := "redis-sentinel://" + guard + "/mine?name=m1," + others
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(sentinel), "failover m1: min-replicas-to-write is 0: a master that is cut off may go on voting", "set min-replicas-to-write 1")
	})
	set(master.URL(), "min-replicas-to-write", 1, "min-replicas-max-lag", 10)
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(sentinel), "min-replicas-max-lag is 10: not below the maximum TTL of 10s")
	})
	set(master.URL(), "min-replicas-max-lag", 0)
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(sentinel), "min-replicas-max-lag is 0: that switches min-replicas-to-write off, so a master that is cut off may go on voting",
			"set min-replicas-max-lag, in seconds, from 1 s, 2 s or more below down-after-milliseconds or cluster-node-timeout, and below the maximum TTL")
	})
	begins := func(after time.Duration) {
		must(t, direct(t, "redis://"+guard).Do(t.Context(), "sentinel", "set", "mine", "down-after-milliseconds", after.Milliseconds()).Err())
	}
	set(master.URL(), "min-replicas-max-lag", 9)
	begins(10 * time.Second)
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(sentinel), "failover m1: min-replicas-max-lag is 9: it stops up to 2 s after that, when its failover may have begun")
	})
	begins(11 * time.Second)
	if said := ask(sentinel); strings.Contains(said, "failover m1") || strings.Contains(said, "refuses writes") {
		t.Errorf("all is as advised: %s", said)
	}
	// No min-replicas-max-lag fits below these: what is advised is to raise them.
	begins(2 * time.Second)
	set(master.URL(), "min-replicas-max-lag", 1)
	stall.Try(t, handshake, func(t testing.TB) {
		said := ask(sentinel)
		wantSaid(t, said, "failover m1: down-after-milliseconds is 2000: a master without its replicas stops after 3 s at the earliest", "do set down-after-milliseconds to 3000 or more")
		if strings.Contains(said, "set min-replicas-max-lag") {
			t.Errorf("it is as small as it can be: %s", said)
		}
	})
	begins(3 * time.Second)
	if said := ask(sentinel); strings.Contains(said, "failover m1") {
		t.Errorf("all is as advised: %s", said)
	}
	set(cl.Servers[0].URL(), "cluster-node-timeout", 2000)
	stall.Try(t, handshake, func(t testing.TB) {
		wantSaid(t, ask(slot), "failover slot: cluster-node-timeout is 2000: a master without its replicas stops after 3 s at the earliest", "set cluster-node-timeout to 3000 or more")
	})
	must(t, replica.Close())
	set(master.URL(), "min-replicas-to-write", 0)
	stall.Try(t, handshake, func(t testing.TB) {
		if said := ask(sentinel); strings.Contains(said, "failover m1") {
			t.Errorf("a master that has no replica would vote no more with it: %s", said)
		}
	})
	if said := ask(others + "," + master.URL()); strings.Contains(said, "failover") {
		t.Errorf("masters by themselves: %s", said)
	}
}
