// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestCluster_persistent_killKeepsWipeEmpties(t *testing.T) {
	eachDriver(t, func(t *testing.T, driver Driver) {
		ctx := t.Context()
		m := open(t, Config{Driver: driver, Masters: 1, Persistence: Always}).Masters()[0]
		wantPolicy(t, m, Always)
		set(t, m, "kept")
		wantKilledKeeps(t, m, Always, "kept")
		if err := m.Wipe(ctx); err == nil || !strings.Contains(err.Error(), "Kill it first") {
			t.Errorf("wiping a running master: %v", err)
		}
		must(t, m.Kill(ctx))
		must(t, m.Wipe(ctx))
		must(t, m.Start(ctx))
		wantValue(t, m, "")
	})
}

func TestCluster_snapshot_rollsBack(t *testing.T) {
	for _, p := range []Persistence{None, EverySec} {
		t.Run("persistence "+string(p), func(t *testing.T) {
			eachDriver(t, func(t *testing.T, driver Driver) {
				ctx := t.Context()
				m := open(t, Config{Driver: driver, Masters: 1, Persistence: p}).Masters()[0]
				if m.RollBack(ctx) == nil {
					t.Error("rolled back to no snapshot")
				}
				set(t, m, "old")
				must(t, m.Snapshot(ctx))
				set(t, m, "older")
				must(t, m.Snapshot(ctx))
				wantPolicy(t, m, p)
				set(t, m, "new")
				wantKilledKeeps(t, m, p, "new") // a snapshot is no persistence
				for range 2 {
					must(t, m.RollBack(ctx))
					wantValue(t, m, "older")
					set(t, m, "newer")
				}
				wantKilledKeeps(t, m, p, "newer")
			})
		})
	}
}

func wantPolicy(t *testing.T, m *Master, p Persistence) {
	t.Helper()
	must(t, withRedis(t.Context(), m.Addr(), func(c *redis.Client) error {
		policy, err := c.ConfigGet(t.Context(), "append*").Result()
		if err == nil && p != None && (policy["appendfsync"] != string(p) || policy["appendonly"] != "yes") {
			err = fmt.Errorf("%v, want appendfsync %s", policy, p)
		}
		return err
	}))
}

// wantKilledKeeps kills and starts the master: it has value again, or nothing when it has no persistence.
func wantKilledKeeps(t *testing.T, m *Master, p Persistence, value string) {
	t.Helper()
	must(t, m.Kill(t.Context()))
	must(t, m.Start(t.Context()))
	if p == None {
		value = ""
	}
	wantValue(t, m, value)
}
