// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand(o output) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "the version of this program",
		Long: `version prints the version of this program, the Go that built it, and the system
that it was built for. A program that was built in a checkout has the version of
its commit, or "(devel)".

exit code: 0.`,
		Example: "  redlock version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(o.out, "redlock %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is that of the module, as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
