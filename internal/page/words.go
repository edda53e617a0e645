// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strconv"
	"strings"
	"time"
)

// Count writes a whole number with its thousands apart.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Number writes a number with its thousands apart, or three digits of it.
func Number(v float64) string {
	if v == float64(int(v)) {
		return Count(int(v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Span writes a duration in the unit that suits it, with three digits at most.
func Span(d time.Duration) string {
	unit, name := time.Nanosecond, "ns"
	switch a := d.Abs(); {
	case a >= 2*time.Minute:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	case a >= time.Second:
		unit, name = time.Second, "s"
	case a >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	case a >= time.Microsecond:
		unit, name = time.Microsecond, "µs"
	}
	v := float64(d) / float64(unit)
	digits := 2
	for x := v; digits > 0 && (x >= 10 || x <= -10); x /= 10 {
		digits--
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + " " + name
}

// Minus puts a minus sign where a number has a hyphen, which is too short to see.
func Minus(s string) string { return strings.Replace(s, "-", "−", 1) }

// Seconds writes an instant of the run: seconds since its beginning, to the microsecond.
func Seconds(ns int64) string { return strconv.FormatFloat(float64(ns)/1e9, 'f', 6, 64) + " s" }
