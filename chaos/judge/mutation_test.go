// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/checktest"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

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

func failing(rs []check.Result) string {
	var ids []string
	for _, r := range rs {
		if r.Promised && r.Verdict != check.Ok {
			ids = append(ids, r.ID)
		}
	}
	return strings.Join(ids, " ")
}

func TestAll_correctRuns_pass(t *testing.T) {
	for seed := range replay.Many(t, 6) {
		h := historytest.Generate(seed, short())
		rs := All(h, expect())
		if !Passed(rs) {
			for _, r := range rs {
				t.Logf("%s %s %s", r.ID, r.Verdict, r.Summary)
			}
			t.Fatalf("seed %d: %s failed", seed, failing(rs))
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
		i := pick(r, h, func(_ int, op history.Op) bool { return checktest.Granted(op) })
		j := later(h, i, checktest.Granted)
		if j < 0 {
			return false
		}
		h.Ops[j].Holder = h.Ops[i].Holder
		return true
	}},
	{"a grant is claimed for longer than any TTL", "assumptions", func(r *rand.Rand, h *history.History) bool {
		return claimLonger(r, h, history.KindLock)
	}},
	{"an extension is claimed for longer than any TTL", "assumptions", func(r *rand.Rand, h *history.History) bool {
		return claimLonger(r, h, history.KindExtend)
	}},
	{"a lock is extended after its release", "assumptions", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return op.Kind == history.KindUnlock && op.Outcome == history.OK })
		u := h.Ops[i]
		h.Ops = append(h.Ops, history.Op{
			Kind: history.KindExtend, Client: u.Client + "+", Call: u.Return + int64(600*time.Millisecond), Return: u.Return + int64(601*time.Millisecond),
			Lock: u.Lock, Holder: u.Holder, Deadline: u.Return + int64(700*time.Millisecond), Outcome: history.OK,
		})
		slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
		return true
	}},
	{"a claim is shifted into the one before", "exclusion linearizable", func(r *rand.Rand, h *history.History) bool {
		return checktest.OverlapNext(r, h, history.Exclusive)
	}},
	{"a writer's claim is shifted into a reader's", "exclusion linearizable", func(r *rand.Rand, h *history.History) bool {
		return checktest.OverlapNext(r, h, history.Writing)
	}},
	{"an unlock is forgotten", "exclusion linearizable", func(r *rand.Rand, h *history.History) bool {
		deadlines := map[string]int64{}
		for _, op := range h.Ops {
			if checktest.Granted(op) && op.Mode == history.Exclusive {
				deadlines[op.Holder] = op.Deadline
			}
		}
		return drop(h, pick(r, h, func(i int, op history.Op) bool {
			if op.Kind != history.KindUnlock || op.Outcome != history.OK || deadlines[op.Holder] == 0 {
				return false
			}
			n := later(h, i, checktest.Granted) // it must come before the deadline, or forgetting was harmless
			return n >= 0 && h.Ops[n].Return < deadlines[op.Holder]
		}))
	}},
	{"a token is issued twice", "tokens linearizable", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return checktest.Granted(op) })
		j := later(h, i, checktest.Granted)
		if j < 0 {
			return false
		}
		h.Ops[j].Token = h.Ops[i].Token
		return true
	}},
	{"two tokens are swapped", "tokens linearizable", func(r *rand.Rand, h *history.History) bool {
		i := pick(r, h, func(_ int, op history.Op) bool { return checktest.Granted(op) })
		j := later(h, i, checktest.Granted)
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
	{"no lock is granted", "exclusion tokens fenced-register linearizable effort", func(r *rand.Rand, h *history.History) bool {
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

// claimLonger raises the deadline of a random success of that kind by a minute.
func claimLonger(r *rand.Rand, h *history.History, kind history.Kind) bool {
	i := pick(r, h, func(_ int, op history.Op) bool { return op.Kind == kind && op.Outcome == history.OK })
	h.Ops[i].Deadline += int64(time.Minute)
	return true
}

// Each fault put into a good history is found, by the checker whose business it is and by no other.
func TestAll_mutants_caughtByTheRightChecker(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	replay.Each(t, mutantsCaught)
}

func mutantsCaught(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	var good []*history.History
	for i := range uint64(3) {
		good = append(good, historytest.Generate(seed+i, short()))
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			applied := 0
			for i, g := range good {
				h := checktest.Clone(g)
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
			if applied == 0 && replay.Listed() {
				t.Error("could not be applied to any history")
			}
		})
	}
}
