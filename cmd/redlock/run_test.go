// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/stall"
)

// process is redlock as a process of its own.
type process struct {
	*exec.Cmd
	t      testing.TB
	out    *bufio.Reader // its stdout
	pipe   io.ReadCloser // the same
	stderr syncBuffer
}

// syncBuffer is read while a process still writes to it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// program is a process of redlock that was not started.
func program(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), t: t}
	p.Env = append(os.Environ(), programVar+"=1", noWaitAtExit)
	p.Cmd.Stderr = &p.stderr
	p.WaitDelay = 10 * time.Second // a grandchild may hold stderr
	// Without the terminal of whoever runs the tests.
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return p
}

func (p *process) start() *process {
	p.t.Helper()
	var err error
	p.pipe, err = p.StdoutPipe()
	must(p.t, err)
	p.out = bufio.NewReader(p.pipe)
	must(p.t, p.Start())
	p.t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// startRun starts "redlock run" on the masters of list.
func startRun(t testing.TB, list, name string, words ...string) *process {
	t.Helper()
	return program(t, append([]string{"run", name, "--nodes", list}, words...)...).start()
}

// startReading is startRun with an input that lasts until end.
func startReading(t testing.TB, list, name string, words ...string) (p *process, end func()) {
	t.Helper()
	p = program(t, append([]string{"run", name, "--nodes", list}, words...)...)
	in, err := p.StdinPipe()
	must(t, err)
	return p.start(), func() { must(t, in.Close()) }
}

// line returns the next line of stdout.
func (p *process) line() string {
	p.t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() }) // the guard ends the command, and its output
	defer late.Stop()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%v; stderr: %s", err, &p.stderr)
	}
	return strings.TrimSuffix(s, "\n")
}

// number returns the next line of stdout, which is a number.
func (p *process) number() int {
	p.t.Helper()
	n, err := strconv.Atoi(p.line())
	must(p.t, err)
	return n
}

// rest returns the rest of stdout, and when it ended: when the last process that had it has died.
func (p *process) rest() (string, time.Time) {
	p.t.Helper()
	b, err := io.ReadAll(p.out)
	must(p.t, err)
	return string(b), time.Now()
}

// code returns the exit code, or 128+n.
func (p *process) code() int {
	p.t.Helper()
	limit := time.AfterFunc(30*time.Second, func() { _ = p.Process.Kill() })
	defer limit.Stop()
	err := p.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			p.t.Fatalf("redlock died of %v; stderr: %s", status.Signal(), &p.stderr)
		}
		return exit.ExitCode()
	}
	p.t.Fatal(err)
	return -1
}

func (p *process) wantCode(want int) {
	p.t.Helper()
	if got := p.code(); got != want {
		p.t.Fatalf("exit code %d, want %d; stderr: %s", got, want, &p.stderr)
	}
}

func (p *process) wantStderr(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if !strings.Contains(p.stderr.String(), w) {
			p.t.Errorf("no %q in %q", w, p.stderr.String())
		}
	}
	if strings.Contains(p.stderr.String(), "topsecret") {
		p.t.Errorf("shows the password: %s", &p.stderr)
	}
}

// free checks that a lock can be had at once.
func free(t testing.TB, list, name string) {
	t.Helper()
	p := startRun(t, list, name, "-n", "--", "true")
	p.wantCode(0)
}

// restless is a command that runs until it is killed, and prints "term" when it is asked to end.
const restless = `trap 'echo term' TERM; echo started; while :; do sleep 0.05; done`

