// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0: by the clock")

// rng makes a source for one test and says how to get the same again.
func rng(t *testing.T) (*rand.Rand, uint64) {
	t.Helper()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay: go test ./chaos/check -run '^%s$' -seed %d", t.Name(), s)
		}
	})
	return rand.New(rand.NewPCG(s, 2)), s
}

// short is a run long enough for every mutant to find its place.
func short() historytest.Shape {
	shape := historytest.Small()
	shape.Duration, shape.PauseOneIn = 25*time.Second, 40
	return shape
}

func expect() Expect {
	return Expect{
		X: true, T: true, Heal: time.Second, Timeout: time.Minute,
		Min: Minimums{Acquisitions: 500, Contended: 50, Tokens: 500},
	}
}

func failing(rs []Result) string {
	var ids []string
	for _, r := range rs {
		if r.Promised && r.Verdict != Ok {
			ids = append(ids, r.ID)
		}
	}
	return strings.Join(ids, " ")
}

func TestAll_correctRuns_pass(t *testing.T) {
	_, s := rng(t)
	for i := range uint64(6) {
		h := historytest.Generate(s+i, short())
		rs := All(h, expect())
		if !Passed(rs) {
			for _, r := range rs {
				t.Logf("%s %s %s", r.ID, r.Verdict, r.Summary)
			}
			t.Fatalf("seed %d: %s failed", s+i, failing(rs))
		}
	}
}

// mutant changes a good history in one place. It gives false if it found no place.
type mutant struct {
	name   string
	caught string // the checkers that must fail, in order; all others must pass
	change func(r *rand.Rand, h *history.History) bool
}

// pick gives a random index among those that fit, or -1.
func pick(r *rand.Rand, h *history.History, fits func(i int, op history.Op) bool) int {
	var is []int
	for i, op := range h.Ops {
		if fits(i, op) {
			is = append(is, i)
		}
	}
	if len(is) == 0 {
		return -1
	}
	return is[r.IntN(len(is))]
}

func granted(op history.Op) bool { return op.Kind == history.KindLock && op.Outcome == history.OK }

// later gives the next successful operation of that kind on the same lock that was called after op i returned, or -1.
func later(h *history.History, i int, fits func(op history.Op) bool) int {
	for j := i + 1; j < len(h.Ops); j++ {
		if h.Ops[j].Lock == h.Ops[i].Lock && h.Ops[j].Call > h.Ops[i].Return && fits(h.Ops[j]) {
			return j
		}
	}
	return -1
}

func drop(h *history.History, i int) bool {
	h.Ops = slices.Delete(h.Ops, i, i+1)
	return true
}

func accepted(kind history.Kind) func(history.Op) bool {
	return func(op history.Op) bool { return op.Kind == kind && op.Fenced && op.Outcome == history.OK }
}

