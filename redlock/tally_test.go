// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// dumb is the verdict by the words of its definition: try every way in which the
// silent voters may still vote.
func dumb(votes []int8, need int) verdict {
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
			return won
		}
		return lost
	}
	votes = slices.Clone(votes)
	votes[silent] = 1
	with := dumb(votes, need)
	votes[silent] = -1
	if without := dumb(votes, need); with == without {
		return with
	}
	return pending
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
					tl := tally{voters: n, need: need}
					order := slices.Clone(votes)
					if backwards {
						slices.Reverse(order)
					}
					settled := pending
					for _, v := range order {
						if v != 0 {
							tl.add(v == 1)
						}
						if got := tl.verdict(); settled != pending && got != settled {
							t.Fatalf("%v of %d: %v turned into %v", votes, need, settled, got)
						} else {
							settled = got
						}
					}
					if got, want := tl.verdict(), dumb(votes, need); got != want {
						t.Fatalf("%v, need %d: %v, want %v", votes, need, got, want)
					}
				}
			}
		}
	}
}

func TestVerdict_unknownValue_hasAName(t *testing.T) {
	if won.String() != "won" || verdict(255).String() != "?" {
		t.Errorf("%v and %v", won, verdict(255))
	}
}

func TestQuorum_twoOfThemAlwaysMeet(t *testing.T) {
	for n := 1; n <= maxNodes; n++ {
		if q := quorum(n); 2*q <= n || 2*(q-1) > n {
			t.Errorf("quorum(%d) = %d", n, q)
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
		if got := freeAfter(tc.replies, nil, quorum(len(tc.replies))); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A lease whose settings passed can be renewed: its renewal is due before its
// holder would be told that it is lost.
func TestCheckLock_whatPasses_canBeRenewed(t *testing.T) {
	check := func(ttl, every uint32, factor, constant uint16) bool {
		s := defaults()
		s.drift.Factor, s.drift.Constant = float64(factor)/65536, time.Duration(constant)*time.Microsecond
		s.maxTTL = time.Hour
		l := &s.lock
		l.ttl = (time.Duration(ttl) * time.Microsecond).Truncate(time.Millisecond)
		if every%4 != 0 {
			l.renewSet, l.renewEvery = true, l.ttl-time.Duration(every%2_000_000)*time.Microsecond/10
		}
		if s.check() != nil {
			return true
		}
		return l.every() < s.drift.Validity(l.ttl, 0)-l.margin()
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 200_000}); err != nil {
		t.Error(err)
	}
}

func TestBallotSets_everyAnswer_releasedAndDequeuedWhereNeeded(t *testing.T) {
	replies := []protocol.Reply{{Outcome: protocol.Granted}, {Outcome: protocol.Held}, {}, {Outcome: protocol.NotSent}, {Outcome: protocol.Refused}, {Outcome: protocol.Absent}}
	for answered := range uint64(1 << len(replies)) {
		b := &quorumCall{ops: make([]protocol.Op, len(replies)), answered: answered}
		for i, r := range replies {
			b.ops[i].Reply = r
		}
		granted, maybe, silent := b.votes()
		queued, settled := b.queued()
		if granted != answered&1 || settled != granted || granted&queued != 0 || granted&^maybe != 0 {
			t.Errorf("answered %b: granted %b, maybe %b, queued %b, settled %b", answered, granted, maybe, queued, settled)
		}
		// A master that was asked and gave no definite answer may have a vote. One that
		// was not sent the acquire has none.
		if want := ^answered&(1<<len(replies)-1) | answered&0b101; maybe != want {
			t.Errorf("answered %b: maybe %b, want %b", answered, maybe, want)
		}
		if want := ^answered & (1<<len(replies) - 1); silent != want {
			t.Errorf("answered %b: silent %b, want %b", answered, silent, want)
		}
		if want := answered & 0b110110; queued != want {
			t.Errorf("answered %b: queued %b, want %b", answered, queued, want)
		}
	}
}
