// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/replay"
)

// HoldsUntil by its definition: the last instant before which a quorum counts.
func TestHoldsUntil_allSmallSets_asDefined(t *testing.T) {
	for n := 1; n <= 5; n++ {
		until := make([]time.Duration, n)
		for code := range 4 * 4 * 4 * 4 * 4 {
			for i, rest := 0, code; i < n; i, rest = i+1, rest/4 {
				until[i] = time.Duration(rest % 4)
			}
			for quorum := 1; quorum <= n; quorum++ {
				sorted := slices.Clone(until)
				slices.Sort(sorted)
				if got, want := HoldsUntil(until, quorum), sorted[n-quorum]; got != want {
					t.Fatalf("%v, quorum %d: %v, want %v", until, quorum, got, want)
				}
			}
		}
	}
	if got := HoldsUntil([]time.Duration{5, 6}, 3); got != 0 {
		t.Errorf("two votes make a quorum of three until %v", got)
	}
}

func TestFixToken_knownVotes(t *testing.T) {
	for _, test := range []struct {
		votes []int64
		want  int64
	}{{[]int64{0, 0, 0}, 0}, {[]int64{7, 0, 0}, 0}, {[]int64{7, 0, 5}, 7}, {[]int64{7, 9, 5}, 9}} {
		if got := FixToken(test.votes, 2); got != test.want {
			t.Errorf("%v: %d, want %d", test.votes, got, test.want)
		}
	}
}

// attempt is one under way on three masters, at 10 s.
func attempt(seen ...Seen) *Attempt {
	for len(seen) < 3 {
		seen = append(seen, Seen{})
	}
	return &Attempt{Holder: "a:1", Quorum: 2, TTL: 10 * time.Second, Drift: clock.Drift{Constant: ms}, Began: 9 * time.Second, Seen: seen}
}

const at10 = 10 * time.Second

func TestAttempt_Hear_whichMessagesCount(t *testing.T) {
	hand := Hand{Holder: "a:1", Vote: 7, Stamp: 9500 * ms, TTL: 3 * time.Second}
	const end = 12499 * ms // stamp, TTL and drift
	for _, test := range []struct {
		name   string
		change func(a *Attempt, h *Hand)
		counts bool
		want   Seen
	}{
		{"a vote", func(*Attempt, *Hand) {}, true, Seen{Standing: Voted, Vote: 7, Until: end}},
		{"another attempt's", func(_ *Attempt, h *Hand) { h.Holder = "a:2" }, false, Seen{}},
		{"of an attempt that is over", func(a *Attempt, _ *Hand) { a.Over = true }, false, Seen{}},
		{"stamped before the clock jumped", func(a *Attempt, _ *Hand) { a.Trusted = 9600 * ms }, false, Seen{}},
		{"after the vote was found gone", func(a *Attempt, _ *Hand) { a.Seen[0].Standing = Gone }, false, Seen{Standing: Gone}},
		{"after the place was told", func(a *Attempt, _ *Hand) { a.Seen[0] = Seen{Standing: Queued, Ahead: 1} }, true, Seen{Standing: Voted, Vote: 7, Until: end, Ahead: 1}},
		{"again", func(a *Attempt, h *Hand) { a.Hear(0, *h); h.Vote = 8 }, true, Seen{Standing: Voted, Vote: 7, Until: end}},
		{"after a claim renewed the vote", func(a *Attempt, _ *Hand) { a.Seen[0] = Seen{Standing: Voted, Vote: 9, Until: 15 * time.Second} }, true, Seen{Standing: Voted, Vote: 9, Until: 15 * time.Second}},
		{"of the token", func(a *Attempt, _ *Hand) { a.Token = 7 }, true, Seen{Standing: Voted, Vote: 7, Until: end, Joined: true}},
		{"above the token", func(a *Attempt, _ *Hand) { a.Token = 6 }, true, Seen{Standing: Voted, Vote: 7, Until: end}},
	} {
		a, h := attempt(), hand
		test.change(a, &h)
		if counts := a.Hear(0, h); counts != test.counts || a.Seen[0] != test.want {
			t.Errorf("%s: %t, %+v, want %t, %+v", test.name, counts, a.Seen[0], test.counts, test.want)
		}
	}
}

