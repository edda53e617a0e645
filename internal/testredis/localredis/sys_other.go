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

// stopped reports whether the process is stopped. It asks ps, because there is no /proc.
func stopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}
