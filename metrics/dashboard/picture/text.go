// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// textWidth is how wide a text is at most in the fonts of the picture, of which nobody knows which one is there: the widths are those of DejaVu
// Sans, which is wider than the others.
func textWidth(text string, size float64) (w float64) {
	for _, r := range text {
		switch {
		case strings.ContainsRune("iljtfrI.,:;'|!()[]/- ", r):
			w += 0.40
		case strings.ContainsRune("mwMW%", r):
			w += 0.98
		case r >= 'A' && r <= 'Z':
			w += 0.74
		default:
			w += 0.64
		}
	}
	return w * size
}

// wrap breaks a text into lines no wider than width. A word that is wider stands alone.
func wrap(text string, size, width float64) (lines []string) {
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && textWidth(lines[n-1]+" "+word, size) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// place is where an item of a flow begins.
type place struct{ x, y float64 }

// flow sets items of these widths side by side, and begins a new row where the next one does not fit. It returns where each begins and how tall
// all are.
func flow(widths []float64, width, gap, row float64) (at []place, tall float64) {
	x, y := 0.0, 0.0
	for i, w := range widths {
		if i > 0 && x+w > width {
			x, y = 0, y+row
		}
		at = append(at, place{x, y})
		x += w + gap
	}
	if len(widths) > 0 {
		tall = y + row
	}
	return at, tall
}
