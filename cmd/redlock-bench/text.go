// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

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
