// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func hidden() {}

// locking are the commands that run a command. They say that they cannot.
func locking(output) []*cobra.Command {
	return []*cobra.Command{unixOnly("run"), unixOnly("elect")}
}
