// SPDX-License-Identifier: Apache-2.0

package chaoscli

import (
	"flag"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/pages"
)

// Each command line of redlock-bench chaos on README and the pages has a command and flags that there are.
func TestPages_commandLines_areOfThisProgram(t *testing.T) {
	all, err := pages.Commands("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range all {
		args, ok := c.Args("redlock-bench")
		if !ok || len(args) == 0 || args[0] != "chaos" {
			continue
		}
		n++
		cmd, args := commands()[0], args[1:]
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			cmd.name = ""
			for _, other := range commands() {
				if other.name == args[0] {
					cmd = other
				}
			}
			args = args[1:]
		}
		if cmd.name == "" {
			t.Errorf("%v: no such command", c)
			continue
		}
		fs := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
		cmd.define(fs)
		for _, name := range pages.Flags(args) {
			if fs.Lookup(name) == nil && name != "help" {
				t.Errorf("%v: chaos %s has no flag --%s", c, cmd.name, name)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d command lines were found", n)
	}
}
