// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/redlock"
)

// Readers that unlock at once, as many as there are: each release is confirmed, and costs the master a number of commands that does
// not grow with the readers. A writer waits for them meanwhile.
func TestRWMutex_manyReadersUnlockAtOnce_eachCostsTheSame(t *testing.T) {
	t.Parallel()
	const readers = 200
	ms := startMasters(t, 1, localredis.Config{})
	c := ms.begin(redlock.WithNodeCount(1))
	m := c.RWMutex("read by many")
	var all []*redlock.Lease
	for range readers {
		all = append(all, locked(t, m.RLocker()))
	}
	writer := waitFor(t.Context(), m)
	queued(t, c, m.Name(), 1)
	noErr(t, ms.direct[0].ConfigResetStat(t.Context()).Err())

	var g sync.WaitGroup
	for _, lease := range all {
		g.Go(func() {
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	unlock(t, inTime(t, writer, 3*time.Second).lease)
	if n := ms.commands(0); n > readers*20 {
		t.Errorf("%d commands for %d releases", n, readers)
	} else {
		t.Logf("%.1f commands a release, %s", float64(n)/readers, ms.usec(0))
	}
}

// commands is how many commands master i has executed since the last CONFIG RESETSTAT, those of scripts included.
func (ms *masters) commands(i int) (n int) {
	ms.t.Helper()
	for _, found := range regexp.MustCompile(`calls=(\d+)`).FindAllStringSubmatch(ms.stats(i), -1) {
		calls, err := strconv.Atoi(found[1])
		noErr(ms.t, err)
		n += calls
	}
	return n
}

func (ms *masters) stats(i int) string {
	ms.t.Helper()
	stats, err := ms.direct[i].Info(ms.t.Context(), "commandstats").Result()
	noErr(ms.t, err)
	return stats
}

// usec says what the scripts cost.
func (ms *masters) usec(i int) string {
	return regexp.MustCompile(`cmdstat_evalsha:[^\r]*`).FindString(ms.stats(i))
}

// A reader that died leaves a field in the hash, which others keep alive. The next release of one of them removes it, wherever it stands.
func TestRWMutex_readerThatDied_isRemovedByTheNextRelease(t *testing.T) {
	t.Parallel()
	ms := startMasters(t, 1, localredis.Config{})
	c := ms.begin(redlock.WithNodeCount(1))
	m := c.RWMutex("outlived")
	first, stays := locked(t, m.RLocker()), locked(t, m.RLocker())
	const dead = "00000000-0000-4000-8000-000000000000:1" // its timeout key is gone
	noErr(t, ms.direct[0].HSet(t.Context(), "outlived", dead, 1).Err())
	unlock(t, first)
	if there, err := ms.direct[0].HExists(t.Context(), "outlived", dead).Result(); err != nil || there {
		t.Errorf("the reader that died is there: %v (%v)", there, err)
	}
	unlock(t, stays)
}
