// SPDX-License-Identifier: Apache-2.0

package quorumtest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

const slots = 16384

// Cluster is a real Redis Cluster of servers 0, 1 and 2, and 3, a replica of 0. One of StartFullCluster has a replica of each: 3, 4 and 5. It ends with
// the test.
type Cluster struct {
	t       testing.TB
	Servers []*localredis.Server
	Direct  []*redis.Client // straight to each
	ids     []string
	tags    *int // how many were given out
}

// StartCluster starts a cluster, or skips the test where there is no redis-server that
// can. Timeout is after which silence one of its servers is taken for dead.
func StartCluster(t testing.TB, p localredis.Persistence, timeout time.Duration) *Cluster {
	t.Helper()
	return startCluster(t, p, timeout, 1)
}

// StartFullCluster is StartCluster with a replica of each master.
func StartFullCluster(t testing.TB, p localredis.Persistence, timeout time.Duration) *Cluster {
	t.Helper()
	return startCluster(t, p, timeout, masters)
}

// masters is how many there are.
const masters = 3

// Peer is the number of the replica of master i, or of its master. It changes with no failover.
func Peer(i int) int { return (i + masters) % (2 * masters) }

func startCluster(t testing.TB, p localredis.Persistence, timeout time.Duration, replicas int) *Cluster {
	t.Helper()
	needs.Cluster(t)
	c := &Cluster{t: t, tags: new(int)}
	c.Servers, c.Direct = Servers(t, masters+replicas, localredis.Config{Persistence: p, Cluster: true, Args: []string{"--cluster-node-timeout", fmt.Sprint(timeout.Milliseconds())}})
	for i := range c.Servers {
		c.ids = append(c.ids, c.do(i, "cluster", "myid").(string))
		if i >= masters {
			continue
		}
		c.do(i, "cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1)
		c.do(i, "cluster", "set-config-epoch", i+1)
	}
	for i := range c.Servers[1:] {
		host, port, _ := net.SplitHostPort(c.Servers[1+i].Addr())
		bus, err := c.Direct[1+i].ConfigGet(context.Background(), "cluster-port").Result()
		NoErr(t, err)
		c.do(0, "cluster", "meet", host, port, bus["cluster-port"])
	}
	for i := masters; i < len(c.Servers); i++ {
		Soon(t, "one knows the other's master", func() bool {
			return c.Direct[i].Do(context.Background(), "cluster", "replicate", c.ids[Peer(i)]).Err() == nil
		})
	}
	Soon(t, "the cluster is whole", c.whole)
	return c
}

// whole reports whether every server knows all, and every replica has its master's data.
func (c *Cluster) whole() bool {
	for i, d := range c.Direct {
		if i >= masters {
			if info, err := d.Info(context.Background(), "replication").Result(); err != nil || !strings.Contains(info, "master_link_status:up") {
				return false
			}
		}
		state, err1 := d.ClusterInfo(context.Background()).Result()
		nodes, err2 := d.ClusterNodes(context.Background()).Result()
		if err1 != nil || err2 != nil || !strings.Contains(state, "cluster_state:ok") || strings.Count(nodes, "\n") != len(c.Servers) {
			return false
		}
		for j := masters; j < len(c.Servers); j++ {
			if !strings.Contains(nodes, "slave "+c.ids[Peer(j)]) {
				return false
			}
		}
	}
	return true
}

// In is the cluster for a part of the test.
func (c *Cluster) In(t testing.TB) *Cluster {
	part := *c
	part.t = t
	return &part
}

// do runs a command on server i.
func (c *Cluster) do(i int, words ...any) any {
	c.t.Helper()
	val, err := c.Direct[i].Do(context.Background(), words...).Result()
	NoErr(c.t, err)
	return val
}

// Slot is the slot of key, as server i says.
func (c *Cluster) Slot(key string, i int) int64 {
	c.t.Helper()
	return c.do(i, "cluster", "keyslot", key).(int64)
}

// Tag is a tag that was not there before, of a slot that server i is the master of.
func (c *Cluster) Tag(i int) string {
	c.t.Helper()
	for range 1000 {
		*c.tags++
		if tag := fmt.Sprint("tag", *c.tags); c.Owner(tag, i) == i {
			return tag
		}
	}
	c.t.Fatalf("server %d has no slots", i)
	return ""
}

// URL is the slot of tag as one node, with these servers as the seeds.
func (c *Cluster) URL(tag string, seeds ...int) string {
	addrs := make([]string, len(seeds))
	for i, s := range seeds {
		addrs[i] = c.Servers[s].Addr()
	}
	return fmt.Sprintf("redis-cluster://%s/?tag=%s", strings.Join(addrs, ","), tag)
}

// Promote makes a master of server i, which is the replica of its peer. How is empty, or FORCE when that is dead: the other masters vote as if they
// knew.
func (c *Cluster) Promote(i int, how ...any) {
	c.t.Helper()
	c.do(i, append([]any{"cluster", "failover"}, how...)...)
	c.Promoted(i)
}

// Promoted waits until all servers that run know that server i is the master of its peer.
func (c *Cluster) Promoted(i int) {
	c.t.Helper()
	other := Peer(i)
	Soon(c.t, "the replica is promoted", func() bool {
		for on, s := range c.Servers {
			if s.PID() != 0 && !(c.says(on, c.ids[i], "master") && (c.Servers[other].PID() == 0 || c.says(on, c.ids[other], "slave"))) {
				return false
			}
		}
		return true
	})
}

// Deafen has replica i hear nothing more of its master until hears. To freeze it is not enough: what its master sends meanwhile would wait in its socket.
func (c *Cluster) Deafen(i int) (hears func()) {
	c.t.Helper()
	NoErr(c.t, c.Servers[i].Pause())
	c.do(Peer(i), "client", "kill", "type", "replica")
	return func() { NoErr(c.t, c.Servers[i].Resume()) }
}

// says reports whether the line of server id in what server i knows has word.
func (c *Cluster) says(i int, id, word string) bool {
	for line := range strings.Lines(c.do(i, "cluster", "nodes").(string)) {
		if strings.HasPrefix(line, id) {
			return strings.Contains(line, word)
		}
	}
	return false
}

// Owner is the number of the server that server i takes for the master of tag's slot.
func (c *Cluster) Owner(tag string, i int) int {
	c.t.Helper()
	shards, err := c.Direct[i].ClusterShards(context.Background()).Result()
	NoErr(c.t, err)
	slot := c.Slot("{"+tag+"}", i)
	for _, shard := range shards {
		if !slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return r.Start <= slot && slot <= r.End }) {
			continue
		}
		for _, n := range shard.Nodes {
			if n.Role == "master" {
				return slices.IndexFunc(c.Servers, func(s *localredis.Server) bool {
					return s.Addr() == net.JoinHostPort(n.IP, strconv.FormatInt(n.Port, 10))
				})
			}
		}
	}
	return -1
}

