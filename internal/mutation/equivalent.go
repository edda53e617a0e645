// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"strings"
)

//go:embed equivalent.txt
var equivalentText string

// key names the mutant in equivalent.txt. It has no line number, which would change.
func (m *mutant) key() string {
	_, change, _ := strings.Cut(m.String(), ": ")
	return m.file + ": " + change
}

// equivalents are the reasons of equivalent.txt, by key.
func equivalents() map[string]string {
	reasons := make(map[string]string)
	key := ""
	for line := range strings.Lines(equivalentText) {
		line = strings.TrimRight(line, "\n")
		switch reason, indented := strings.CutPrefix(line, "  "); {
		case line == "", strings.HasPrefix(line, "#"):
		case indented:
			reasons[key] += reason + " "
		default:
			key = line
		}
	}
	return reasons
}