func TestRun_exitCodes(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	fresh := strings.Join(startURLs(t, 3), ",")
	dir := t.TempDir()
	plain, junk := filepath.Join(dir, "plain"), filepath.Join(dir, "junk")
	must(t, os.WriteFile(plain, []byte("text"), 0o644))
	must(t, os.WriteFile(junk, []byte("\x01\x02 no program"), 0o755))
	holder := startRun(t, list, "held", "--", "sh", "-c", "echo started; sleep 600")
	holder.line()
	for name, tc := range map[string]struct {
		words  string // after "run"; LIST is --nodes and the masters
		argv   []string
		code   int
		stderr []string
	}{
		"success":              {"a LIST", []string{"true"}, 0, nil},
		"its own code":         {"b LIST", []string{"sh", "-c", "exit 7"}, 7, nil},
		"no shell":             {"c LIST", []string{"test", "$HOME", "=", "$HOME"}, 0, nil},
		"killed":               {"d LIST", []string{"sh", "-c", "kill -9 $$"}, 137, nil},
		"terminated":           {"e LIST", []string{"sh", "-c", "kill -TERM $$"}, 143, nil},
		"not found":            {"f LIST", []string{"no-such-command-here"}, 127, []string{said.NotFound.With("no-such-command-here")}},
		"no such file":         {"f LIST", []string{"/no/such/file"}, 127, []string{said.NotFound.With("/no/such/file")}},
		"not executable":       {"f LIST", []string{plain}, 126, []string{"plain: permission denied"}},
		"a directory":          {"f LIST", []string{dir}, 126, []string{dir}},
		"no program":           {"f LIST", []string{junk}, 126, []string{"junk: exec format error"}},
		"held, no wait":        {"held -n LIST", []string{"true"}, 75, []string{`lock "held" is held by another`}},
		"held, wait":           {"held --wait 300ms LIST", []string{"true"}, 75, []string{"still after 300ms", "/" + strconv.Itoa(holder.Process.Pid)}},
		"masters away":         {"g --wait 300ms --nodes " + dead + "," + dead + "2," + dead + "3", []string{"true"}, 3, []string{"127.0.0.1:1"}},
		"masters new":          {"g --nodes " + fresh, []string{"true"}, 3, []string{"operator's word"}},
		"other maximum TTL":    {"g --max-ttl 20s LIST", []string{"true"}, 2, []string{"another epoch"}},
		"no masters":           {"g", []string{"true"}, 2, []string{"--nodes", "--nodes-file", "REDLOCK_NODES", "REDLOCK_NODES_FILE"}},
		"bad URL":              {"g --nodes redis://u:topsecret@x:y", []string{"true"}, 2, []string{"***@x:y"}},
		"both wait and not":    {"g -n --wait 1s LIST", []string{"true"}, 2, []string{"give one of them"}},
		"negative wait":        {"g --wait -1s LIST", []string{"true"}, 2, []string{"--wait -1s"}},
		"TTL too short":        {"g --ttl 10ms LIST", []string{"true"}, 2, []string{"--ttl 10ms: want 1s or more"}},
		"TTL too long":         {"g --ttl 31s LIST", []string{"true"}, 2, []string{"want the --max-ttl of these masters, 30s, or less"}},
		"unknown flag":         {"g --foo LIST", []string{"true"}, 2, []string{"--foo", "redlock run --help"}},
		"no name":              {"LIST", []string{"true"}, 2, []string{"want a name: redlock run NAME -- command"}},
		"two names":            {"g h LIST", []string{"true"}, 2, []string{"want one name"}},
		"a name not to be had": {"redlock:x LIST", []string{"true"}, 2, []string{"redlock:x"}},
		"no dashes":            {"g redis://:topsecret@x LIST", nil, 2, []string{"want -- between"}},
		"no command":           {"g LIST", []string{}, 2, []string{"want a command"}},
	} {
		t.Run(name, func(t *testing.T) {
			words := strings.Fields(strings.ReplaceAll("run "+tc.words, "LIST", "--nodes "+list))
			if tc.argv != nil {
				words = append(append(words, "--"), tc.argv...)
			}
			p := program(t, words...).start()
			p.wantCode(tc.code)
			p.wantStderr(tc.stderr...)
			if tc.stderr == nil && p.stderr.String() != "" {
				t.Errorf("stderr %q", &p.stderr)
			}
			if n := strings.Count(p.stderr.String(), "\n"); tc.stderr != nil && n != 1 {
				t.Errorf("%d lines: %q", n, &p.stderr)
			}
		})
	}
}