var mutants = []mutant{
	{"an operation ends before it starts", "assumptions", func(r *rand.Rand, h *history.History) bool {
		i := r.IntN(len(h.Ops))
		h.Ops[i].Return = h.Ops[i].Call - 1
		return true
	}},
	{"a client does two things at once", "assumptions", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(i int, op history.Op) bool { return op.Kind == history.KindRead && i > 0 })
		j := slices.IndexFunc(h.Ops[i+1:], func(op history.Op) bool { return op.Client == h.Ops[i].Client })
		if j < 0 {
			return false
		}
		h.Ops[i].Return = h.Ops[i+1+j].Call + 1
		return true
	}},
	{"a holder is granted twice", "assumptions", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return granted(op) })
		j := later(h, i, granted)
		if j < 0 {
			return false
		}
		h.Ops[j].Holder = h.Ops[i].Holder
		return true
	}},
	{"a claim is shifted into the one before", "exclusion linearizable", func(r *rand.Rand, h *history.History) bool {
		return overlapNext(r, h, history.Exclusive)
	}},
	{"a writer's claim is shifted into a reader's", "exclusion linearizable", func(r *rand.Rand, h *history.History) bool {
		return overlapNext(r, h, history.Writing)
	}},
	{"an unlock is forgotten", "exclusion linearizable", func(r *rand.Rand, h *history.History) bool {
		deadlines := map[string]int64{}
		for _, op := range h.Ops {
			if granted(op) && op.Mode == history.Exclusive {
				deadlines[op.Holder] = op.Deadline
			}
		}
		return drop(h, pick(r, h, func(i int, op history.Op) bool {
			if op.Kind != history.KindUnlock || op.Outcome != history.OK || deadlines[op.Holder] == 0 {
				return false
			}
			n := later(h, i, granted) // it must come before the deadline, or forgetting was harmless
			return n >= 0 && h.Ops[n].Return < deadlines[op.Holder]
		}))
	}},
	{"a token is issued twice", "tokens linearizable", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return granted(op) })
		j := later(h, i, granted)
		if j < 0 {
			return false
		}
		h.Ops[j].Token = h.Ops[i].Token
		return true
	}},
	{"two tokens are swapped", "tokens linearizable", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return granted(op) })
		j := later(h, i, granted)
		if j < 0 {
			return false
		}
		h.Ops[i].Token, h.Ops[j].Token = h.Ops[j].Token, h.Ops[i].Token
		return true
	}},
	{"an update is dropped", "fenced-register", func(r *rand.Rand, h *history.History) bool {
		return drop(h, pick(r, h, func(_ int, op history.Op) bool { return accepted(history.KindWrite)(op) }))
	}},
	{"two updates write the same", "fenced-register", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return accepted(history.KindWrite)(op) })
		j := later(h, i, accepted(history.KindWrite))
		if j < 0 {
			return false
		}
		h.Ops[j].Value = h.Ops[i].Value
		return true
	}},
	{"a late write is accepted", "fenced-register", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return op.Fenced && op.Outcome == history.Failed })
		if i < 0 {
			return false
		}
		h.Ops[i].Outcome, h.Ops[i].Error = history.OK, ""
		return true
	}},
	{"the register forgets", "fenced-register", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return accepted(history.KindRead)(op) && op.Value > 1 })
		h.Ops[i].Value = 0
		return true
	}},
	{"a counter falls", "counters", func(r *rand.Rand, h *history.History) bool {
		i := r.IntN(len(h.Counters))
		c := &h.Counters[i]
		j := slices.IndexFunc(h.Counters[i+1:], func(d history.Counter) bool {
			return d.Node == c.Node && d.Incarnation == c.Incarnation && d.Call > c.Return
		})
		if j < 0 {
			return false
		}
		c.Value = h.Counters[i+1+j].Value + 1
		return true
	}},
	{"a lock stays taken", "healed", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return op.Kind == history.KindProbe })
		h.Ops[i].Outcome = history.Failed
		return true
	}},
	{"a lock is not probed", "healed", func(r *rand.Rand, h *history.History) bool {
		return drop(h, pick(r, h, func(_ int, op history.Op) bool { return op.Kind == history.KindProbe }))
	}},
	{"a key has no expiry", "healed", func(r *rand.Rand, h *history.History) bool {
		h.Keys = append(h.Keys, history.Key{Node: "n", Lock: "l", At: h.Ops[r.IntN(len(h.Ops))].Call, TTL: -1})
		return true
	}},
	{"no lock is granted", "effort", func(r *rand.Rand, h *history.History) bool {
		h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool { return op.Kind != history.KindProbe })
		return true
	}},
	{"no fault is applied", "effort", func(r *rand.Rand, h *history.History) bool {
		for i := range h.Faults {
			h.Faults[i].Error = "not permitted"
		}
		return true
	}},
}

// overlapNext lets a random grant of that mode return, with its call, inside the claim before it. Everything else stays, so
// that only the overlap is wrong: it is called early enough for its token to be in order.
func overlapNext(r *rand.Rand, h *history.History, mode history.Mode) bool {
	claims := Claims(h)
	var places [][2]Claim
	for _, cs := range claims {
		for i := 1; i < len(cs); i++ {
			a, b := cs[i-1], cs[i]
			// Its client must have been idle, or in this very call, for long enough before.
			if b.Grant.Mode == mode && a.To-a.From > 10 && b.Grant.Call < a.From && a.Grant.Return < b.Grant.Return && a.To <= b.From {
				places = append(places, [2]Claim{a, b})
			}
		}
	}
	if len(places) == 0 {
		return false
	}
	slices.SortFunc(places, func(a, b [2]Claim) int { return cmp.Compare(a[0].From, b[0].From) }) // claims is a map: make the choice repeatable
	p := places[r.IntN(len(places))]
	p[1].Grant.Return = p[0].From + 1 + r.Int64N(p[0].To-p[0].From-1)
	return true
}

func clone(h *history.History) *history.History {
	c := *h
	c.Ops, c.Faults, c.Keys, c.Counters = slices.Clone(h.Ops), slices.Clone(h.Faults), slices.Clone(h.Keys), slices.Clone(h.Counters)
	return &c
}

// Each fault put into a good history is found, by the checker whose business it is and by no other.
func TestAll_mutants_caughtByTheRightChecker(t *testing.T) {
	r, s := rng(t)
	var good []*history.History
	for i := range uint64(3) {
		good = append(good, historytest.Generate(s+i, short()))
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			applied := 0
			for i, g := range good {
				h := clone(g)
				if !m.change(r, h) {
					continue
				}
				applied++
				e := expect()
				e.Min.Faults = map[string]int{h.Faults[0].Nemesis: 1}
				if m.caught == "fenced-register" || m.caught == "healed" { // a dropped operation may be one of many: nothing to ask of effort
					e.Min = Minimums{}
				}
				if got := failing(All(h, e)); got != m.caught {
					t.Errorf("history %d: %q failed, want %q", i, got, m.caught)
				}
			}
			if applied == 0 {
				t.Error("could not be applied to any history")
			}
		})
	}
}

