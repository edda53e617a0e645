// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package localredis

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// childAttr: no Pdeathsig here. The children stay in our process group, so that at least Ctrl-C ends them.
func childAttr() *syscall.SysProcAttr { return nil }

// stopped asks ps, since there is no /proc.
func stopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}
