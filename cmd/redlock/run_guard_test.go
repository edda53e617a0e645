// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/said"
)

// twoProcesses is a command that starts another process, prints both process ids, and runs until it is killed.
const twoProcesses = "sleep 600 & echo $$; echo $!; wait"

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestRun_killed_commandAndItsChildrenGoneLongBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--ttl", "20s", "--", "sh", "-c", twoProcesses)
	command, child := p.number(), p.number()
	if !alive(command) || !alive(child) {
		t.Fatal("they do not run")
	}
	killed := time.Now()
	must(t, p.Process.Kill())
	if _, gone := p.rest(); gone.Sub(killed) > 10*time.Second {
		t.Errorf("gone after %v", gone.Sub(killed))
	}
}

// guards are the guards of a process.
func guards(t testing.TB, pid int) (guards []int) {
	t.Helper()
	needs.Linux(t, "looks for processes in /proc")
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if string(text) == "lease-guard\x00"+strconv.Itoa(pid)+"\x00" {
			guard, err := strconv.Atoi(strings.Split(f, "/")[2])
			must(t, err)
			guards = append(guards, guard)
		}
	}
	return guards
}

// ignores reports whether a process ignores a signal.
func ignores(t testing.TB, pid int, sig syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	must(t, err)
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	ignored, err := strconv.ParseUint(mask, 16, 64)
	must(t, err)
	return ignored&(1<<(sig-1)) != 0
}

func TestRun_guardKilledThenRedlock_commandAndItsChildrenGone(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--ttl", "20s", "--", "sh", "-c", twoProcesses)
	p.line()
	p.line()
	was := guards(t, p.Process.Pid)
	if len(was) != 1 {
		t.Fatalf("%d guards", len(was))
	}
	eventually(t, "it ignores signals", func() bool { return ignores(t, was[0], syscall.SIGTERM) })
	must(t, syscall.Kill(was[0], syscall.SIGTERM)) // as pkill does to all: not heard
	must(t, syscall.Kill(was[0], syscall.SIGKILL))
	eventually(t, "another guard", func() bool {
		now := guards(t, p.Process.Pid)
		return len(now) == 1 && now[0] != was[0]
	})
	killed := time.Now()
	must(t, p.Process.Kill())
	if _, gone := p.rest(); gone.Sub(killed) > 10*time.Second {
		t.Errorf("gone after %v", gone.Sub(killed))
	}
	eventually(t, "no guard left", func() bool { return len(guards(t, p.Process.Pid)) == 0 })
}

// Both at once, as killall -9 may do: the kernel ends the command.
func TestRun_killedWithItsGuard_commandGone(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--ttl", "20s", "--", "sh", "-c", "echo started; exec sleep 600")
	p.line()
	guard := guards(t, p.Process.Pid)[0]
	must(t, p.Process.Signal(syscall.SIGSTOP)) // it must not start another guard
	must(t, syscall.Kill(guard, syscall.SIGKILL))
	killed := time.Now()
	must(t, p.Process.Kill())
	if _, gone := p.rest(); gone.Sub(killed) > 10*time.Second {
		t.Errorf("gone after %v", gone.Sub(killed))
	}
}

// The masters hang when the command ends: its code counts, and the message says until when the lock may stay taken.
func TestRun_mastersHangAtTheEnd_saysThatTheLockMayStay(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	p, end := startReading(t, list, "a", "--ttl", "20s", "--", "sh", "-c", "echo started; read line; exit 7")
	p.line()
	for _, s := range servers[:2] {
		must(t, s.Pause())
	}
	end()
	p.wantCode(7)
	p.wantStderr(said.MayStay.With(`"a"`, "20s", ""))
}

func TestRun_commandKilled_lockFreeAtOnce(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--", "sh", "-c", "echo $$; exec sleep 600")
	must(t, syscall.Kill(p.number(), syscall.SIGKILL))
	p.wantCode(137)
	free(t, list, "a")
	eventually(t, "no guard left", func() bool { return len(guards(t, p.Process.Pid)) == 0 })
}
