// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/pages"
)

// Each command line of redlock on README and the pages has a command and flags that there are.
func TestPages_commandLines_areOfThisProgram(t *testing.T) {
	pages.Check(t, "../..", "redlock", 100, func(args []string) (has func(string) bool, err error) {
		root, _ := newRoot(output{io.Discard, io.Discard})
		root.InitDefaultHelpCmd()
		root.InitDefaultCompletionCmd()
		cmd, _, err := root.Find(args)
		if err == nil && cmd == root && !strings.HasPrefix(args[0], "-") {
			err = errors.New(args[0])
		}
		if err != nil {
			return nil, err
		}
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		return func(name string) bool {
			return cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil || len(name) == 1 && cmd.Flags().ShorthandLookup(name) != nil
		}, nil
	})
}