// What a command needs is as it was: its standard files, its arguments, its environment and other files.
func TestRun_standardFilesAndEnvironment_untouched(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := program(t, "run", "in out", "--", "sh", "-c", `cat; cat <&5; echo "$REDLOCK_NAME|$REDLOCK_TOKEN|$OWN|$1" >&2`, "sh", "a b")
	p.Stdin = strings.NewReader("to the command\n")
	r, w, err := os.Pipe()
	must(t, err)
	p.ExtraFiles = []*os.File{nil, nil, r} // 5
	p.Env = append(p.Env, nodesVar+"="+list, "OWN=1", "REDLOCK_TOKEN=old", "REDLOCK_NAME=old")
	p.start()
	must(t, r.Close())
	_, err = w.WriteString("from another file\n")
	must(t, err)
	must(t, w.Close())
	said, _ := p.rest()
	p.wantCode(0)
	if said != "to the command\nfrom another file\n" {
		t.Errorf("stdout %q", said)
	}
	words := strings.Split(strings.TrimSpace(p.stderr.String()), "|")
	if len(words) != 4 || words[0] != "in out" || words[2] != "1" || words[3] != "a b" {
		t.Fatalf("stderr %q", &p.stderr)
	}
	first, err := strconv.ParseInt(words[1], 10, 64)
	must(t, err)
	q := startRun(t, list, "in out", "--", "sh", "-c", "echo $REDLOCK_TOKEN")
	if second := q.number(); int64(second) <= first {
		t.Errorf("token %d after %d", second, first)
	}
	q.wantCode(0)
}

// A reader that goes away ends the command by SIGPIPE, and redlock not at all.
func TestRun_readersGone_commandGetsSIGPIPE(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--", "yes")
	p.line()
	must(t, p.pipe.Close())
	p.wantCode(128 + int(syscall.SIGPIPE))

	q := program(t, "run", "a", "-v", "--nodes", list, "--", "sh", "-c", "exit 4")
	r, w, err := os.Pipe()
	must(t, err)
	must(t, r.Close())
	q.Cmd.Stderr = w
	q.start()
	must(t, w.Close())
	q.wantCode(4)
}

// A disk without space: the command has its own errors, and redlock's words are lost, not its exit code.
func TestRun_diskFull_codeIsTheCommands(t *testing.T) {
	t.Parallel()
	full := diskFull(t)
	_, list := voting(t)
	p := program(t, "run", "a", "-v", "--nodes", list, "--", "sh", "-c", "echo text; test $? != 0 && exit 6")
	p.Cmd.Stdout, p.Cmd.Stderr = full, full
	must(t, p.Start())
	p.wantCode(6)
	free(t, list, "a")
}

// diskFull is a file that cannot be written.
func diskFull(t testing.TB) *os.File {
	t.Helper()
	needs.Linux(t, "/dev/full")
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestRun_signals_passedToTheGroup(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	script := `for s in INT TERM HUP QUIT USR1 USR2 WINCH; do trap "echo $s" $s; done; trap 'echo last; exit 9' ALRM
(trap 'echo of another process; exit' USR2; trap '' INT TERM HUP QUIT USR1 WINCH; echo ready; while :; do sleep 0.02; done) &
while :; do sleep 0.02; done`
	p := startRun(t, list, "a", "--", "sh", "-c", script)
	if got := p.line(); got != "ready" {
		t.Fatalf("%q", got)
	}
	for _, s := range []struct {
		sig  syscall.Signal
		name string
	}{{syscall.SIGINT, "INT"}, {syscall.SIGTERM, "TERM"}, {syscall.SIGHUP, "HUP"}, {syscall.SIGQUIT, "QUIT"}, {syscall.SIGUSR1, "USR1"}, {syscall.SIGWINCH, "WINCH"}} {
		must(t, p.Process.Signal(s.sig))
		if got := p.line(); got != s.name {
			t.Errorf("%v: %q", s.sig, got)
		}
	}
	must(t, p.Process.Signal(syscall.SIGUSR2))
	if got := map[string]bool{p.line(): true, p.line(): true}; !got["USR2"] || !got["of another process"] {
		t.Errorf("%v", got)
	}
	must(t, p.Process.Kill())
	p.rest()
}

func TestRun_SIGTERM_codeIsTheCommands(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--", "sh", "-c", "trap 'exit 5' TERM; echo started; while :; do sleep 0.02; done")
	p.line()
	must(t, p.Process.Signal(syscall.SIGTERM))
	p.wantCode(5)
	free(t, list, "a")
	q := startRun(t, list, "a", "--", "sh", "-c", "echo started; exec sleep 600")
	q.line()
	must(t, q.Process.Signal(syscall.SIGINT))
	q.wantCode(130)
	free(t, list, "a")
}

func TestRun_interruptedWhileItWaits_ownCodeAndNothingLeft(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	holder := startRun(t, list, "a", "--", "sh", "-c", "echo started; sleep 600")
	holder.line()
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		p := startRun(t, list, "a", "-v", "--", "true")
		eventually(t, "it waits", func() bool { return strings.Contains(p.stderr.String(), "waiting for lock") })
		must(t, p.Process.Signal(syscall.SIGWINCH))
		must(t, p.Process.Signal(sig))
		p.wantCode(code)
		p.wantStderr(said.StoppedWaiting.Text)
	}
	must(t, holder.Process.Kill())
	// While masters do not answer.
	p := program(t, "run", "a", "-v", "--node-count", "1", "--nodes", dead, "--", "true").start()
	eventually(t, "it connects", func() bool { return strings.Contains(p.stderr.String(), "connecting to the masters") })
	must(t, p.Process.Signal(syscall.SIGINT))
	p.wantCode(130)
}

