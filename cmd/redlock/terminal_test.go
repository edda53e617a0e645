// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
)

// terminal is a terminal with a program that runs on it.
type terminal struct {
	t      testing.TB
	cmd    *exec.Cmd
	file   *os.File
	output chan string
	seen   string // what came and was not expected yet
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// onTerminal starts a program as a terminal emulator does.
func onTerminal(t testing.TB, cmd *exec.Cmd) *terminal {
	t.Helper()
	file, screen := openTerminal(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, cmd.Start())
	must(t, screen.Close()) // the program has it
	x := &terminal{t: t, cmd: cmd, file: file, output: make(chan string)}
	ended := make(chan struct{})
	go func() {
		defer close(x.output)
		b := make([]byte, 4096)
		for {
			n, err := file.Read(b)
			if err != nil { // EIO when nobody has the terminal any more
				return
			}
			select {
			case x.output <- string(b[:n]):
			case <-ended:
			}
		}
	}()
	t.Cleanup(func() {
		close(ended)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = file.Close()
		for range x.output {
		}
	})
	return x
}

// redlockOnTerminal starts redlock without a shell: it leads the session, as in a container.
func redlockOnTerminal(t testing.TB, list string, argv ...string) *terminal {
	t.Helper()
	return onTerminal(t, program(t, append([]string{"run", "a", "--nodes", list, "--"}, argv...)...).onNothing())
}

// onNothing is the command without the files that program gives it.
func (p *process) onNothing() *exec.Cmd {
	p.Stderr, p.SysProcAttr = nil, nil
	return p.Cmd
}

// shell starts a shell with job control. In its commands, REDLOCK stands for "redlock run a", with a TTL that
// outlives a stop by Ctrl-Z.
func shell(t testing.TB, list string) *terminal {
	t.Helper()
	needs.Program(t, "bash")
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(os.Environ(), programVar+"=1", noWaitAtExit, nodesVar+"="+list, "PS1=ready> ", "REDLOCK="+os.Args[0]+" run a --ttl 30s", "ELECT="+os.Args[0]+" elect a", "TERM=dumb")
	x := onTerminal(t, cmd)
	x.expect("ready> ")
	return x
}

func (x *terminal) send(s string) {
	x.t.Helper()
	_, err := x.file.WriteString(s)
	must(x.t, err)
}

// expect waits until the output has s, and returns what came before.
func (x *terminal) expect(s string) (before string) {
	x.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		if before, after, ok := strings.Cut(x.seen, s); ok {
			x.seen = after
			return before
		}
		select {
		case more, ok := <-x.output:
			if !ok {
				x.t.Fatalf("the output ended before %q: %q", s, x.seen)
			}
			x.seen += more
		case <-limit:
			x.t.Fatalf("no %q: %q", s, x.seen)
		}
	}
}

// foreground is the process group that gets what Ctrl-C sends.
func (x *terminal) foreground() (group int) {
	x.t.Helper()
	c, err := x.file.SyscallConn()
	must(x.t, err)
	must(x.t, c.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }))
	must(x.t, err)
	return group
}

func (x *terminal) wantCode(want int) {
	x.t.Helper()
	go func() {
		for range x.output {
		}
	}()
	limit := time.AfterFunc(20*time.Second, func() { _ = x.cmd.Process.Kill() })
	defer limit.Stop()
	_ = x.cmd.Wait()
	if got := x.cmd.ProcessState.ExitCode(); got != want {
		x.t.Errorf("exit code %d, want %d", got, want)
	}
}

func TestTerminal_ctrlC_commandHearsItOnce(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := redlockOnTerminal(t, list, "sh", "-c", "n=0; trap 'n=$((n+1)); echo heard $n' INT; trap 'exit 8' TERM; echo started; while :; do sleep 0.02; done")
	x.expect("started")
	x.send(ctrlC)
	x.expect("heard 1")
	x.send(ctrlC)
	x.expect("heard 2")
	must(t, x.cmd.Process.Signal(syscall.SIGTERM))
	x.wantCode(8)
}

