// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package etcd

import "syscall"

// childAttr: there is no Pdeathsig on these systems.
func childAttr() *syscall.SysProcAttr { return nil }
