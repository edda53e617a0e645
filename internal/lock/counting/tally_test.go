// SPDX-License-Identifier: Apache-2.0

package counting

import (
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// dumb is the verdict by the words of its definition: try every way in which the
// silent voters may still vote.
func dumb(votes []int8, need int) Verdict {
	silent := -1
	yes := 0
	for i, v := range votes {
		switch v {
		case 0:
			silent = i
		case 1:
			yes++
		}
	}
	if silent < 0 {
		if yes >= need {
			return Won
		}
		return Lost
	}
	votes = slices.Clone(votes)
	votes[silent] = 1
	with := dumb(votes, need)
	votes[silent] = -1
	if without := dumb(votes, need); with == without {
		return with
	}
	return Pending
}

// Every one of the 3^N outcomes (yes, no, silent) of up to seven voters, in two
// orders of arrival, for every need.
func TestTally_allOutcomes_asTheDumbOneSays(t *testing.T) {
	for n := 1; n <= 7; n++ {
		outcomes := 1
		for range n {
			outcomes *= 3
		}
		for need := 1; need <= n; need++ {
			for o := range outcomes {
				votes := make([]int8, n)
				for i, rest := 0, o; i < n; i, rest = i+1, rest/3 {
					votes[i] = int8(rest%3) - 1
				}
				for _, backwards := range []bool{false, true} {
					tl := Tally{Voters: n, Need: need}
					order := slices.Clone(votes)
					if backwards {
						slices.Reverse(order)
					}
					settled := Pending
					for _, v := range order {
						if v != 0 {
							tl.Add(v == 1)
						}
						if got := tl.Verdict(); settled != Pending && got != settled {
							t.Fatalf("%v of %d: %v turned into %v", votes, need, settled, got)
						} else {
							settled = got
						}
					}
					if got, want := tl.Verdict(), dumb(votes, need); got != want {
						t.Fatalf("%v, need %d: %v, want %v", votes, need, got, want)
					}
				}
			}
		}
	}
}

// A master that refused is asked again: its no is taken back, and its second vote counts as the first would have.
func TestTally_retract_theSecondVoteCounts(t *testing.T) {
	for _, again := range []bool{true, false} {
		tl := Tally{Voters: 3, Need: 2}
		tl.Add(true)
		tl.Add(false)
		tl.Retract()
		if tl.Verdict() != Pending || tl.All() {
			t.Errorf("one of three has voted: %v, all %v", tl.Verdict(), tl.All())
		}
		tl.Add(again)
		if won := tl.Verdict() == Won; won != again || tl.All() {
			t.Errorf("second vote %v: won %v, all %v", again, won, tl.All())
		}
		tl.Add(false)
		if tl.Verdict() == Pending || !tl.All() {
			t.Errorf("second vote %v, then a no: %v, all %v", again, tl.Verdict(), tl.All())
		}
	}
}

func TestVerdict_unknownValue_hasAName(t *testing.T) {
	if Won.String() != "won" || Verdict(255).String() != "?" {
		t.Errorf("%v and %v", Won, Verdict(255))
	}
}

func TestQuorum_twoOfThemAlwaysMeet(t *testing.T) {
	for n := 1; n <= MaxMasters; n++ {
		if q := Quorum(n); 2*q <= n || 2*(q-1) > n {
			t.Errorf("Quorum(%d) = %d", n, q)
		}
	}
}

func TestFreeAfter_eachMix(t *testing.T) {
	const s = time.Second
	granted := protocol.Reply{Outcome: protocol.Granted}
	held := func(d time.Duration) protocol.Reply { return protocol.Reply{Outcome: protocol.Held, Remaining: d} }
	var silent, refused = protocol.Reply{}, protocol.Reply{Outcome: protocol.Refused}
	for _, tc := range []struct {
		name    string
		replies []protocol.Reply
		want    time.Duration
	}{
		{"held everywhere: the third smallest", []protocol.Reply{held(5 * s), held(1 * s), held(4 * s), held(2 * s), held(3 * s)}, 3 * s},
		{"two granted: the smallest of the rest", []protocol.Reply{granted, granted, held(4 * s), held(2 * s), held(3 * s)}, 2 * s},
		{"a quorum granted", []protocol.Reply{granted, granted, granted, held(2 * s), silent}, 0},
		{"too many silent", []protocol.Reply{silent, silent, refused, held(2 * s), held(3 * s)}, 0},
		{"two silent", []protocol.Reply{silent, refused, held(9 * s), held(2 * s), held(3 * s)}, 9 * s},
		{"keys without TTL never go", []protocol.Reply{held(-1), held(-1), held(9 * s), held(2 * s), held(3 * s)}, 9 * s},
		{"a quorum of keys without TTL", []protocol.Reply{held(-1), held(-1), held(-1), held(2 * s), held(3 * s)}, 0},
		{"held for no time", []protocol.Reply{held(0), held(0), held(0), silent, silent}, 0},
	} {
		if got := FreeAfter(tc.replies, nil, Quorum(len(tc.replies))); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Until by its definition: the latest end that a quorum of votes reaches.
func TestUntil_allSmallSets_asDefined(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for code := range 4 * 4 * 4 * 4 * 4 {
			ends := make([]time.Duration, n)
			for i, rest := 0, code; i < n; i, rest = i+1, rest/4 {
				ends[i] = time.Duration(rest % 4)
			}
			for need := 1; need <= n; need++ {
				want := time.Duration(0)
				for _, end := range ends {
					reach := 0
					for _, other := range ends {
						if other >= end {
							reach++
						}
					}
					if reach >= need {
						want = max(want, end)
					}
				}
				if got := Until(slices.Clone(ends), need); got != want {
					t.Fatalf("%v, quorum %d: %v, want %v", ends, need, got, want)
				}
			}
		}
	}
	if got := Until([]time.Duration{5, 6}, 3); got != 0 {
		t.Errorf("two votes make a quorum of three until %v", got)
	}
}