// Migrate begins to move tag's slot from one server to another, and returns how to move
// keys, and how to finish, which moves the rest of them. The other servers hear of it
// later.
func (c *Cluster) Migrate(tag string, from, to int) (move func(keys ...string), finish func()) {
	c.t.Helper()
	slot := c.Slot("{"+tag+"}", from)
	c.do(to, "cluster", "setslot", slot, "importing", c.ids[from])
	c.do(from, "cluster", "setslot", slot, "migrating", c.ids[to])
	move = func(keys ...string) {
		c.t.Helper()
		host, port, _ := net.SplitHostPort(c.Servers[to].Addr())
		words := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, k := range keys {
			words = append(words, k)
		}
		c.do(from, words...)
	}
	finish = func() {
		c.t.Helper()
		rest, err := c.Direct[from].ClusterGetKeysInSlot(context.Background(), int(slot), 100).Result()
		NoErr(c.t, err)
		if len(rest) > 0 {
			move(rest...)
		}
		c.do(to, "cluster", "setslot", slot, "node", c.ids[to])
		c.do(from, "cluster", "setslot", slot, "node", c.ids[to])
	}
	return move, finish
}

// Keys are the keys on server i.
func (c *Cluster) Keys(i int) []string {
	c.t.Helper()
	keys, err := c.Direct[i].Keys(context.Background(), "*").Result()
	NoErr(c.t, err)
	return keys
}