func TestTerminal_command_isInTheForegroundAndReads(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := redlockOnTerminal(t, list, "sh", "-c", `set -- $(cut -d' ' -f5,8 /proc/self/stat); test $1 = $2 && echo in front; read word; echo "word: $word"`)
	x.expect("in front")
	x.send("hello\n")
	x.expect("word: hello")
	x.wantCode(0)
}

// No shell is there to continue a job: Ctrl-Z must not leave it stopped for ever.
func TestTerminal_ctrlZWithoutShell_commandGoesOn(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := redlockOnTerminal(t, list, "sh", "-c", `echo started; read word; echo "word: $word"`)
	x.expect("started")
	x.send(ctrlZ)
	x.send("hello\n")
	x.expect("word: hello")
	x.wantCode(0)
}

func TestTerminal_shell_ctrlZAndBackAndCtrlC(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := shell(t, list)
	x.send(`$REDLOCK -- sh -c 'echo "star""ted"; while read word; do echo "word: $word"; done'` + "\n")
	x.expect("started")
	for range 2 {
		x.send(ctrlZ)
		x.expect("Stopped")
		x.expect("ready> ")
		x.send("echo sh'e'll\n")
		x.expect("shell")
		x.send("fg\n")
		x.send("hello\n")
		x.expect("word: hello")
	}
	x.send(ctrlC)
	x.expect("ready> ")
	x.send("echo code=$?\n")
	x.expect("code=130")
	x.send("exit\n")
	x.wantCode(0)
}

// A job in the background that wants to read is stopped, as any other.
func TestTerminal_shellJobInTheBackground_readsInTheForeground(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := shell(t, list)
	x.send(`$REDLOCK -- sh -c 'read word; echo "word: $word"' &` + "\n")
	x.expect("ready> ")
	x.send("until [ \"$(jobs -s)\" ]; do sleep 0.02; done; echo sto'pp'ed\n")
	x.expect("stopped")
	x.send("fg\n")
	x.send("hello\n")
	x.expect("word: hello")
	x.expect("ready> ")
	x.send("exit\n")
	x.wantCode(0)
}

// The shell continues the job in the moment in which it has stopped. So the stop takes no time, and is none of those that nobody ends.
func TestTerminal_shellContinuesTheJobAtOnce_readsInTheForeground(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := shell(t, list)
	for range 5 {
		x.send(`$REDLOCK -- sh -c 'read word; echo "word: $word"' & wait %1; fg` + "\n")
		x.expect("read word") // what fg prints
		x.send("hello\n")
		x.expect("word: hello")
		x.expect("ready> ")
	}
	x.send("exit\n")
	x.wantCode(0)
}

// In a pipeline the terminal stays with the pipeline, until the command asks for it.
func TestTerminal_pipeline_ctrlCCtrlZAndReading(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := shell(t, list)
	x.send(`$REDLOCK -- sh -c 'echo "star""ted"; read word; echo "word: $word"' | cat` + "\n")
	x.expect("started")
	x.send("hello\n")
	x.expect("word: hello")
	x.expect("ready> ")
	x.send(`$REDLOCK -- sh -c 'trap "echo hea""rd; exit 4" INT; echo "star""ted"; while :; do sleep 0.02; done' | (trap "" INT; cat)` + "\n")
	x.expect("started")
	x.send(ctrlC)
	x.expect("heard")
	x.expect("ready> ")
	x.send("echo code=${PIPESTATUS[0]}\n")
	x.expect("code=4")
	// What the command started is in its group, and so stops with it.
	x.send(`$REDLOCK -- sh -c 'trap "echo on""ward" CONT; trap "kill \$!; exit" INT; sleep 600 & echo "pi""d=$!;"; while :; do wait; done' | cat` + "\n")
	x.expect("pid=")
	sleeps := x.expect(";")
	x.send(ctrlZ)
	x.expect("Stopped")
	x.expect("ready> ")
	quorumtest.Soon(t, "the sleep is stopped, which needs a processor for a moment", func() bool {
		state, err := exec.Command("ps", "-o", "stat=", "-p", sleeps).Output()
		return err == nil && strings.HasPrefix(string(state), "T")
	})
	x.send("fg\n")
	x.expect("onward")
	x.send(ctrlC)
	x.expect("ready> ")
	x.send("exit 0\n")
	x.wantCode(0)
}

