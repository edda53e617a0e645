// SPDX-License-Identifier: Apache-2.0

// Package termline is one line on a terminal that is written over and over, and what a terminal is.
package termline

import (
	"fmt"
	"io"
	"os"
)

// Line is the line. The zero value, and one of no terminal, writes nothing.
type Line struct{ w io.Writer }

// erase is what empties the line.
const erase = "\r\x1b[K"

// New returns the line of w, which shows if w is a terminal.
func New(w io.Writer) *Line {
	if f, ok := w.(*os.File); ok && IsTerminal(f) {
		return &Line{w}
	}
	return &Line{}
}

// Shows tells whether anybody sees the line.
func (l *Line) Shows() bool { return l.w != nil }

// Show writes over the line.
func (l *Line) Show(format string, args ...any) {
	if l.w != nil {
		fmt.Fprintf(l.w, erase+format, args...)
	}
}

// Clear removes the line, so that results can follow.
func (l *Line) Clear() {
	if l.w != nil {
		fmt.Fprint(l.w, erase)
	}
}
