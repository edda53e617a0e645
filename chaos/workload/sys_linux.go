// SPDX-License-Identifier: Apache-2.0

package workload

import "syscall"

// childAttr: die with the harness, and stay out of the terminal's process group, so that Ctrl-C reaches the harness alone, which then ends
// its clients in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