// While redlock is stopped it cannot renew the lease: the command is killed, and the terminal is the shell's.
func TestTerminal_stoppedForTooLong_lost(t *testing.T) {
	t.Parallel()
	stall.Try(t, 300*time.Millisecond, func(t testing.TB) { // between the lock and Ctrl-Z
		_, list := voting(t)
		x := shell(t, list)
		x.send(`$REDLOCK --ttl 1s -- sh -c 'echo "pid=$$;"; while read word; do echo "word: $word"; done'` + "\n")
		x.expect("pid=")
		x.expect(";")
		x.send(ctrlZ)
		x.expect("Stopped")
		x.send("$REDLOCK -- echo an'other'\n")
		x.expect("another")
		x.expect("ready> ")
		x.send("fg\n")
		x.expect("lost lock")
		x.expect("ready> ")
		x.send("echo code=$?\n")
		x.expect("code=74")
		x.send("exit\n")
		x.wantCode(0)
	})
}

// A candidate that led once and waits again heeds Ctrl-Z and Ctrl-C.
func TestTerminal_candidateWaitsAfterItsTerm_ctrlZAndCtrlC(t *testing.T) {
	t.Parallel()
	servers, list := voting(t)
	other := openClient(t, list)
	x := shell(t, list)
	x.send(`$ELECT --ttl 3s -- sh -c 'echo "star""ted"; while read word; do echo "word: $word"; done'` + "\n")
	x.expect("started")
	taken := make(chan error, 1)
	go func() { // before the candidate stands again, so it is served first
		_, err := other.Mutex("a").Lock(t.Context())
		taken <- err
	}()
	waits(t, strings.Split(list, ","), "a")
	voteLoser(t, servers, "a")()
	must(t, <-taken)
	x.expect("stands again")
	x.send(ctrlZ)
	x.expect("Stopped")
	x.expect("ready> ")
	x.send("fg\n")
	eventually(t, "the shell gives the terminal away", func() bool { return x.foreground() != x.cmd.Process.Pid })
	x.send(ctrlC)
	x.expect("interrupted while it waited")
	x.expect("ready> ")
	x.send("echo code=$?\n")
	x.expect("code=130")
	x.send("exit 0\n")
	x.wantCode(0)
}

// An editor that is killed leaves the terminal as it set it, and redlock puts that right.
func TestTerminal_commandKilled_modesRestored(t *testing.T) {
	t.Parallel()
	_, list := voting(t)
	x := shell(t, list)
	x.send("stty -a | grep -o '[-]*icanon'\n")
	x.expect("\nicanon")
	x.send(`$REDLOCK -- sh -c 'stty raw -echo; echo "star""ted"; kill -9 $$'; stty -a | grep -o '[-]*icanon'; echo en'd'` + "\n")
	x.expect("started")
	x.expect("\nicanon")
	x.expect("end")
	x.send("exit\n")
	x.wantCode(0)
}

// What a command waits for is one line on a terminal, that is drawn again.
func TestTerminal_progress_isOneLine(t *testing.T) {
	t.Parallel()
	nodes := startURLs(t, 3)
	x := onTerminal(t, program(t, "init", "--max-ttl", "3500ms", "--nodes", strings.Join(nodes, ",")).onNothing())
	before := x.expect("all vote: the list has begun")
	if n := strings.Count(before, "\r\x1b[K"); n < 3 {
		t.Errorf("drawn %d times: %q", n, before)
	}
	if _, drawn, _ := strings.Cut(before, "\x1b[K"); strings.Count(drawn, "left: ") < 2 || strings.Contains(drawn[:strings.LastIndex(drawn, "\x1b[K")], "\n") {
		t.Errorf("line breaks between: %q", before)
	}
	x.wantCode(exitOK)
}
