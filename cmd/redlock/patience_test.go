// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// One round in which no master answered in time is no outage, also for who does not wait for the lock.
func TestRun_noWaitAndMastersLateOnce_takesTheLock(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"-n"}, {"--every", "1h"}} {
		var asked atomic.Int32 // three masters are asked in the first round
		list := strings.Join(slowly(t, func(cmd [][]byte) bool {
			return bytes.Contains(bytes.Join(cmd, nil), []byte("late-once")) && asked.Add(1) <= 3
		}, 600*time.Millisecond), ",")
		expectCode(t, exitOK, "init", never, "--nodes", list)
		startRun(t, list, "late-once", append(flags, "--", "true")...).wantCode(0)
	}
}

// An operator's look has more time than a caller of Lock.
func TestLooks_mastersLate_areNotGone(t *testing.T) {
	t.Parallel()
	list := strings.Join(slowly(t, func(cmd [][]byte) bool { return bytes.HasPrefix(bytes.ToLower(cmd[0]), []byte("eval")) }, 300*time.Millisecond), ",")
	expectCode(t, exitOK, "init", never, "--nodes", list)
	expectCode(t, exitOK, "inspect", "late", "--nodes", list)
	expectCode(t, exitOK, "list", "--nodes", list)
	wantSaid(t, expectCode(t, exitRefused, "force-unlock", "late", "--yes", "--holder", "nobody", "--nodes", list), "late")
}