func TestAttempt_Take_whichAnswersCount(t *testing.T) {
	const sent, end = 9800 * ms, 19799 * ms
	voted := Answer{Standing: Voted, Vote: 7, TTL: 10 * time.Second, Ahead: 2}
	for _, test := range []struct {
		name   string
		before Seen
		answer Answer
		token  int64 // of the attempt and the claim
		want   Seen
	}{
		{"queued", Seen{}, Answer{Standing: Queued, Ahead: 3, Held: time.Second}, 0, Seen{Standing: Queued, Ahead: 3, Held: time.Second, Asked: sent}},
		{"voted", Seen{}, voted, 0, Seen{Standing: Voted, Vote: 7, Until: end, Ahead: 2, Asked: sent}},
		{"queued, late", Seen{Standing: Voted, Vote: 7, Until: 12 * time.Second}, Answer{Standing: Queued}, 0, Seen{Standing: Voted, Vote: 7, Until: 12 * time.Second}},
		{"renewed", Seen{Standing: Voted, Vote: 5, Until: 12 * time.Second}, voted, 0, Seen{Standing: Voted, Vote: 5, Until: end, Ahead: 2, Asked: sent}},
		{"gone", Seen{Standing: Voted, Vote: 5, Until: 12 * time.Second}, Answer{Standing: Gone}, 0, Seen{Standing: Gone, Vote: 5, Asked: sent}},
		{"found by an enqueue that came again", Seen{}, Answer{Standing: Voted, Vote: 7}, 0, Seen{Standing: Voted, Vote: 7, Asked: sent}},
		{"joins", Seen{Standing: Voted, Vote: 5}, voted, 7, Seen{Standing: Voted, Vote: 5, Until: end, Joined: true, Ahead: 2, Asked: sent}},
		{"above the token", Seen{}, Answer{Standing: Voted, Vote: 8, TTL: time.Second}, 7, Seen{Standing: Voted, Vote: 8, Until: 10799 * ms, Asked: sent}},
	} {
		a := attempt(test.before)
		a.Token = test.token
		a.Take(0, test.answer, sent, test.token)
		if a.Seen[0] != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, a.Seen[0], test.want)
		}
	}
	a := attempt()
	a.Trusted = 9900 * ms
	if a.Take(0, voted, sent, 0); a.Seen[0].Until != 0 {
		t.Errorf("an op of before the clock jumped dates a vote: %+v", a.Seen[0])
	}
}

