// SPDX-License-Identifier: Apache-2.0

//go:build unix

package termline

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether f is a terminal. A device that is none, such as /dev/null, is not.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}
