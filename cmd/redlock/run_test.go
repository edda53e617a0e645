// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/said"
	"github.com/redlock-go/redlock/internal/stall"
)

func TestRun_exitCodes(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	fresh := strings.Join(startURLs(t, 3), ",")
	dir := t.TempDir()
	plain, junk := filepath.Join(dir, "plain"), filepath.Join(dir, "junk")
	must(t, os.WriteFile(plain, []byte("text"), 0o644))
	must(t, os.WriteFile(junk, []byte("\x01\x02 no program"), 0o755))
	script := filepath.Join(dir, "script")
	must(t, os.WriteFile(script, []byte("#!/no/such/shell\n"), 0o755))
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
		"no interpreter":       {"f LIST", []string{script}, 127, []string{said.NoInterpreter.With(script)}},
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
		"a short maximum TTL":  {"g --max-ttl 5s LIST", []string{"true"}, 2, []string{"another epoch"}},
		"too short a maximum":  {"g --max-ttl 500ms LIST", []string{"true"}, 2, []string{"--max-ttl 500ms: a command under a lock needs masters with 1s or more"}},
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
			stall.Try(t, 10*time.Millisecond, func(t testing.TB) { // that is how long it asks who has a lock that it gave up
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
		})
	}
}

// What a command needs is as it was: its standard files, its arguments, its environment and other files.
func TestRun_standardFilesAndEnvironment_untouched(t *testing.T) {
	t.Parallel()
	stall.Try(t, 100*time.Millisecond, filesAndEnvironment) // a release that is confirmed late is said on stderr
}

func filesAndEnvironment(t testing.TB) {
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

// timeout(1) signals its child, and then the child's whole group: that is one wish, and the end says what it has to say.
func TestWatch_signalTwiceAtOnce_isOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes between the two
		signals, calls := make(chan os.Signal), 0
		stop := watch(signals, func() { calls++ })
		for range 2 {
			signals <- syscall.SIGTERM
		}
		if sig := stop(); sig != syscall.SIGTERM || calls != 1 {
			t.Errorf("stopped by %v, and cancelled %d times", sig, calls)
		}
	})
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

// The lock is kept for what the command leaves behind in its group, and that is given some time.
func TestRun_processesLeftBehind_waitedForThenKilled(t *testing.T) {
	needs.Test(t)
	t.Parallel()
	_, list := voting(t)
	p := program(t, "run", "a", "--nodes", list, "--", "sh", "-c", "(trap '' HUP; echo started; while ! test -e $0; do sleep 0.02; done; echo late) & exit 3", filepath.Join(t.TempDir(), "go"))
	p.Env = append(p.Env, straysVar+"=1m")
	p.start().line()
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
	for _, words := range []string{"help", "version", "completion", "completion bash", "completion zsh", "completion fish", "completion powershell"} {
		code, stdout, _ := cli(t, append(strings.Fields(words), "--help")...)
		if code != exitOK || !strings.Contains(stdout, "\nexit code: 0") || !strings.Contains(stdout, "\nExamples:\n  redlock ") {
			t.Errorf("%s: exit code %d, without its exit codes or an example: %s", words, code, stdout)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := cli(t, "completion", shell); code != exitOK || !strings.Contains(stdout, "redlock") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
	for _, args := range [][]string{{"frob"}, {"help", "frob"}, {"help", "run", "frob"}, {"completion", "frob"}, {"completion", "bash", "frob"}} {
		code, stdout, stderr := cli(t, args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, `"frob"`) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
	if _, stdout, stderr := cli(t, "help", "redis://:topsecret@a:1"); strings.Contains(stdout+stderr, "topsecret") {
		t.Errorf("a password is printed: %q", stderr)
	}
}