// While masters recover, run waits for them, and says so.
func TestRun_mastersRecover_saysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	must(t, direct(t, servers[0].URL()).FlushAll(t.Context()).Err())
	must(t, servers[1].Kill())
	for _, words := range [][]string{{"run", "a"}, {"elect", "e"}} {
		p := program(t, append(words, "--nodes", list, "--", "true")...).start()
		eventually(t, "it says that it waits", func() bool {
			return strings.Contains(p.stderr.String(), said.WaitsForMasters.With("masters are recovering: "))
		})
		must(t, p.Process.Signal(syscall.SIGTERM))
		p.wantCode(143)
	}
}

// A lease that another holder handed over is short at first: the command must not be ended for that.
func TestRun_lockHandedOver_commandHasTheWholeTTL(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	holder := startRun(t, list, "a", "--ttl", "30s", "--", "sh", "-c", "trap 'exit 0' TERM; echo started; while :; do sleep 0.02; done")
	holder.line()
	p := startRun(t, list, "a", "--ttl", "30s", "-v", "--", "sh", "-c", "trap 'echo term' TERM; echo started; sleep 0.3; echo done")
	eventually(t, "it waits", func() bool { return strings.Contains(p.stderr.String(), "waiting for lock") })
	must(t, holder.Process.Signal(syscall.SIGTERM))
	holder.wantCode(0)
	if said, _ := p.rest(); said != "started\ndone\n" {
		t.Errorf("%q", said)
	}
	p.wantCode(0)
}

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
	if _, gone := p.rest(); gone.Sub(killed) > 5*time.Second {
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
	must(t, syscall.Kill(was[0], syscall.SIGTERM)) // as pkill does to all: not heard
	must(t, syscall.Kill(was[0], syscall.SIGKILL))
	eventually(t, "another guard", func() bool {
		now := guards(t, p.Process.Pid)
		return len(now) == 1 && now[0] != was[0]
	})
	killed := time.Now()
	must(t, p.Process.Kill())
	if _, gone := p.rest(); gone.Sub(killed) > 5*time.Second {
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
	if _, gone := p.rest(); gone.Sub(killed) > 5*time.Second {
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
	if len(guards(t, p.Process.Pid)) != 0 {
		t.Error("a guard is left")
	}
}

// ttl is that of the tests that lose a lease.
const ttl = 2 * time.Second

// endMargin is how long before the end of the validity the group gets SIGKILL: what they leave to a machine that stands still.
const endMargin = ttl / 20

// endsInTime checks that all processes of p have ended before a lease could end that was renewed for the last time at the latest when
// lost was.
func endsInTime(t testing.TB, p *process, lost time.Time) (said string) {
	t.Helper()
	said, gone := p.rest()
	if d := gone.Sub(lost); d >= ttl-ttl/100-2*time.Millisecond {
		t.Errorf("the command lived for %v, and the lease for no longer than %v", d, ttl)
	}
	return said
}

func TestRun_mastersKilled_commandEndedBeforeValidityEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		said   string
	}{
		"heeds SIGTERM":   {"trap 'echo term; exit 0' TERM; echo started; while :; do sleep 0.05; done", "term\n"},
		"ignores SIGTERM": {restless, "term\n"},
		"and a child":     {"trap '' TERM; sleep 600 & echo started; wait; sleep 600", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stall.Try(t, endMargin, func(t testing.TB) {
				servers, list := voting(t)
				p := startRun(t, list, "a", "--ttl", ttl.String(), "--", "sh", "-c", tc.script)
				p.line()
				var lost time.Time
				for _, s := range servers[:2] {
					must(t, s.Kill())
					lost = time.Now()
				}
				if said := endsInTime(t, p, lost); said != tc.said {
					t.Errorf("%q, want %q", said, tc.said)
				}
				p.wantCode(74)
				p.wantStderr(said.CannotRenew.Text, said.LostLock.With(`"a"`, ""))
				if tc.script == restless {
					p.wantStderr(said.LeaseEnds.Text)
				}
			})
		})
	}
}

