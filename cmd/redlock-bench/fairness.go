// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// jain is Jain's fairness index of what each got: 1 when all got the same, 1/n when one got everything. It is 1 when nobody got anything.
func jain(got []int) float64 {
	var sum, squares float64
	for _, n := range got {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(got)) * squares)
}

// shares is what the unluckiest and the luckiest got, in even shares: 1 is what each would get if all got the same.
func shares(got []int) (least, most float64) {
	sum := 0
	for _, n := range got {
		sum += n
	}
	if sum == 0 {
		return 1, 1
	}
	even := float64(sum) / float64(len(got))
	return float64(slices.Min(got)) / even, float64(slices.Max(got)) / even
}
