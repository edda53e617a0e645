// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
)

func TestFar_saysWhichTTLIsTooShort(t *testing.T) {
	for _, tc := range []struct {
		trips []float64 // in ms; 0: silent
		want  string
	}{
		{[]float64{1, 2, 70}, "[]"},
		{[]float64{1, 2, 300}, "[]"},
		{[]float64{1, 0, 300}, "[{far a round trip to a quorum of the masters takes 300ms: a TTL below 1.8s is too short for it, and so is a WithNodeTimeout below 600ms far use a longer TTL, and no shorter WithNodeTimeout}]"},
		{[]float64{120, 120, 120, 120, 120}, "[{far a round trip to a quorum of the masters takes 120ms: a TTL below 1.2s is too short for it, and so is a WithNodeTimeout below 240ms far use a longer TTL, and no shorter WithNodeTimeout}]"},
		{[]float64{0, 0, 0}, "[]"},
	} {
		var patients []patient
		for _, trip := range tc.trips {
			p := patient{}
			if trip > 0 {
				p.Clock = &offset{Error: trip / 2}
			}
			patients = append(patients, p)
		}
		if got := fmt.Sprint(far(patients)); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.trips, got, tc.want)
		}
	}
}
