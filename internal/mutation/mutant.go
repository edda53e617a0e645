// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	file       string // relative to the module
	line       int
	start, end int // of what is replaced, in the file
	before     string
	after      string
}

// apply returns the file with the change.
func (m *mutant) apply(source []byte) []byte {
	return []byte(string(source[:m.start]) + m.after + string(source[m.end:]))
}

func (m *mutant) String() string {
	after := oneLine(m.after)
	if after == "" {
		after = "(deleted)"
	}
	return fmt.Sprintf("%s:%d: %s -> %s", m.file, m.line, oneLine(m.before), after)
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 80 {
		s = s[:77] + "..."
	}
	return s
}
