// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package termline

import "golang.org/x/sys/unix"

const getTermios = unix.TIOCGETA
