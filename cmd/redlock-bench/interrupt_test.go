// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
)

// program is redlock-bench as a process of its own, with a directory of its own for what it might leave behind.
type program struct {
	*exec.Cmd
	tmp    string
	pipe   io.ReadCloser // its stdout
	out    *bufio.Reader // on pipe
	stderr strings.Builder
	ports  []string // of its masters
}

// startProgram returns when the masters are up.
func startProgram(t testing.TB, args ...string) *program {
	t.Helper()
	needs.Redis(t)
	needs.Linux(t, "looks for processes in /proc")
	p := &program{Cmd: exec.Command(os.Args[0], args...), tmp: t.TempDir()}
	p.Env = append(os.Environ(), programVar+"=1", "TMPDIR="+p.tmp)
	p.Stderr = &p.stderr
	var err error
	p.pipe, err = p.StdoutPipe()
	must(t, err)
	must(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	p.out = bufio.NewReader(p.pipe)
	for len(p.ports) == 0 {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatalf("ended before it named its masters: %v, %s", err, &p.stderr)
		}
		if _, ports, ok := strings.Cut(line, "ports "); ok {
			p.ports = strings.Fields(ports)
		}
	}
	if len(p.ports) != 3 || p.serversLeft() != 3 {
		t.Fatalf("ports %v and %d processes, want 3", p.ports, p.serversLeft())
	}
	return p
}

// serversLeft counts the processes whose command line has a redis-server on one of the program's ports.
func (p *program) serversLeft() (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		text, _ := os.ReadFile(f)
		words := strings.Split(string(text), "\x00")
		for _, port := range p.ports {
			// A server that has set its title says "redis-server 127.0.0.1:port" in one word.
			if strings.Contains(words[0], "redis-server") && (strings.Contains(words[0], ":"+port) || len(words) > 2 && words[2] == port) {
				n++
			}
		}
	}
	return n
}

// clean complains of what is left when the program has ended.
func (p *program) clean(t testing.TB) {
	t.Helper()
	eventually(t, "no redis-server left", func() bool { return p.serversLeft() == 0 })
	left, err := os.ReadDir(p.tmp)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProgram_signalled_mastersStoppedAndResultsKept(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		file := filepath.Join(t.TempDir(), "result.json")
		// Cells enough: it is to be interrupted in one, however late.
		p := startProgram(t, "latency", "--callers", "1,2,2,2,2,2,2,2", "--duration", "300ms", "--masters", "3", "--json", file)
		var seen strings.Builder
		for !strings.Contains(seen.String(), "turn by turn") { // the first cell is done
			line, err := p.out.ReadString('\n')
			must(t, err)
			seen.WriteString(line)
		}
		must(t, p.Process.Signal(sig))
		rest, _ := io.ReadAll(p.out)
		err := p.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("%v: %v, want exit code %d\n%s", sig, err, exitInterrupted, rest)
		}
		if got := p.stderr.String(); got != "redlock-bench: interrupted\n" {
			t.Errorf("%v: stderr %q", sig, got)
		}
		p.clean(t)
		text, err := os.ReadFile(file)
		must(t, err)
		m := decode(t, text)
		if list, _ := m["cells"].([]any); len(list) == 0 || m["interrupted"] != true {
			t.Errorf("%v: %s", sig, text)
		}
	}
}

// As under nohup.
func TestProgram_startedWithHangUpIgnored_goesOn(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	p := startProgram(t, "latency", "--callers", "1", "--duration", "300ms", "--masters", "3")
	signal.Reset(syscall.SIGHUP)
	must(t, p.Process.Signal(syscall.SIGHUP))
	rest, _ := io.ReadAll(p.out)
	if err := p.Wait(); err != nil {
		t.Errorf("%v: %s%s", err, rest, &p.stderr)
	}
	p.clean(t)
}

func TestProgram_killed_mastersGone(t *testing.T) {
	p := startProgram(t, "contention", "--masters", "3")
	must(t, p.Process.Kill())
	_ = p.Wait()
	eventually(t, "no redis-server left", func() bool { return p.serversLeft() == 0 })
}

// As behind "| head -2".
func TestProgram_nobodyReads_mastersStopped(t *testing.T) {
	p := startProgram(t, "latency", "--callers", "1,1,1,1,1,1,1,1,1,1", "--duration", "100ms", "--masters", "3")
	must(t, p.pipe.Close())
	if err := p.Wait(); p.ProcessState.ExitCode() != exitUnread {
		t.Errorf("%v, although nobody read what it had to say", err)
	}
	p.clean(t)
}

// A context that is over before anything began.
func TestRun_cancelledBefore_interrupted(t *testing.T) {
	needs.Redis(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, stderr strings.Builder
	begin := time.Now()
	if code := run(ctx, []string{"latency"}, &out, &stderr); code != exitInterrupted || time.Since(begin) > 5*time.Second {
		t.Errorf("exit code %d after %v: %s", code, time.Since(begin), &stderr)
	}
}

// pids are the processes whose first argument is arg.
func pids(t testing.TB, arg string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if words := strings.Split(string(text), "\x00"); len(words) > 1 && words[1] == arg {
			pids = append(pids, strings.Split(f, "/")[2])
		}
	}
	return pids
}