// dumbOverlaps is the checker exclusion as its definition reads: every pair of claims on one lock, in O(n^2). It gives the claims that begin while
// another one stands that they may not overlap.
func dumbOverlaps(cs []Claim) map[string]bool {
	late := map[string]bool{}
	for i, a := range cs {
		for j, b := range cs {
			readers := a.Grant.Mode == history.Shared && b.Grant.Mode == history.Shared
			first := a.From < b.From || a.From == b.From && i < j
			if i != j && !readers && first && b.From < a.To {
				late[b.Grant.Holder] = true
			}
		}
	}
	return late
}

// randomLock is n grants of one lock, one client each, in a short time: they overlap often, but not always.
func randomLock(r *rand.Rand, n int) *history.History {
	h := &history.History{}
	modes := []history.Mode{history.Exclusive, history.Shared, history.Writing}[:1+r.IntN(3)]
	for i := range n {
		call := r.Int64N(int64(20*n)) + 1
		op := history.Op{
			Kind: history.KindLock, Client: fmt.Sprint("c", i), Call: call, Return: call + r.Int64N(3), Lock: "L", Mode: modes[r.IntN(len(modes))],
			Holder: fmt.Sprint("h", i), Outcome: history.OK, Deadline: call + r.Int64N(40),
		}
		h.Ops = append(h.Ops, op)
		switch at := op.Return + r.Int64N(30); r.IntN(4) {
		case 0:
			h.Ops = append(h.Ops, history.Op{Kind: history.KindUnlock, Client: op.Client, Call: at, Return: at + 1, Lock: "L", Holder: op.Holder, Outcome: history.Unknown})
		case 1:
			h.Ops = append(h.Ops, history.Op{
				Kind: history.KindExtend, Client: op.Client, Call: at, Return: at + 1, Lock: "L", Holder: op.Holder, Outcome: history.OK, Deadline: at + r.Int64N(40),
			})
		}
	}
	slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	return h
}

