// SPDX-License-Identifier: Apache-2.0

package library

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/client"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// What docs/migrate-from-*.md say of a peer and this library on the same masters, with a lock of the same name.
func TestBeside_sameNameOnTheSameMasters_asThePagesSay(t *testing.T) {
	m := quorumtest.Start(t, 3)
	c := m.Open()
	task := client.Task{Nodes: m.URLs(), TTL: 5 * time.Second}
	take := func(open func(context.Context, client.Task) (Locker, error), name string) Lease {
		t.Helper()
		k, err := open(t.Context(), task)
		quorumtest.NoErr(t, err)
		t.Cleanup(k.Close)
		l, err := k.Take(t.Context(), name)
		quorumtest.NoErr(t, err)
		return l
	}
	release := func(l Lease) { t.Helper(); quorumtest.NoErr(t, l.Release(t.Context())) }

	t.Run("redislock holds: a quorum without its master grants", func(t *testing.T) {
		theirs := take(openRedislock, "a")
		defer release(theirs)
		ours, err := c.Mutex("a").TryLock(t.Context())
		quorumtest.NoErr(t, err)
		quorumtest.NoErr(t, ours.Unlock(t.Context()))
	})
	t.Run("we hold: redislock gets an error that is not ErrNotObtained", func(t *testing.T) {
		ours, err := c.Mutex("b").TryLock(t.Context())
		quorumtest.NoErr(t, err)
		defer ours.Unlock(t.Context())
		k, err := openRedislock(t.Context(), task)
		quorumtest.NoErr(t, err)
		defer k.Close()
		for _, conn := range k.(*redislockLocks).conns {
			_, err = redislock.Obtain(t.Context(), conn, "b", time.Second, nil)
			if err == nil || errors.Is(err, redislock.ErrNotObtained) || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("rueidislock holds: we are granted", func(t *testing.T) {
		theirs := take(openRueidislock, "c")
		defer release(theirs)
		ours, err := c.Mutex("c").TryLock(t.Context())
		quorumtest.NoErr(t, err)
		quorumtest.NoErr(t, ours.Unlock(t.Context()))
		if keys := m.Keys("rueidislock:*"); len(keys) != 1 || !strings.HasSuffix(keys[0], ":rueidislock:0:c") {
			t.Errorf("its keys are %q", keys)
		}
	})
	t.Run("redsync holds: we are refused", func(t *testing.T) {
		theirs := take(openRedsync, "d")
		defer release(theirs)
		_, err := c.Mutex("d").TryLock(t.Context())
		quorumtest.Is(t, err, redlock.ErrRefused)
	})
	t.Run("we hold: redsync finds it taken", func(t *testing.T) {
		ours, err := c.Mutex("e").TryLock(t.Context())
		quorumtest.NoErr(t, err)
		defer ours.Unlock(t.Context())
		k, err := openRedsync(t.Context(), task)
		quorumtest.NoErr(t, err)
		defer k.Close()
		err = k.(*redsyncLocks).rs.NewMutex("e").TryLock()
		var taken *redsync.ErrTaken
		if !errors.As(err, &taken) {
			t.Errorf("%v", err)
		}
	})
}

// The list of masters may begin while Java clients of Redisson hold locks there: init says nothing of theirs, and they are seen.
func TestBeside_initWhileRedissonHolds_oursIsRefused(t *testing.T) {
	servers, direct := quorumtest.Servers(t, 3, localredis.Config{})
	var urls []string
	for i, s := range servers {
		quorumtest.NoErr(t, direct[i].HSet(t.Context(), "orders", "3f0a5c8e-8e0f-4a7b-9d0a-1c2b3d4e5f60:1", 1).Err()) // as RLock writes it
		quorumtest.NoErr(t, direct[i].PExpire(t.Context(), "orders", time.Minute).Err())
		urls = append(urls, s.URL())
	}
	quorumtest.Begin(t, urls)
	c, err := redlock.Open(t.Context(), urls, redlock.WithNodeTimeout(time.Second))
	quorumtest.NoErr(t, err)
	defer c.Close()
	_, err = c.Mutex("orders").TryLock(t.Context())
	quorumtest.Is(t, err, redlock.ErrHeld)
}
