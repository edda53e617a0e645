// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestReads_newerReadsOlder(t *testing.T) {
	for _, test := range []struct {
		program, data string
		want          bool
	}{
		{"redis 7.0.15", "redis 7.0.15", true},
		{"redis 8.0.2", "redis 6.2.14", true},
		{"redis 6.2.14", "redis 8.0.2", false},
		{"redis 7.0.15", "redis 7.0.16", false},
		{"redis 7.10.0", "redis 7.9.9", true},
		{"valkey 8.1.1", "redis 7.2.9", true},
		{"valkey 8.1.1", "redis 7.4.0", false},
		{"valkey 8.1.1", "redis 8.0.2", false},
		{"redis 8.0.2", "valkey 8.1.1", false},
		{"valkey 8.1.1", "valkey 8.0.0", true},
	} {
		if got := reads(test.program, test.data); got != test.want {
			t.Errorf("%s on the data of %s: %v", test.program, test.data, got)
		}
	}
}

// twoPrograms returns two programs of one version: the redis-server in PATH, and a link to it.
func twoPrograms(t *testing.T) []string {
	t.Helper()
	needs.Redis(t)
	path, _, err := localredis.Find()
	must(t, err)
	link := filepath.Join(t.TempDir(), "redis-server")
	must(t, os.Symlink(path, link))
	return []string{path, link}
}

// An upgrade runs the other program on the same address. It keeps what was on disk, and all if the server was shut down in order.
func TestUpgrade_keepsWhatWasSaved(t *testing.T) {
	programs := twoPrograms(t)
	for _, test := range []struct {
		name        string
		persistence Persistence
		orderly     bool
		want        string
	}{
		{"shut down", None, true, "1"},
		{"killed", None, false, ""},
		{"shut down with a file", EverySec, true, "1"},
		{"killed with every write on disk", Always, false, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := open(t, Config{Masters: 1, Persistence: test.persistence, Servers: programs}).Masters()[0]
			must(t, m.redis(t.Context(), func(c *redis.Client) error { return c.Set(t.Context(), "k", "1", 0).Err() }))
			if others, empty := m.Programs(); !slices.Equal(others, programs[1:]) || len(empty) > 0 {
				t.Fatalf("it may run %v", others)
			}
			u, err := m.Upgrade(t.Context(), programs[1], test.orderly)
			must(t, err)
			var got string
			must(t, m.redis(t.Context(), func(c *redis.Client) error {
				got = c.Get(t.Context(), "k").Val()
				return nil
			}))
			if got != test.want || u.Kept != (test.want != "") {
				t.Errorf("%v: k is %q, want %q", u, got, test.want)
			}
			if others, empty := m.Programs(); !slices.Equal(others, programs[:1]) || len(empty) > 0 {
				t.Errorf("it runs another program than these: %v", others)
			}
		})
	}
}

// Real versions, where .ci/servers has put them: 6.2 to 8.0 keeps the data, and the way back starts empty.
func TestUpgrade_realVersions(t *testing.T) {
	programs := []string{needs.Server(t, "redis-6.2"), needs.Server(t, "redis-8.0")}
	for _, p := range []Persistence{None, EverySec, Always} {
		t.Run("persistence "+string(p), func(t *testing.T) {
			m := open(t, Config{Masters: 1, Persistence: p, Servers: programs}).Masters()[0]
			must(t, m.redis(t.Context(), func(c *redis.Client) error { return c.Set(t.Context(), "k", "1", 0).Err() }))
			for _, step := range []struct{ program, want string }{{programs[1], "1"}, {programs[0], ""}} {
				u, err := m.Upgrade(t.Context(), step.program, true)
				must(t, err)
				must(t, m.redis(t.Context(), func(c *redis.Client) error {
					if got := c.Get(t.Context(), "k").Val(); got != step.want {
						t.Errorf("%v: k is %q, want %q", u, got, step.want)
					}
					return nil
				}))
			}
		})
	}
}
