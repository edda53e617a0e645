// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
)

// number is x with three digits or more, and commas from a thousand on.
func number(x float64) string {
	switch {
	case x < 9.995:
		return fmt.Sprintf("%.2f", x)
	case x < 99.95:
		return fmt.Sprintf("%.1f", x)
	}
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// optional is a number that may not be available.
func optional(x *float64) string {
	if x == nil {
		return "n/a"
	}
	return number(*x)
}

// plural is "1 master" or "5 masters".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine is err's text where errors.Join put line breaks.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", ": ") }

// paragraph prints text with a label before its first line.
func paragraph(w io.Writer, label, text string) {
	for _, line := range wrap(text, textWidth) {
		fmt.Fprintf(w, "%-*s%s\n", labelWidth, label, line)
		label = ""
	}
}

// say prints text in lines of 79 columns.
func say(w io.Writer, text string) {
	for _, line := range wrap(text, labelWidth+textWidth) {
		fmt.Fprintln(w, line)
	}
}

// A label and a text fill 79 columns.
const (
	labelWidth = 9
	textWidth  = 70
)

// wrap breaks s into lines of width between words.
func wrap(s string, width int) (lines []string) {
	for word := range strings.FieldsSeq(s) {
		last := len(lines) - 1
		if last < 0 || len(lines[last])+1+len(word) > width {
			lines = append(lines, word)
		} else {
			lines[last] += " " + word
		}
	}
	return lines
}
