// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/nemesis"
)

// Availability below the floor is a violation, if one nemesis was alone and enough was seen.
func TestBelowFloor_oneNemesis_judged(t *testing.T) {
	one := []nemesis.Nemesis{{Name: "kill-minority", Floor: 0.95}}
	two := append(one, nemesis.Nemesis{Name: "partition"})
	calm, busy := check.Cost{Windows: 20, Granted: 19}, check.Cost{Windows: 20, Granted: 10}
	for name, test := range map[string]struct {
		nemeses          []nemesis.Nemesis
		windows, granted int
		quiet            check.Cost
		want             int
	}{
		"at the floor":   {one, 100, 95, calm, 0},
		"below it":       {one, 100, 94, calm, 1},
		"too few":        {one, check.LeastWindows - 1, 0, calm, 0},
		"just enough":    {one, check.LeastWindows, 0, calm, 1},
		"not alone":      {two, 100, 0, calm, 0},
		"a busy machine": {one, 100, 0, busy, 0},
		"no quiet time":  {one, 100, 0, check.Cost{}, 0},
		"without floor":  {two[1:], 100, 0, calm, 0},
	} {
		cost := &check.Cost{Windows: test.windows, Granted: test.granted}
		if got := belowFloor(test.nemeses, map[string]*check.Cost{"kill-minority": cost, "partition": cost}, test.quiet); len(got) != test.want {
			t.Errorf("%s: %v, want %d", name, got, test.want)
		}
	}
	if got := belowFloor(one, nil, calm); got != nil {
		t.Errorf("never struck: %v", got)
	}
}
