// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// The masters forget their scripts before one step. The pipeline that is sent again may also have
// commands that are no scripts: an acquire is sent with a TIME.
func TestPair_scriptsFlushed_runAllTheSame(t *testing.T) {
	needs.EveryServer(t)
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	for _, flushedBefore := range []string{"acquire", "extend", "release"} {
		flush := func(step string) {
			if step == flushedBefore {
				ms.each(ms.all(), func(d *redis.Client) error { return d.ScriptFlush(t.Context()).Err() })
			}
		}
		flush("acquire")
		l, err := c.Mutex("scripts").TryLock(t.Context())
		if err != nil {
			t.Fatalf("flushed before %s: %v", flushedBefore, err)
		}
		flush("extend")
		if err := l.Extend(t.Context()); err != nil {
			t.Fatalf("flushed before %s: %v", flushedBefore, err)
		}
		flush("release")
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatalf("flushed before %s: %v", flushedBefore, err)
		}
	}
}
