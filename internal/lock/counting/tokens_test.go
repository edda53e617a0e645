// SPDX-License-Identifier: Apache-2.0

package counting

import (
	"slices"
	"testing"
	"testing/quick"
	"time"
)

// The votes arrive in any order; the sums are those of the definition.
func TestTokens_anyOrder_asTheDefinitionSays(t *testing.T) {
	check := func(votes []uint8) bool {
		votes = votes[:min(len(votes), MaxMasters)]
		var got Tokens
		for i, v := range votes {
			got.Add(i, int64(v%4)+1)
		}
		if len(votes) == 0 {
			return got == Tokens{}
		}
		var want Tokens
		for _, v := range votes {
			want.Max = max(want.Max, int64(v%4)+1)
		}
		for i, v := range votes {
			if int64(v%4)+1 == want.Max {
				want.Agree |= 1 << i
			} else {
				want.Below |= 1 << i
			}
		}
		return got == want
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
}

func TestTokenSource_proposalsDifferAndPassWhatWasSeen(t *testing.T) {
	var s TokenSource
	wall := time.UnixMicro(1_000_000)
	var all []int64
	for range 100 {
		all = append(all, s.Propose(wall, 1))
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 100 {
		t.Errorf("%d proposals of 100 differ", n)
	}
	s.Saw(5_000_000)
	s.Saw(4_000_000)
	if p := s.Propose(wall, 1); p <= 5_000_000 {
		t.Errorf("proposed %d after 5000000 was seen", p)
	}
	s.Saw(MaxToken)
	if p := s.Propose(wall, 1); p != MaxToken {
		t.Errorf("proposed %d, want the largest token", p)
	}
}