// The votes are gone: another may hold the lock already.
func TestRun_votesGone_commandKilledAtOnce(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	p := startRun(t, list, "a", "--ttl", "3s", "--", "sh", "-c", restless)
	p.line()
	for _, s := range servers {
		must(t, direct(t, s.URL()).Del(t.Context(), "a").Err())
	}
	if said, _ := p.rest(); said != "" {
		t.Errorf("%q", said)
	}
	p.wantCode(74)
	p.wantStderr(said.LeaseLost.Text, said.LostLock.With(`"a"`, ""))
}

// A command that is stopped is continued, so that it hears SIGTERM.
func TestRun_commandStoppedAndMastersKilled_endedBeforeValidityEnds(t *testing.T) {
	t.Parallel()
	stall.Try(t, endMargin, func(t testing.TB) {
		servers, list := voting(t)
		p := startRun(t, list, "a", "--ttl", ttl.String(), "--", "sh", "-c", "echo $$; "+restless)
		command := p.number()
		p.line()
		must(t, syscall.Kill(-command, syscall.SIGSTOP))
		var lost time.Time
		for _, s := range servers[:2] {
			must(t, s.Kill())
			lost = time.Now()
		}
		if said := endsInTime(t, p, lost); said != "term\n" {
			t.Errorf("%q", said)
		}
		p.wantCode(74)
	})
}

// A command that is stopped keeps its lock, and goes on when it is continued.
func TestRun_commandStopped_lockIsKept(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) { // of a TTL of 1 s
		_, list := voting(t)
		p := startRun(t, list, "a", "--ttl", "1s", "--", "sh", "-c", "echo $$; while ! test -e $0; do sleep 0.02; done; echo done", filepath.Join(t.TempDir(), "go"))
		command := p.number()
		must(t, syscall.Kill(-command, syscall.SIGTSTP))
		q := startRun(t, list, "a", "--wait", "1500ms", "--", "true") // longer than the TTL
		q.wantCode(75)
		must(t, os.WriteFile(p.Args[len(p.Args)-1], nil, 0o644))
		must(t, p.Process.Signal(syscall.SIGCONT))
		if got := p.line(); got != "done" {
			t.Errorf("%q", got)
		}
		p.wantCode(0)
	})
}

func TestRun_commandStoppedAndRedlockKilled_commandGone(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--", "sh", "-c", twoProcesses)
	command := p.number()
	p.line()
	must(t, syscall.Kill(-command, syscall.SIGSTOP))
	must(t, p.Process.Kill())
	p.rest()
}

// redlock is stopped, and so cannot renew the lease: the guard kills the command in time.
func TestRun_redlockStopped_commandEndedBeforeValidityEnds(t *testing.T) {
	t.Parallel()
	stall.Try(t, endMargin, func(t testing.TB) {
		_, list := voting(t)
		// A pipe that only the command has: redlock has stdout too, and is not to end.
		fifo := filepath.Join(t.TempDir(), "fifo")
		must(t, syscall.Mkfifo(fifo, 0o600))
		p := startRun(t, list, "a", "--ttl", ttl.String(), "--", "sh", "-c", `exec >"$0"; `+restless, fifo)
		out, err := os.Open(fifo)
		must(t, err)
		defer out.Close()
		q := &process{t: t, out: bufio.NewReader(out)}
		q.line()
		must(t, p.Process.Signal(syscall.SIGSTOP))
		if said := endsInTime(t, q, time.Now()); said != "" {
			t.Errorf("%q", said)
		}
		must(t, p.Process.Signal(syscall.SIGCONT))
		p.wantCode(74)
		if lost := regexp.MustCompile(`lost lock "a": this process stood still for \d+(\.\d+)?m?s, so nothing renewed the lease\n$`); !lost.MatchString(p.stderr.String()) {
			t.Errorf("%q", p.stderr.String())
		}
		free(t, list, "a")
	})
}

