// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// errUnixOnly is what run and elect say on Windows.
var errUnixOnly = errors.New("only on Unix: it ends the command before the lock ends, by process groups and signals, which this system has not. Use it in WSL, or the library in a program")

// unixOnly stands for a command that this system cannot have. It takes every flag, so that errUnixOnly is all that it says.
func unixOnly(verb string) *cobra.Command {
	return &cobra.Command{
		Use:                verb + " NAME [flags] -- command [argument ...]",
		Short:              "only on Unix",
		Long:               "redlock " + verb + " is " + errUnixOnly.Error() + ".",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg == "-h" || arg == "--help" {
					return cmd.Help()
				}
			}
			return usageError{errors.New(cmd.CommandPath() + " is " + errUnixOnly.Error())}
		},
	}
}
