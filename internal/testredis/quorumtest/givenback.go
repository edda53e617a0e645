// SPDX-License-Identifier: Apache-2.0

package quorumtest

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// GivenBack waits until the keys named like each of patterns are gone from the masters, for 15 s
// at most. A key must go while some of its TTL is left: a lock that nobody releases goes too, when
// its TTL is over, and would satisfy a test that only waits.
func GivenBack(t testing.TB, masters []*redis.Client, patterns ...string) {
	t.Helper()
	started := time.Now()
	ends := make(map[string]time.Time) // when the TTL of each key that was seen ends, at the earliest
	for {
		left := make(map[string]time.Time)
		for i, d := range masters {
			for _, p := range patterns {
				for key, end := range lasting(t, d, p) {
					left[fmt.Sprintf("%d:%s", i, key)] = end
				}
			}
		}
		looked := time.Now()
		for key, end := range ends {
			if _, there := left[key]; !there && !looked.Before(end) {
				t.Fatalf("%s was not given back: it stayed until its TTL was over", key)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Since(started) > 15*time.Second {
			t.Fatalf("not given back within 15s: %v", left)
		}
		maps.Copy(ends, left)
		time.Sleep(2 * time.Millisecond)
	}
}

// forever is longer than a test lasts.
const forever = 24 * time.Hour

// lasting returns the keys named like pattern, and when the TTL of each ends at the earliest.
func lasting(t testing.TB, master *redis.Client, pattern string) map[string]time.Time {
	t.Helper()
	keys, err := master.Keys(context.Background(), pattern).Result()
	NoErr(t, err)
	ends := make(map[string]time.Time)
	for _, key := range keys {
		asked := time.Now()
		switch ttl, err := master.PTTL(context.Background(), key).Result(); {
		case err != nil:
			t.Fatal(err)
		case ttl == -1:
			ends[key] = asked.Add(forever)
		case ttl >= 0:
			ends[key] = asked.Add(ttl)
		default: // gone since KEYS
		}
	}
	return ends
}
