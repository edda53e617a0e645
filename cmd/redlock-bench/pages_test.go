// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"testing"

	"github.com/redlock-go/redlock/internal/pages"
)

// Each command line of redlock-bench on README and the pages has a command and flags that there are. The flags of chaos are looked at in chaoscli.
func TestPages_commandLines_areOfThisProgram(t *testing.T) {
	all, err := pages.Commands("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range all {
		args, ok := c.Args("redlock-bench")
		if !ok {
			continue
		}
		n++
		found, rest, err := lookUp(args)
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		if found.make == nil {
			continue
		}
		fs := flag.NewFlagSet(found.name, flag.ContinueOnError)
		found.make().define(fs)
		for _, name := range pages.Flags(rest) {
			if fs.Lookup(name) == nil && !isHelp("-"+name) {
				t.Errorf("%v: %s has no flag --%s", c, found.name, name)
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d command lines were found", n)
	}
}
