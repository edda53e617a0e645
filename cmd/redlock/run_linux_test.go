// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/said"
)

// noFiles takes from a process the right to open files, and returns a function that gives it back.
func noFiles(t testing.TB, pid int) (again func()) {
	t.Helper()
	var was unix.Rlimit
	must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: 1 << 10}, &was))
	return func() { must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil)) }
}

// A host that has no process left for a second guard: the command goes on, and whoever reads the log knows.
func TestRun_guardKilledAndNoOther_saysSo(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p, end := startReading(t, list, "a", "--ttl", "20s", "--", "sh", "-c", "echo started; read line")
	p.line()
	guard := guards(t, p.Process.Pid)[0]
	noFiles(t, p.Process.Pid)
	must(t, syscall.Kill(guard, syscall.SIGKILL))
	eventually(t, "it says so", func() bool { return strings.Contains(p.stderr.String(), said.NoGuard.With("")) })
	end()
	p.wantCode(1) // of read, at the end of its input
	free(t, list, "a")
}

// A host on which the command cannot be started gives the lock back.
// A daemon that left the group does not reap what it had begun there. That zombie holds no lock.
func TestRun_zombieLeftBehind_ends(t *testing.T) {
	needs.Program(t, "setsid")
	t.Parallel()
	_, list := voting(t)
	p := program(t, "run", "a", "--nodes", list, "--", "sh", "-c", "(sleep 0.1 & exec setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1') & sleep 0.5; exit 3")
	p.Env = append(p.Env, straysVar+"=300ms")
	daemon := p.start().number()
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	p.wantCode(3)
	free(t, list, "a")
	if !alive(daemon) {
		t.Error("the daemon was killed")
	}
}

func TestRun_noProcessCanBeStarted_saysSoAndGivesBack(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	lease := take(t, openClient(t, list), "a")
	p := startRun(t, list, "a", "-v", "--wait", "1m", "--min-hold", "1h", "--", "true")
	waits(t, strings.Split(list, ","), "a")
	noFiles(t, p.Process.Pid)
	must(t, lease.Unlock(t.Context()))
	p.wantCode(126)
	p.wantStderr(said.CannotStart.With(""))
	free(t, list, "a")
}
