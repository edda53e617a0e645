// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package workload

import "syscall"

// childAttr: stay out of the terminal's process group. A client whose harness dies sees the end of its input.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
