// SPDX-License-Identifier: Apache-2.0

package localredis

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttr makes the child die with its parent (see spawn), and keeps it out of the terminal's process group. Ctrl-C then reaches this program
// only, which can still query its servers before it closes them.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// killAll kills the process and what it forked: childAttr made it the leader of a group. A child that rewrites the append-only file would write on
// into a directory that is wiped or removed.
func killAll(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// stopped tells whether the process is in state T of /proc/PID/stat, the first field after the name in parentheses.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T"))
}
