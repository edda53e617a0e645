// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/nemesis"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

const password = "swordfish"

// someones starts servers that stand for masters of somebody else's, and returns clients of them.
func someones(t *testing.T, n int, cfg localredis.Config) (urls []string, cs []*redis.Client) {
	t.Helper()
	needs.Redis(t)
	servers, err := localredis.StartN(t.Context(), n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: cfg.Password, DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		urls, cs = append(urls, "redis://:"+cfg.Password+"@"+s.Addr()), append(cs, c)
	}
	return urls, cs
}

// dump returns the keys of a master as DUMP shows them, and the settings that a nemesis might change.
func dump(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	all := map[string]string{}
	keys, err := c.Keys(t.Context(), "*").Result()
	for _, key := range keys {
		if all[key], err = c.Dump(t.Context(), key).Result(); err != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	settings, err := c.ConfigGet(t.Context(), "maxmemory*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range settings {
		all["setting "+name] = value
	}
	return all
}

// Masters of somebody else's are as they were after a run with faults: each key, and no other one.
func TestRun_nodes_leavesThemAsTheyWere(t *testing.T) {
	needs.Test(t)
	urls, cs := someones(t, 3, localredis.Config{Password: password})
	var before []map[string]string
	for i, c := range cs {
		err := errors.Join(
			c.Set(t.Context(), "hot", "mine", 0).Err(), // the name of a lock of the run, but for the prefix
			c.HSet(t.Context(), "cart:7", "apples", i).Err(),
			c.RPush(t.Context(), "jobs", "a", "b").Err(),
		)
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, dump(t, c))
	}
	cfg := Config{Nodes: urls, Duration: 3 * time.Second, Seed: 1, Allowed: []string{"delete-lock"}}
	lacks := func(n nemesis.Nemesis) string { return n.Lacks(cfg.Has()) }
	ns, err := nemesis.Parse("partition,kill-client,reorder,misconfigure,delete-lock", lacks)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Nemeses = ns
	held(t, cfg)
	for i, c := range cs {
		if after := dump(t, c); !maps.Equal(after, before[i]) {
			t.Errorf("master %d had %q, and has %q", i+1, before[i], after)
		}
	}
}

// Masters that are in use, or cannot be used, are refused, and nothing is written. No error shows the password.
func TestInspect_refuses(t *testing.T) {
	urls, cs := someones(t, 3, localredis.Config{Password: password})
	if nodes, err := Inspect(t.Context(), urls); err != nil || len(nodes) != 3 || !strings.HasPrefix(nodes[0].Version, "redis ") {
		t.Fatalf("%+v, %v", nodes, err)
	}
	other := func(u string) []string { return []string{urls[0], urls[1], u} }
	for want, bad := range map[string][]string{
		"odd number": urls[:2],
		"one server": other(strings.Replace(urls[0], "127.0.0.1", "localhost", 1)),
		"refused":    other("redis://:" + password + "@127.0.0.1:1"),
		"WRONGPASS":  other(strings.Replace(urls[2], password, "tuna", 1)),
		"TLS":        other(strings.Replace(urls[2], "redis:", "rediss:", 1)),
	} {
		refused(t, bad, want)
	}
	if err := cs[2].Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	refused(t, urls, "replica")
	if err := errors.Join(cs[2].Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(), cs[1].HSet(t.Context(), RecordKey, "state", "x").Err()); err != nil {
		t.Fatal(err)
	}
	refused(t, urls, RecordKey)
	before := dump(t, cs[1])
	if _, err := Run(t.Context(), Config{Nodes: urls, Duration: time.Second, Seed: 1}); !errors.Is(err, ErrNode) {
		t.Errorf("a run returned %v", err)
	}
	if after := dump(t, cs[1]); !maps.Equal(after, before) || len(dump(t, cs[0])) != len(before)-1 {
		t.Errorf("a refused run wrote: %q, before %q", after, before)
	}
}

func TestInspect_clusterMember_isRefused(t *testing.T) {
	urls, _ := someones(t, 3, localredis.Config{Cluster: true, Password: password})
	refused(t, urls, "Redis Cluster")
}

func refused(t *testing.T, urls []string, want string) {
	t.Helper()
	_, err := Inspect(t.Context(), urls)
	if !errors.Is(err, ErrNode) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), password) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// The faults that masters of somebody else's can have are those of links and clients. An operator may allow two more.
func TestConfig_nodes_nemeses(t *testing.T) {
	of := func(allowed ...string) (names []string) {
		cfg := Config{Nodes: make([]string, 3), Other: "x", Allowed: allowed}
		for _, n := range nemesis.Table() {
			if n.Lacks(cfg.Has()) == "" {
				names = append(names, n.Name)
			}
		}
		return names
	}
	const links = "freeze-client kill-client partition reorder cut-replies slow-replies "
	if got, want := strings.Join(of(), " "), links+"rolling-upgrade misconfigure waiter-storm three-at-once"; got != want {
		t.Errorf("got %s", got)
	}
	if got, want := strings.Join(of(Allowable()...), " "), links+"delete-lock administer rolling-upgrade misconfigure waiter-storm three-at-once"; got != want {
		t.Errorf("got %s", got)
	}
}