func TestAttempt_Next_decisions(t *testing.T) {
	vote := func(value int64) Seen { return Seen{Standing: Voted, Vote: value, Until: 12 * time.Second} }
	joined := func(value int64) Seen {
		return Seen{Standing: Voted, Vote: value, Until: 12 * time.Second, Joined: true}
	}
	queued := Seen{Standing: Queued, Held: 5 * time.Second}
	behind := Seen{Standing: Queued, Ahead: 1, Held: 5 * time.Second}
	gone := Seen{Standing: Gone}
	fresh := func(s Seen) Seen { s.Ahead, s.Asked = 1, at10; return s }
	for _, test := range []struct {
		name   string
		seen   []Seen
		change func(a *Attempt)
		want   Action
	}{
		{"a quorum that agrees", []Seen{vote(7), queued, vote(7)}, nil, Action{Act: Take, At: 12 * time.Second}},
		{"a quorum that differs", []Seen{vote(7), queued, vote(9)}, nil, Action{ClaimNow, 0b001, 2 * ms}},
		{"the same, asked", []Seen{vote(7), queued, vote(9)}, func(a *Attempt) { a.First, a.Claimed, a.Asked, a.Pause = at10, at10, 9, 4*ms }, Action{Act: Wait, At: at10 + 4*ms}},
		{"too little validity", []Seen{vote(7), queued, vote(7)}, func(a *Attempt) { a.MinValidity = 3 * time.Second }, Action{ClaimNow, 0b101, 2 * ms}},
		{"a vote that ran out supports nothing", []Seen{{Standing: Voted, Vote: 7, Until: 9 * time.Second, Joined: true}, vote(7), gone},
			func(a *Attempt) { a.Token, a.First, a.Claimed, a.Pause = 7, at10-ms, at10, 4*ms }, Action{Act: Wait, At: at10 + 4*ms}},
		{"a quorum, but one that joined has run out", []Seen{{Standing: Voted, Vote: 7, Until: 9 * time.Second, Joined: true}, joined(7), joined(7), vote(5), gone},
			func(a *Attempt) { a.Quorum, a.Token, a.First = 3, 7, at10-ms }, Action{ClaimNow, 0b01001, 2 * ms}},
		{"larger votes than the token", []Seen{{Standing: Voted, Vote: 7, Until: 9 * time.Second, Joined: true}, vote(9), vote(9)},
			func(a *Attempt) { a.Token, a.First = 7, at10-ms }, Action{Act: Take, At: 12 * time.Second}},
		{"a larger vote than the token, not needed", []Seen{joined(7), joined(7), vote(9)}, func(a *Attempt) { a.Token, a.First = 7, at10-ms },
			Action{Act: Take, At: 12 * time.Second}},
		{"the first vote", []Seen{vote(7), queued, queued}, nil, Action{Act: Wait, At: at10 + 2*ms}},
		{"a vote for a while", []Seen{vote(7), queued, queued}, func(a *Attempt) { a.First = at10 - 3*ms }, Action{ClaimNow, 0b111, 2 * ms}},
		{"a vote for long", []Seen{vote(7), queued, queued}, func(a *Attempt) { a.First, a.Pause = at10-3*ms, 800*ms }, Action{ClaimNow, 0b111, 500 * ms}},
		{"a split vote for a while", []Seen{vote(7), {Standing: Queued}, {Standing: Queued}}, func(a *Attempt) { a.First, a.Pause = at10-3*ms, 80*ms }, Action{ClaimNow, 0b111, 50 * ms}},
		{"a smaller ticket waits there", []Seen{fresh(vote(7)), queued, queued}, func(a *Attempt) { a.First, a.Claimed = at10-3*ms, at10-ms }, Action{Act: Retry}},
		{"a smaller ticket waited there before the vote", []Seen{{Standing: Voted, Vote: 7, Until: 12 * time.Second, Ahead: 1, Asked: 9 * time.Second}, queued, queued},
			func(a *Attempt) { a.First, a.Claimed, a.Pause = at10-3*ms, at10-ms, 4*ms }, Action{Act: Wait, At: at10 + 3*ms}},
		{"a quorum does not yield", []Seen{fresh(vote(7)), queued, vote(7)}, nil, Action{Act: Take, At: 12 * time.Second}},
		{"places are gone", []Seen{gone, queued, gone}, nil, Action{Act: Retry}},
		{"places are gone again", []Seen{gone, queued, gone}, func(a *Attempt) { a.Retries, a.Began = 9, at10-10*ms }, Action{Act: Wait, At: at10 + 40*ms}},
		{"one place is gone", []Seen{gone, queued, queued}, nil, Action{Act: Wait, At: 9*time.Second + Idle + ms}},
		{"next in line", []Seen{queued, queued, queued}, nil, Action{Act: Wait, At: 9*time.Second + Idle + ms}},
		{"next in line, for long", []Seen{queued, queued, queued}, func(a *Attempt) { a.Began = at10 - Idle - ms }, Action{Act: ClaimNow, Masters: 0b111}},
		{"the votes end soon", []Seen{{Standing: Queued, Held: 300 * ms}, {Standing: Queued, Held: 1100 * ms}, queued}, nil, Action{Act: Wait, At: 9*time.Second + 1101*ms}},
		{"one is ahead", []Seen{behind, behind, queued}, func(a *Attempt) { a.Claimed = at10 - 100*ms }, Action{Act: Wait, At: at10 + 650*ms}},
		{"deaf", []Seen{behind, behind, behind}, func(a *Attempt) { a.Deaf, a.Claimed = true, at10 }, Action{Act: Wait, At: at10 + deafPause/2}},
	} {
		a := attempt(test.seen...)
		if test.change != nil {
			test.change(a)
		}
		if got := a.Next(at10); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// Whatever an attempt knows, what Next says can be done, and it is never asked again at the same instant for nothing.
func TestAttempt_Next_anyKnowledge_goesOn(t *testing.T) {
	for seed := range replay.Many(t, 200) {
		attemptGoesOn(t, replay.RNG(seed))
	}
}

func attemptGoesOn(t *testing.T, r *rand.Rand) {
	soon := func() time.Duration { return at10 + time.Duration(r.IntN(5)-2)*time.Second }
	for range 1000 {
		a := attempt()
		a.Luck, a.Retries, a.Deaf = r.Float64(), r.IntN(3), r.IntN(5) == 0
		for n := range a.Seen {
			a.Seen[n] = Seen{Standing: Standing(r.IntN(4)), Vote: int64(r.IntN(3)), Until: soon(), Joined: r.IntN(2) == 0, Ahead: r.IntN(3),
				Held: time.Duration(r.IntN(3)) * time.Second, Asked: soon()}
			if a.Seen[n].Standing != Voted {
				a.Seen[n].Until, a.Seen[n].Vote, a.Seen[n].Joined = 0, 0, false
			} else if a.Seen[n].Vote == 0 {
				a.Seen[n].Vote = 9
			}
		}
		if r.IntN(2) == 0 {
			a.First, a.Claimed, a.Pause = soon(), soon(), time.Duration(r.IntN(100))*ms
		}
		knew := slices.Clone(a.Seen)
		todo := a.Next(at10)
		switch todo.Act {
		case Take:
			votes := 0
			for _, s := range a.Seen {
				votes += boolTo[int](s.Standing == Voted && s.Until >= todo.At && s.Vote > 0)
			}
			if votes < a.Quorum || todo.At <= at10 {
				t.Fatalf("%+v: takes the lock until %v by %d votes", knew, todo.At, votes)
			}
		case ClaimNow:
			if todo.Masters == 0 {
				t.Fatalf("%+v: claims on no master", knew)
			}
			a.Sent(at10, todo)
			if again := a.Next(at10); again.Act == ClaimNow {
				t.Fatalf("%+v: claims twice at one instant: %+v, %+v", knew, todo, again)
			}
		case Wait:
			if todo.At <= at10 {
				t.Fatalf("%+v: waits for %v, which is over", knew, todo.At)
			}
		}
	}
}

func TestAttempt_Propose_oneForOpsThatAreSentTogether(t *testing.T) {
	a := attempt()
	if first, soon, later := a.Propose(at10, 5), a.Propose(at10+50*ms, 6), a.Propose(at10+time.Second, 7); first != 5 || soon != 5 || later != 7 {
		t.Errorf("%d, %d and %d, want 5, 5 and 7", first, soon, later)
	}
}
