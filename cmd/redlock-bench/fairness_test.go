// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"
)

func TestJainAndShares(t *testing.T) {
	for name, tc := range map[string]struct {
		got               []int
		jain, least, most float64
	}{
		"even":                   {[]int{5, 5, 5, 5}, 1, 1, 1},
		"one gets everything":    {[]int{0, 12, 0, 0}, 0.25, 0, 4},
		"two of four":            {[]int{3, 3, 0, 0}, 0.5, 0, 2},
		"1 2 3":                  {[]int{1, 2, 3}, 36.0 / (3 * 14), 0.5, 1.5},
		"one waiter":             {[]int{7}, 1, 1, 1},
		"nobody got anything":    {[]int{0, 0}, 1, 1, 1},
		"large numbers, 1 and 3": {[]int{5e8, 15e8}, 0.8, 0.5, 1.5},
	} {
		j := jain(tc.got)
		least, most := shares(tc.got)
		if math.Abs(j-tc.jain) > 1e-9 || least != tc.least || most != tc.most {
			t.Errorf("%s: %v, %v to %v; want %v, %v to %v", name, j, least, most, tc.jain, tc.least, tc.most)
		}
	}
}
