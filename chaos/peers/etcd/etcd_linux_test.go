// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const startedVar = "ETCD_TEST_STARTED" // in a program that starts a cluster, and is killed

func TestMain(m *testing.M) {
	if os.Getenv(startedVar) != "" {
		_, _ = Start(context.Background())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// etcd puts a program into PATH instead of etcd.
func etcd(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "etcd"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// The members end with a program that is killed: the last one closes the pipe.
func TestStart_programIsKilled_membersEnd(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	etcd(t, "exec 3>"+pipe+"; echo $$ >&3; exec sleep 1000")
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(startedVar, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(f)
	for range 3 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if t.Failed() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}()
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("a member lives on: %v", err)
	}
}
