// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node/localredis"
	"github.com/redlock-go/redlock/redlock"
)

// What shares a pipeline with a script that the masters have forgotten need not be a script itself: an acquire brings a TIME with it.
func TestPair_scriptsFlushed_runAllTheSame(t *testing.T) {
	servers, err := localredis.StartN(t.Context(), 3, localredis.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, s := range servers {
		t.Cleanup(func() { _ = s.Close() })
		urls = append(urls, s.URL())
	}
	c, err := redlock.Open(urls)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, flushedBefore := range []string{"acquire", "extend", "release"} {
		flush := func(step string) {
			for _, s := range servers {
				if step != flushedBefore {
					continue
				}
				d := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
				if err := d.ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				_ = d.Close()
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
