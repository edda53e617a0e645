// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"flag"
	"testing"

	"github.com/redlock-go/redlock/internal/pages"
)

// Each command line of redlock-bench chaos on README and the pages has a command and flags that there are.
func TestPages_commandLines_areOfThisProgram(t *testing.T) {
	pages.Check(t, "../..", "redlock-bench", 20, func(args []string) (has func(string) bool, err error) {
		if len(args) == 0 || args[0] != "chaos" {
			return nil, nil // looked up in cmd/redlock-bench
		}
		cmd, _, err := lookUp(args[1:])
		if err != nil {
			return nil, err
		}
		fs := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
		cmd.define(fs)
		return func(name string) bool { return fs.Lookup(name) != nil || name == "help" }, nil
	})
}
