// SPDX-License-Identifier: Apache-2.0

package localredis

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/redlock-go/redlock/internal/needs"
)

// childVar makes the test binary play the program that is killed.
const childVar = "LOCALREDIS_TEST_CHILD"

const exists = syscall.Signal(0) // asks whether a process exists

// childMain starts two servers, prints "pid dir" of each, and waits to be killed.
func childMain() {
	servers, err := StartN(context.Background(), 2, Config{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, s := range servers {
		fmt.Println(s.PID(), s.Dir())
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // the parent never writes: blocked until SIGKILL
	os.Exit(1)
}

func TestSpawn_parentSIGKILLed_noServerLeft(t *testing.T) {
	needs.Linux(t, "promised there alone")
	start(t, Config{}) // skips where there is no server
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), childVar+"=1", "TMPDIR="+t.TempDir())
	parent.Stderr = os.Stderr
	_, err := parent.StdinPipe() // open and silent
	must(t, err)
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	defer parent.Wait()
	defer parent.Process.Kill()

	lines := bufio.NewScanner(out)
	var pids []int
	for len(pids) < 2 && lines.Scan() {
		var pid int
		var dir string
		if _, err := fmt.Sscan(lines.Text(), &pid, &dir); err != nil {
			t.Fatalf("child says %q", lines.Text())
		}
		if !isServer(pid) {
			t.Fatalf("process %d is no redis-server", pid)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatal("the child started no servers")
	}
	must(t, parent.Process.Kill())
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("redis-server %d gone", pid), func() bool { return !isServer(pid) })
	}
}

// A server at work needs a moment to stop: without waiting for it Pause returns while the process still runs.
func TestPause_busyServer_stoppedOnReturn(t *testing.T) {
	needs.Linux(t, "reads /proc")
	s := start(t, Config{})
	// The script outlives the test's patience for an answer, so its reply (an error, when Close kills the server) is not waited for here.
	busy := make(chan struct{})
	c := client(t, s)
	go func() {
		defer close(busy)
		_ = c.Eval(context.Background(), "while true do end", nil).Err()
	}()
	defer func() { _ = s.Kill(); <-busy }()
	for i := range 200 {
		must(t, s.Pause())
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
		if err != nil || !strings.Contains(string(stat), ") T ") {
			t.Fatalf("pause %d: stat %q, %v", i, stat, err)
		}
		must(t, s.Resume())
	}
}

func TestClose_afterKill_portOursUntilThen(t *testing.T) {
	needs.Linux(t, "promised there alone")
	s := start(t, Config{})
	bind := func() error {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		must(t, err)
		defer syscall.Close(fd)
		return syscall.Bind(fd, &syscall.SockaddrInet4{Port: s.port.Number(), Addr: [4]byte{127, 0, 0, 1}})
	}
	must(t, s.Kill())
	if err := bind(); err != syscall.EADDRINUSE {
		t.Errorf("bind to the port of a killed server: %v", err)
	}
	must(t, s.Close())
	if err := bind(); err != nil {
		t.Errorf("bind to the port of a closed server: %v", err)
	}
}

// isServer tells whether pid is a living redis-server. The command line of a zombie that nobody has reaped yet is empty.
func isServer(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(cmdline), "redis-server")
}