func TestExclusion_randomHistories_agreesWithDumbVersion(t *testing.T) {
	r, _ := rng(t)
	illegal := 0
	for range 3000 {
		h := randomLock(r, 1+r.IntN(12))
		want := dumbOverlaps(Claims(h)["L"])
		got := map[string]bool{}
		res := Exclusion(h)
		for _, v := range res.Violations {
			got[v.Ops[1].Holder] = true
			a, b := v.Ops[0], v.Ops[1]
			if v.From >= v.To || a.Mode == history.Shared && b.Mode == history.Shared || a.Holder == b.Holder {
				t.Fatalf("not an overlap: %+v", v)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || (len(want) > 0) != (res.Verdict == Illegal) {
			t.Fatalf("%s: fast %v, dumb %v in %+v", res.Verdict, got, want, h.Ops)
		}
		if len(want) > 0 {
			illegal++
		}
	}
	if illegal < 300 || illegal > 2700 {
		t.Errorf("%d of 3000 histories were illegal: too one-sided to prove anything", illegal)
	}
}

// The claims themselves, once more from the definition: at an instant a client claims a lock if its grant has returned, it has
// not called Unlock, and the deadline in force is still ahead.
func TestClaims_randomHistories_agreeWithDefinition(t *testing.T) {
	r, _ := rng(t)
	for range 1000 {
		h := randomLock(r, 1+r.IntN(3))
		claims := Claims(h)["L"]
		for at := range int64(150) {
			for _, g := range h.Ops {
				if !granted(g) {
					continue
				}
				got := slices.ContainsFunc(claims, func(c Claim) bool { return c.Grant.Holder == g.Holder && c.From <= at && at < c.To })
				if want := claimsAt(h, g, at); got != want {
					t.Fatalf("%s at %d: %v, want %v, in %+v", g.Holder, at, got, want, h.Ops)
				}
			}
		}
	}
}

// claimsAt relies on randomLock's giving a grant at most one unlock or extension.
func claimsAt(h *history.History, g history.Op, at int64) bool {
	deadline := g.Deadline
	for _, op := range h.Ops {
		switch {
		case op.Holder != g.Holder:
		case op.Kind == history.KindUnlock && op.Call <= at:
			return false
		case op.Kind == history.KindExtend && op.Return <= at:
			deadline = op.Deadline
		}
	}
	return g.Return <= at && at < deadline
}

// A lock with more grants than a piece is judged across the cuts too.
func TestLinearizable_longLock_cutIsExact(t *testing.T) {
	r, s := rng(t)
	shape := historytest.Small()
	shape.Duration, shape.Locks, shape.ReadWrite, shape.Faults, shape.PauseOneIn = 2*time.Minute, 1, 0, false, 0
	shape.Think, shape.Hold = time.Millisecond, 5*time.Millisecond
	h := historytest.Generate(s, shape)
	if n := len(pieces(lives(h), pieceGrants)); n < 3 {
		t.Fatalf("only %d pieces", n)
	}
	if res := Linearizable(h, time.Minute); res.Verdict != Ok {
		t.Fatalf("%s: %s", res.Verdict, res.Summary)
	}
	for range 3 {
		c := clone(h)
		if !overlapNext(r, c, history.Exclusive) {
			t.Fatal("no place to overlap")
		}
		if res := Linearizable(c, time.Minute); res.Verdict != Illegal {
			t.Errorf("overlap: %s: %s", res.Verdict, res.Summary)
		}
	}
	// Two grants that change places across a cut: each piece is fine by itself.
	ps := pieces(lives(h), pieceGrants)
	a, b := ps[0][len(ps[0])-1], ps[1][0]
	a.grant.Token, b.grant.Token = b.grant.Token, a.grant.Token
	if res := Linearizable(h, time.Minute); res.Verdict != Illegal {
		t.Errorf("swap across a cut: %s: %s", res.Verdict, res.Summary)
	}
}

// Ordering the grants by token and cutting must not change the verdict: here every grant is a piece of its own, if it may be, and
// porcupine is asked again with neither.
func TestLinearizable_randomHistories_agreesWithPlainSearch(t *testing.T) {
	r, _ := rng(t)
	illegal := 0
	for range 3000 {
		h := randomTurns(r, 2+r.IntN(6))
		ls := lives(h)
		want := porcupine.CheckOperationsTimeout(fencedMutex(0), operations(ls, 0, false), time.Minute)
		var res Result
		if !res.checkMutex(ls, 1, time.Now().Add(time.Minute)) || want == porcupine.Unknown {
			t.Fatal("not decided")
		}
		if (len(res.Violations) == 0) != (want == porcupine.Ok) {
			t.Fatalf("plain search: %s, in pieces: %v, of %+v", want, res.Violations, h.Ops)
		}
		if want == porcupine.Illegal {
			illegal++
		}
	}
	if illegal < 300 || illegal > 2700 {
		t.Errorf("%d of 3000 histories were illegal: too one-sided to prove anything", illegal)
	}
}

// randomTurns is n grants that take turns, more or less.
func randomTurns(r *rand.Rand, n int) *history.History {
	h := &history.History{}
	at := int64(100)
	for i := range n {
		mode := []history.Mode{history.Exclusive, history.Shared, history.Shared}[r.IntN(3)]
		g := history.Op{
			Kind: history.KindLock, Client: fmt.Sprint("c", i), Call: at - r.Int64N(40), Return: at + r.Int64N(3), Lock: "L", Mode: mode,
			Holder: fmt.Sprint("h", i), Token: int64(10*i+10) - r.Int64N(2)*r.Int64N(25), Outcome: history.OK,
		}
		g.Token = max(1, g.Token)
		g.Deadline = g.Return + 1 + r.Int64N(12)
		h.Ops = append(h.Ops, g)
		if r.IntN(3) > 0 {
			u := history.Op{Kind: history.KindUnlock, Client: g.Client, Call: g.Return + r.Int64N(12), Lock: "L", Holder: g.Holder, Outcome: history.OK}
			u.Return = u.Call + r.Int64N(8)
			h.Ops = append(h.Ops, u)
		}
		at += 6 + r.Int64N(8)
	}
	slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	return h
}

// big is about a million operations.
func big(b *testing.B) *history.History {
	shape := historytest.Shape{
		Duration: 165 * time.Second, Clients: 64, Locks: 16, ReadWrite: 4, TTL: 2 * time.Second, Think: 20 * time.Millisecond, Hold: 5 * time.Millisecond,
		PauseOneIn: 5000,
	}
	h := historytest.Generate(1, shape)
	if len(h.Ops) < 1_000_000 {
		b.Fatalf("only %d operations", len(h.Ops))
	}
	return h
}

func benchmark(b *testing.B, check func(*history.History) Result) {
	h := big(b)
	for b.Loop() {
		if r := check(h); r.Verdict != Ok {
			b.Fatal(r.Summary)
		}
	}
	b.ReportMetric(float64(len(h.Ops)), "ops/history")
}

func BenchmarkC1Million(b *testing.B) { benchmark(b, Exclusion) }
func BenchmarkC2Million(b *testing.B) { benchmark(b, Tokens) }
func BenchmarkC3Million(b *testing.B) { benchmark(b, FencedRegister) }
func BenchmarkC5Million(b *testing.B) {
	benchmark(b, func(h *history.History) Result { return Linearizable(h, time.Minute) })
}
