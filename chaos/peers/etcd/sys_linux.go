// SPDX-License-Identifier: Apache-2.0

package etcd

import "syscall"

// childAttr: die with this program, however it ends.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
