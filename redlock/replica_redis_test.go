// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// A master becomes a replica of another one while a client waits. Redis passes a master's messages on to the clients of its replicas, and closes
// none of their connections: the waiter hears one hand from both, and it is one vote.
func TestReplicaOf_whileACallerWaits_aHandIsOneVote(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	ms := startMasters(t, 3, localredis.Config{Args: []string{"--repl-diskless-sync-delay", "0"}})
	holder := ms.begin()
	waiter := ms.open()
	lease := locked(t, holder.Mutex("x"))
	settled(t, lease, 3)
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	got := waitFor(ctx, waiter.Mutex("x"))
	queued(t, waiter, "x", 1)
	soon(t, "it is in every queue", func() bool {
		for _, d := range ms.direct {
			if d.ZCard(ctx, quorumtest.Queue("x")).Val() != 1 {
				return false
			}
		}
		return true
	})
	host, port, _ := strings.Cut(ms.servers[1].Addr(), ":")
	noErr(t, ms.direct[0].Do(t.Context(), "REPLICAOF", host, port).Err())
	soon(t, "synchronised", func() bool {
		return strings.Contains(ms.direct[0].Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	noErr(t, ms.servers[2].Pause())
	defer func() { noErr(t, ms.servers[2].Resume()) }()
	_ = lease.Unlock(t.Context())
	if o := <-got; o.err == nil {
		t.Fatalf("one of three masters gave its vote, and the waiter has the lock: %v", o.lease)
	}
}
