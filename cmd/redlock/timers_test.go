// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// Masters whose programs all live for a moment: a timer starts them, and they end. Times are those of docs/command.md with a maximum
// TTL of 1 s in place of 30 s.
const (
	timersTTL  = time.Second
	timersWait = timersTTL + 2*(timersTTL/100+2*time.Millisecond)
	timersTick = 200 * time.Millisecond
)

// briefly runs redlock with these arguments in a process of its own, and returns the exit code.
func briefly(t *testing.T, list string, args ...string) int {
	t.Helper()
	before, after := args, []string(nil)
	for i, a := range args {
		if a == "--" {
			before, after = args[:i], args[i:]
		}
	}
	all := append(append([]string{}, before...), "--nodes", list, "--max-ttl", timersTTL.String())
	return program(t, append(all, after...)...).start().code()
}

// ticks runs redlock with these arguments at each tick, until all masters vote. Masters that lost their record since lost vote not
// before their wait is over, and then with the second tick at the latest: the first process after their wait may end too soon.
func ticks(t *testing.T, list string, lost time.Time, args ...string) {
	t.Helper()
	ticker := time.NewTicker(timersTick)
	defer ticker.Stop()
	var looked time.Time // when the first process ended that saw a quorum: the wait has begun
	var codes []int
	for late := 0; late <= 2 && time.Since(lost) < time.Minute; <-ticker.C { // without a quorum nobody begins a wait
		if !looked.IsZero() && time.Since(looked) > timersWait {
			late++
		}
		codes = append(codes, briefly(t, list, args...))
		if looked.IsZero() && codes[len(codes)-1] != exitMasters { // without a quorum nobody can vouch for a master
			looked = time.Now()
		}
		if code, _, _ := cli(t, "status", "--max-ttl", timersTTL.String(), "--nodes", list); code == exitOK {
			if took := time.Since(lost); took < timersWait {
				t.Errorf("%v: all vote after %v", args, took)
			}
			return
		}
	}
	t.Fatalf("%v: the masters do not vote %v after they were lost; exit codes %v", args, time.Since(lost), codes)
}

func restart(t *testing.T, s *localredis.Server) time.Time {
	t.Helper()
	must(t, s.Kill())
	lost := time.Now()
	must(t, s.Restart(t.Context()))
	return lost
}

// The timers of docs/command.md, as processes: nothing else runs, and the masters vote again within the time that the page names.
func TestTimers_onlyBriefProcesses_mastersVoteAgain(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	servers, urls := startMasters(t, 3), []string(nil)
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	list := strings.Join(urls, ",")
	expectCode(t, exitOK, "init", never, "--max-ttl", timersTTL.String(), "--nodes", list)
	nightly := []string{"run", "nightly", "--every", "300ms", "--ttl", "1s", "--", "true"}

	t.Run("the timer of the page", func(t *testing.T) {
		lost := restart(t, servers[2])
		if code := briefly(t, list, "status", "--wait", "--timeout", "50s"); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		if took := time.Since(lost); took < timersWait {
			t.Errorf("all vote after %v", took)
		}
	})
	t.Run("ticks that end before the wait", func(t *testing.T) {
		ticks(t, list, restart(t, servers[2]), "status", "--wait", "--timeout", "300ms")
	})
	t.Run("jobs alone", func(t *testing.T) {
		ticks(t, list, restart(t, servers[2]), nightly...)
	})
	t.Run("jobs alone, and another master is lost meanwhile", func(t *testing.T) {
		restart(t, servers[2])
		m := direct(t, servers[2].URL())
		eventually(t, "the wait of the first has begun", func() bool { // a job may end before it has looked at the master
			if code := briefly(t, list, nightly...); code != 0 && code != exitHeld && code != exitLost {
				t.Errorf("exit code %d", code)
			}
			return m.HExists(t.Context(), protocol.RecordKey, "state").Val()
		})
		ticks(t, list, restart(t, servers[1]), nightly...)
	})
	t.Run("a majority is lost at once", func(t *testing.T) { // nobody can vouch for the list: it is the operator's
		restart(t, servers[1])
		restart(t, servers[2])
		if code := briefly(t, list, "status", "--wait", "--timeout", "50s"); code != exitNeedsInit {
			t.Errorf("exit code %d", code)
		}
		expectCode(t, exitOK, "init", "--max-ttl", timersTTL.String(), "--nodes", list)
		if code := briefly(t, list, nightly...); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}
