// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/windows"
)

func hidden() {}

// locking are the commands that run a command. They say that they cannot.
func locking(output) []*cobra.Command {
	return []*cobra.Command{unixOnly("run"), unixOnly("elect")}
}

// isTerminal reports whether f is a console.
func isTerminal(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}
