// SPDX-License-Identifier: Apache-2.0

package localredis

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttr: die with the parent (see spawn), and stay out of the terminal's process group, so that Ctrl-C reaches our program alone and
// it can still ask its servers before it closes them.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// stopped tells whether the process is in state T of /proc/PID/stat, the first field after the name in parentheses.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T"))
}
