// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"

	"github.com/redlock-go/redlock/internal/pages"
)

// Each command line of redlock-bench on README and the pages has a command and flags that there are.
func TestPages_commandLines_areOfThisProgram(t *testing.T) {
	pages.Check(t, "../..", "redlock-bench", 25, func(args []string) (has func(string) bool, err error) {
		found, _, err := lookUp(args)
		if err != nil {
			return nil, err
		}
		if found.make == nil { // chaos, whose flags are looked up in chaoscli
			return func(string) bool { return true }, nil
		}
		fs := flag.NewFlagSet(found.name, flag.ContinueOnError)
		found.make().define(fs)
		return func(name string) bool { return fs.Lookup(name) != nil || isHelp("-"+name) }, nil
	})
}
