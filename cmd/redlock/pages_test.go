// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/pages"
)

// Each command line of redlock on README and the pages has a command and flags that there are.
func TestPages_commandLines_areOfThisProgram(t *testing.T) {
	all, err := pages.Commands("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range all {
		args, ok := c.Args("redlock")
		if !ok {
			continue
		}
		n++
		root, _ := newRoot(output{io.Discard, io.Discard})
		root.InitDefaultHelpCmd()
		root.InitDefaultCompletionCmd()
		cmd, _, err := root.Find(args)
		if err != nil || cmd == root && !strings.HasPrefix(args[0], "-") {
			t.Errorf("%v: no such command: %v", c, err)
			continue
		}
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		for _, name := range pages.Flags(args) {
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && (len(name) != 1 || cmd.Flags().ShorthandLookup(name) == nil) {
				t.Errorf("%v: %s has no flag --%s", c, cmd.Name(), name)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d command lines were found", n)
	}
}
