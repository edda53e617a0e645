// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/crowd"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/redlock"
)

// asProgram makes processes that the test starts of its own binary play the program.
func asProgram(t testing.TB) { t.Setenv(programVar, "1") }

func TestContention_processes_JSONAndTable(t *testing.T) {
	needs.Redis(t)
	asProgram(t)
	stall.Try(t, 100*time.Millisecond, func(try testing.TB) { threeProcesses(try, t) })
}

// threeProcesses is one try of the test whole: two holders at once are no matter of time.
func threeProcesses(t, whole testing.TB) {
	code, stdout, stderr := bench(t, strings.Fields("contention --waiters 4 --processes 3 --unfair "+brief+"-")...)
	if code == exitViolation {
		whole.Errorf("%s", stderr)
	}
	if code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	tidy(t, stderr)
	if !strings.Contains(stderr, "3 redis-servers, 3 processes, hold 1ms") {
		t.Errorf("table:\n%s", stderr)
	}
	c := cells(t, decode(t, []byte(stdout)), 1)[0]
	has(t, c, 1, "acquisitions_per_second", "rounds_per_acquisition", "commands_per_acquisition", "wait_max_us")
	if c["waiters"] != 4.0 || c["processes"] != 3.0 || c["clients"] != 3.0 || c["unfair"] != true || c["overlaps"] != 0.0 {
		t.Errorf("%v", c)
	}
}

func TestContention_readers_shareAndNoOverlap(t *testing.T) {
	needs.Redis(t)
	asProgram(t)
	for _, where := range []string{"--clients 2", "--processes 2"} {
		stall.Try(t, 100*time.Millisecond, func(try testing.TB) { sevenReaders(try, t, where) })
	}
}

func sevenReaders(t, whole testing.TB, where string) {
	code, stdout, stderr := bench(t, strings.Fields("contention --waiters 8 --readers 7 --hold 5ms "+where+" "+brief+"-")...)
	if code == exitViolation {
		whole.Errorf("%s: %s", where, stderr)
	}
	if code != exitOK || !strings.Contains(stderr, "        readers: ") {
		t.Fatalf("%s: exit code %d, stderr %q", where, code, stderr)
	}
	tidy(t, stderr)
	c := cells(t, decode(t, []byte(stdout)), 1)[0]
	has(t, c, 1, "reads_per_second")
	has(t, c, 2, "readers_at_once")
	if c["overlaps"] != 0.0 || c["reads_per_second"].(float64) >= c["acquisitions_per_second"].(float64) || c["readers"] != 7.0 {
		t.Errorf("%s: %v", where, c)
	}
}

// The known-bad case: processes on different masters do not exclude each other, and their clocks can be compared.
func TestFleet_processesOnDifferentMasters_overlapsSeen(t *testing.T) {
	asProgram(t)
	var saw crowd.Sight
	var mu sync.Mutex
	var both errgroup.Group
	for range 2 {
		nodes := startURLs(t, 1)
		begun(t, nodes)
		task := testTask(nodes)
		task.Duration = time.Second // both begin at some time in it
		f, err := task.Fleet(t.Context(), 1)
		must(t, err)
		defer f.Close()
		both.Go(func() error {
			one, err := f.Press(t.Context(), 0)
			mu.Lock()
			defer mu.Unlock()
			saw.Add(one)
			return err
		})
	}
	must(t, both.Wait())
	if cell := crowd.NewCell(saw, 0, 0); cell.Overlaps == 0 || len(saw.Waiters) != 4 || saw.Rounds == 0 {
		t.Errorf("%+v", cell)
	}
}

func TestFleet_processCannotStart_itsErrorAndNothingLeft(t *testing.T) {
	hurry(t)
	asProgram(t)
	_, err := testTask(masterurl.URLs{"redis://:topsecret@127.0.0.1:1"}).Fleet(t.Context(), 2)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1: node: master unreachable") || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("%v", err)
	}
}

func TestFleet_cancelled_saysWhatItSaw(t *testing.T) {
	asProgram(t)
	nodes := startURLs(t, 1)
	begun(t, nodes)
	task := testTask(nodes)
	task.Duration = time.Hour
	f, err := task.Fleet(t.Context(), 2)
	must(t, err)
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	saw, err := f.Press(ctx, 0)
	must(t, err)
	if len(saw.Waiters) != 2 || saw.Elapsed > time.Minute {
		t.Errorf("%d waiters, %v", len(saw.Waiters), saw.Elapsed)
	}
}

func testTask(nodes []string) *crowd.Task {
	return &crowd.Task{Nodes: nodes, Name: "hot", TTL: time.Second, Hold: time.Millisecond, Duration: 200 * time.Millisecond, Waiters: 2}
}

// begun makes masters vote.
func begun(t testing.TB, nodes []string) {
	t.Helper()
	quorumtest.Begin(t, nodes, redlock.WithNodeCount(len(nodes)))
}

func TestProgram_parentKilled_processesGone(t *testing.T) {
	needs.Test(t)
	p := startProgram(t, "contention", "--masters", "3", "--processes", "2", "--duration", "1m")
	count := func() (n int) {
		for _, pid := range pids(t, crowd.Contender) {
			env, _ := os.ReadFile("/proc/" + pid + "/environ")
			if strings.Contains(string(env), "TMPDIR="+p.tmp+"\x00") {
				n++
			}
		}
		return n
	}
	eventually(t, "two contenders", func() bool { return count() == 2 })
	must(t, p.Process.Kill())
	_ = p.Wait()
	eventually(t, "no contender left", func() bool { return count() == 0 })
}
