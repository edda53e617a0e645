// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
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

// A lock that is handed over is valid for a moment only, until it is renewed. One round of that which no master answered in time is no outage.
func TestRun_handedOverAndMastersLate_takesTheLock(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"run", "elect"} {
		var unlocked atomic.Pointer[time.Time]
		var id string // of the holder
		nodes := slowly(t, func(cmd [][]byte) bool {
			line, at := bytes.Join(cmd, nil), unlocked.Load()
			return at != nil && time.Since(*at) < 200*time.Millisecond && bytes.Contains(line, []byte("late-once")) && !bytes.Contains(line, []byte(id))
		}, 400*time.Millisecond)
		list := strings.Join(nodes, ",")
		quorumtest.Begin(t, nodes)
		lease := take(t, openClient(t, list), "late-once")
		id = lease.Holder()
		p := program(t, command, "late-once", "--nodes", list, "-v", "--", "true").start()
		waits(t, nodes, "late-once")
		now := time.Now()
		unlocked.Store(&now)
		must(t, lease.Unlock(t.Context()))
		p.wantCode(0)
		if strings.Contains(p.stderr.String(), "lost term") {
			t.Errorf("%s", &p.stderr)
		}
	}
}

// Who waits is told for whom also where the masters did not answer when they were asked first.
func TestRun_mastersDoNotTellAtFirst_saysWhoHasItLater(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	take(t, openClient(t, list, redlock.WithClientName("backup-7")), "a")
	var said syncBuffer
	r := &runner{output: output{err: &said}, name: "a", verbose: true}
	asker := openClient(t, list, redlock.WithNodeTimeout(100*time.Millisecond))
	began := time.Now()
	defer r.tellWho(t.Context(), asker)()
	for _, s := range servers {
		must(t, s.Pause())
	}
	time.Sleep(time.Until(began.Add(waitsLong + 300*time.Millisecond)))
	for _, s := range servers {
		must(t, s.Resume())
	}
	eventually(t, "it says so", func() bool { return strings.Contains(said.String(), "backup-7 has it") })
}

// An operator's look has more time than a caller of Lock.
func TestLooks_mastersLate_areNotGone(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	list := strings.Join(slowly(t, func(cmd [][]byte) bool { return bytes.HasPrefix(bytes.ToLower(cmd[0]), []byte("eval")) }, 300*time.Millisecond), ",")
	expectCode(t, exitOK, "init", never, "--nodes", list)
	expectCode(t, exitOK, "inspect", "late", "--nodes", list)
	expectCode(t, exitOK, "list", "--nodes", list)
	wantSaid(t, expectCode(t, exitRefused, "force-unlock", "late", "--yes", "--holder", "nobody", "--nodes", list), "late")
}
