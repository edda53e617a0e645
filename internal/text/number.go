// SPDX-License-Identifier: Apache-2.0

package text

import "fmt"

// Number is x with three digits or more, and commas from a thousand on.
func Number(x float64) string {
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

// Optional is a number that may not be available.
func Optional(x *float64) string {
	if x == nil {
		return "n/a"
	}
	return Number(*x)
}

// Plural is "1 master" or "5 masters".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Short is x with three digits, and k, M or G for thousands.
func Short(x float64) string {
	unit := ""
	for _, next := range []string{"k", "M", "G"} {
		if x < 999.5 {
			break
		}
		x, unit = x/1000, next
	}
	digits := 0
	switch {
	case x < 9.995:
		digits = 2
	case x < 99.95:
		digits = 1
	}
	return fmt.Sprintf("%.*f%s", digits, x, unit)
}
