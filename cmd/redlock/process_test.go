// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
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

// waits returns when somebody stands in the queue for the lock on each master, and hears there when it is given back.
func waits(t testing.TB, urls []string, name string) {
	t.Helper()
	for _, u := range urls {
		d := direct(t, u)
		eventually(t, "it waits", func() bool {
			return d.ZCard(t.Context(), quorumtest.Queue(name)).Val() == 1 && len(d.PubSubChannels(t.Context(), protocol.Wake("*")).Val()) > 0
		})
	}
}

// voteLoser returns a function that takes the votes for a lock from the masters, in the time of three trips: one renewal in between puts a vote back,
// and two of them all.
func voteLoser(t testing.TB, servers []*localredis.Server, name string) (lose func()) {
	t.Helper()
	var masters []*redis.Client
	for _, s := range servers {
		d := direct(t, s.URL())
		must(t, d.Ping(t.Context()).Err())
		masters = append(masters, d)
	}
	return func() {
		t.Helper()
		for _, d := range masters {
			must(t, d.Del(t.Context(), name).Err())
		}
	}
}

// restless is a command that runs until it is killed, and prints "term" when it is asked to end.
const restless = `trap 'echo term' TERM; echo started; while :; do sleep 0.05; done`
