// SPDX-License-Identifier: Apache-2.0

// Package text prints text for terminals of 80 columns, and numbers as people read them.
package text

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A label and a text fill 79 columns.
const (
	LabelWidth = 9
	Width      = 70
)

// OneLine is err's text where errors.Join put line breaks.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ": ") }

// Paragraph prints text with a label before its first line.
func Paragraph(w io.Writer, label, text string) {
	for _, line := range Wrap(text, Width) {
		fmt.Fprintf(w, "%-*s%s\n", LabelWidth, label, line)
		label = ""
	}
}

// Say prints text in lines of 79 columns.
func Say(w io.Writer, text string) {
	for _, line := range Wrap(text, LabelWidth+Width) {
		fmt.Fprintln(w, line)
	}
}

// command is a command with its flags, as messages advise it.
var command = regexp.MustCompile(`redlock [a-z-]+(?: --[a-z-]+(?: (?:'[^']*'|[^\s'-][^\s;,]*))?)+`)

// Wrap breaks s into lines of width between words. A command with its flags is one word: a line that is broken cannot be pasted into a shell.
func Wrap(s string, width int) (lines []string) {
	s = command.ReplaceAllStringFunc(s, func(c string) string { return strings.ReplaceAll(c, " ", "\x00") })
	for word := range strings.FieldsSeq(s) {
		word = strings.ReplaceAll(word, "\x00", " ")
		last := len(lines) - 1
		if last < 0 || len(lines[last])+1+len(word) > width {
			lines = append(lines, word)
		} else {
			lines[last] += " " + word
		}
	}
	return lines
}
