// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestRunbook_upgradeOfServers_noLockIsLost(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	stall.Try(t, runbookHeld, func(t testing.TB) {
		r := runbookOn(t, 3, 3)
		lease := r.program(r.lists["URLS"], "held")
		r.run("Upgrade the servers", map[string]func() string{
			"install the new version, and restart the server at 27001": r.restart(1),
			"install the new version, and restart the server at 27002": r.restart(2),
			"the same for 27003": r.restart(3),
		})
		lives(t, lease)
	})
}

// The same from each version to the next one, and to the other server, while one lock is held all the time.
func TestRunbook_upgradeOfServers_throughAllVersions(t *testing.T) {
	versions := []string{needs.Server(t, "redis-6.2"), "", needs.Server(t, "redis-8.0"), needs.Server(t, "valkey-8.1")}
	needs.Redis(t)
	t.Parallel()
	own, _, err := localredis.Find()
	must(t, err)
	versions[1] = own
	servers, err := localredis.StartN(t.Context(), 3, localredis.Config{Binary: versions[0]})
	must(t, err)
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
	}
	r := runbookWith(t, 3, servers)
	lease := r.program(r.lists["URLS"], "held")
	for _, next := range versions[1:] {
		upgrade := func(i int) func() string {
			return func() string {
				must(t, r.servers[i-1].Kill())
				must(t, r.servers[i-1].Use(next))
				return r.restart(i)()
			}
		}
		r.run("Upgrade the servers", map[string]func() string{
			"install the new version, and restart the server at 27001": upgrade(1),
			"install the new version, and restart the server at 27002": upgrade(2),
			"the same for 27003": upgrade(3),
		})
		lives(t, lease)
		version, err := localredis.Version(next)
		must(t, err)
		if said := expectCode(t, exitOK, "doctor", "--max-ttl", runbookTTL.String(), "--nodes", r.lists["URLS"]); strings.Count(said, version) != 3 {
			t.Errorf("doctor does not say three times %q: %s", version, said)
		}
	}
}
