// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
	"strings"
)

// units are how a panel writes its values, by Grafana's name of the unit.
var units = map[string]func(float64) string{
	"short": number,
	"reqps": func(v float64) string { return number(v) + " req/s" },
	"s":     duration,
}

// number writes three digits, and thousands as Grafana does.
func number(v float64) string {
	switch {
	case v >= 999.5e3:
		return digits(v/1e6) + " Mil"
	case v >= 999.5:
		return digits(v/1e3) + " K"
	}
	return digits(v)
}

func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func duration(v float64) string {
	switch {
	case v == 0:
		return "0 s"
	case v < 0.9995e-3:
		return digits(v*1e6) + " µs"
	case v < 0.9995:
		return digits(v*1e3) + " ms"
	}
	return digits(v) + " s"
}

// ticks are about n values from 0 on, 1, 2 or 5 times a power of ten apart. The last is at or above most.
func ticks(most float64, n int) []float64 {
	if most <= 0 {
		return []float64{0, 1}
	}
	power := math.Pow(10, math.Floor(math.Log10(most/float64(n))))
	step := 10 * power
	for _, k := range []float64{1, 2, 5} {
		if k*power*float64(n) >= most*(1-1e-9) {
			step = k * power
			break
		}
	}
	all := []float64{0}
	for i := 1; all[len(all)-1] < most*(1-1e-9); i++ {
		all = append(all, float64(i)*step)
	}
	return all
}

// seconds are the marks of a time axis: 1, 2 or 5 times a power of ten apart, about n of them, none after the end.
func seconds(end float64, n int) []float64 {
	all := ticks(end, n)
	if all[len(all)-1] > end {
		all = all[:len(all)-1]
	}
	return all
}

// pieces cuts a series where samples are missing, so that no line is drawn where nothing is known.
func pieces(points []point, step float64) (all [][]point) {
	for i, p := range points {
		if i == 0 || p.t-points[i-1].t > 1.5*step {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], p)
	}
	return all
}

// bends are the points of a piece without those on a level line between their neighbours.
func bends(piece []point) (kept []point) {
	for i, p := range piece {
		if i > 0 && i < len(piece)-1 && piece[i-1].v == p.v && piece[i+1].v == p.v {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}