// The lock is kept for what the command leaves behind in its group, and that is given some time.
func TestRun_processesLeftBehind_waitedForThenKilled(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	_, list := voting(t)
	p := startRun(t, list, "a", "--", "sh", "-c", "(trap '' HUP; echo started; while ! test -e $0; do sleep 0.02; done; echo late) & exit 3", filepath.Join(t.TempDir(), "go"))
	p.line()
	q := startRun(t, list, "a", "-n", "--", "true")
	q.wantCode(75)
	must(t, os.WriteFile(p.Args[len(p.Args)-1], nil, 0o644))
	if got := p.line(); got != "late" {
		t.Errorf("%q", got)
	}
	p.wantCode(3)

	p = program(t, "run", "a", "--nodes", list, "--", "sh", "-c", "sleep 600 & exit 3")
	p.Env = append(p.Env, straysVar+"=300ms")
	p.start().rest()
	p.wantCode(3)
	p.wantStderr(said.LeftBehind.With("300ms"))
	free(t, list, "a")
}

// A daemon leaves the group, and is left alone.
func TestRun_daemon_leftAlone(t *testing.T) {
	t.Parallel()
	needs.Program(t, "setsid")
	_, list := voting(t)
	p := startRun(t, list, "a", "--", "sh", "-c", "setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' & wait $!")
	daemon := p.number()
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGKILL) })
	must(t, p.Process.Kill())
	p.rest() // the group is gone
	if !alive(daemon) {
		t.Error("it was killed")
	}
}

func TestRun_nodesFromFileAndEnvironment(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	file := filepath.Join(t.TempDir(), "nodes")
	must(t, os.WriteFile(file, []byte("# the masters\n\n"+strings.ReplaceAll(list, ",", "\n  ")+"\n"), 0o600))
	bad := filepath.Join(t.TempDir(), "bad")
	must(t, os.WriteFile(bad, []byte("# one\n"+"redis://:topsecret@x:y\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, []byte("# none\n"), 0o600))
	for name, tc := range map[string]struct {
		env    []string
		flags  []string
		code   int
		stderr []string
	}{
		"variable":             {[]string{nodesVar + "=" + list}, nil, 0, nil},
		"file":                 {nil, []string{"--nodes-file", file}, 0, nil},
		"variable of a file":   {[]string{nodesFileVar + "=" + file}, nil, 0, nil},
		"flag before variable": {[]string{nodesVar + "=" + dead, nodesFileVar + "=/no/such"}, []string{"--nodes", list}, 0, nil},
		"file before variable": {[]string{nodesVar + "=" + dead}, []string{"--nodes-file", file}, 0, nil},
		"variable before file": {[]string{nodesVar + "=" + list, nodesFileVar + "=/no/such"}, nil, 0, nil},
		"two flags":            {nil, []string{"--nodes-file", file, "--nodes", list}, 2, []string{"give one of them"}},
		"no file":              {nil, []string{"--nodes-file", "/no/such"}, 2, []string{"--nodes-file: ", "/no/such", "no such file"}},
		"empty file":           {[]string{nodesFileVar + "=" + empty}, nil, 2, []string{nodesFileVar, "names no master"}},
		"bad line":             {nil, []string{"--nodes-file", bad}, 2, []string{bad + ":2: ", "***@x:y"}},
		"bad variable":         {[]string{nodesVar + "=redis://:topsecret@x:y"}, nil, 2, []string{nodesVar + ": ", "***@x:y"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := program(t, append(append([]string{"run", "a"}, tc.flags...), "--", "true")...)
			p.Env = append(p.Env, tc.env...)
			p.start().wantCode(tc.code)
			p.wantStderr(tc.stderr...)
		})
	}
}

func TestHelp_namesExitCodes(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"help", "run"}} {
		code, stdout, stderr := cli(t, args...)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, "exit code") || !strings.Contains(stdout, "130") {
			t.Errorf("%v: exit code %d, %q\n%s", args, code, stderr, stdout)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := cli(t, "completion", shell); code != exitOK || !strings.Contains(stdout, "redlock") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
	if code, _, stderr := cli(t, "frob"); code != exitUsage || !strings.Contains(stderr, `"frob"`) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
