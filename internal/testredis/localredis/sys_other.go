// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package localredis

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttr leaves the children in this program's process group, so that Ctrl-C ends them. There is no Pdeathsig on these systems.
func childAttr() *syscall.SysProcAttr { return nil }

// killAll kills the process. What it forked lives on: it is in this program's group.
func killAll(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// stopped reports whether the process is stopped. It asks ps, because there is no /proc.
func stopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}
