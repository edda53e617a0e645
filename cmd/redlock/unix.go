// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock/cmd/redlock/internal/supervise"
)

// In init, so that main has the main thread for itself: see supervise.Run.
func init() { runtime.LockOSThread() }

// hidden plays the guard of a command, if this process was started for that.
func hidden() { supervise.Hidden() }

// locking are the commands that run a command.
func locking(o output) []*cobra.Command { return []*cobra.Command{newRun(o), newElect(o)} }
