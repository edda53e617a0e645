// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkers is each checker with the parameters that the files in testdata are written for.
var checkers = map[string]func(*history.History) Result{
	"c0": Assumptions, "c1": Exclusion, "c2": Tokens, "c3": FencedRegister, "c4": UnfencedRegister,
	"c5": func(h *history.History) Result { return Linearizable(h, 10*time.Second) }, "c6": Counters,
	"c7": func(h *history.History) Result { return Healed(h, 100*time.Nanosecond) },
	"c8": func(h *history.History) Result {
		return Effort(h, Minimums{Acquisitions: 2, Contended: 1, Tokens: 2, Faults: map[string]int{"N1": 1}})
	},
}

// violation is, for each file that is not ok, a part of the first violation's text (or of the summary, if unknown).
var violation = map[string]string{
	"c0-illegal-two-in-flight":             "its client has another operation in flight: read of \"L\" by a called at 19",
	"c0-illegal-ends-before-start":         "ends before it starts",
	"c0-illegal-holder-twice":              "its holder was granted before: lock of \"L\" by a (holder a1) called at 50",
	"c0-illegal-unlock-of-nothing":         "succeeded for a holder that was not granted",
	"c0-illegal-no-deadline":               "granted without a holder or a deadline",
	"c0-illegal-success-without-return":    "succeeded without returning",
	"c0-illegal-fault-backwards":           "ends before it starts: fault N1",
	"c0-illegal-unlock-before-grant":       "called before its lock was granted",
	"c0-illegal-extend-before-grant":       "succeeded for a holder that was not granted yet",
	"c1-illegal-failed-extend-keeps-claim": "a1 and b1 both claim \"L\" for 100ns",
	"c1-illegal-overlap":                   "a1 and b1 both claim \"L\" for 1ns: a1 until 500, b1 from 499",
	"c1-illegal-extended":                  "a1 and b1 both claim \"L\" for 200ns",
	"c1-illegal-extended-late":             "b1 and a1 both claim \"L\" for 380ns: b1 until 1410, a1 from 520",
	"c1-illegal-reader-and-writer":         "a1 and b1 both claim",
	"c1-illegal-writer-behind-readers":     "a1 and c1 both claim",
	"c2-illegal-twice":                     "token 7 of \"L\" was issued twice: lock of \"L\" by a (holder a1) called at 10, and lock of \"L\" by b",
	"c2-illegal-back":                      "token went back from 7 to 6",
	"c2-illegal-reader-twice":              "token 7 of \"L\" was issued twice",
	"c3-illegal-stale-write":               "stale token accepted: write of \"L\" by a called at 30 with token 5, after read of \"L\" by b",
	"c3-illegal-update-lost":               "update lost: write of \"L\" by a called at 14 and write of \"L\" by b called at 21 both wrote 1",
	"c3-illegal-value-fell":                "value fell from 1 to 0",
	"c3-illegal-phantom":                   "nobody had written 1",
	"c3-illegal-from-the-future":           "nobody had written 1",
	"c3-illegal-no-token":                  "a write without a token was accepted",
	"c5-illegal-two-owners":                "no place for",
	"c5-illegal-token-back":                "no place for",
	"c5-illegal-writer-among-readers":      "no place for",
	"c5-illegal-released-what-was-gone":    "no place for",
	"c6-illegal-rolled-back":               "counter 0 of n1 (incarnation i1) fell from 9, read at 1, to 8, read at 3",
	"c7-illegal-never-taken":               "\"L\" could not be taken after the last fault",
	"c7-illegal-taken-too-late":            "\"L\" could be taken only after 101ns, more than 100ns",
	"c7-illegal-key-without-expiry":        "the key of \"L\" on n1 has no expiry",
	"c7-illegal-key-outlives-ttl":          "has 1.001µs left",
	"c7-illegal-key-renewed-for-nobody":    "is still there",
	"c7-unknown-not-probed":                "1 of 2 locks were not probed",
	"c7-unknown-not-healed":                "1 of 1 locks were not probed",
	"c7-unknown-no-locks":                  "0 of 0 locks",
	"c8-illegal-no-contention":             "lock calls while another client held the lock: 0, want at least 1",
	"c8-illegal-no-tokens":                 "tokens issued: 0, want at least 2",
	"c8-illegal-fault-not-applied":         "faults applied by N1: 0, want at least 1",
	"c8-illegal-one-lock":                  "locks granted: 1, want at least 2",
}

// Files are named <checker>-<verdict>-<what they show>.jsonl. An ok file of a checker is there because a careless version of
// that checker would refuse it.
func TestCheckers_knownHistories_verdictOfTheName(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	kinds := map[string]int{}
	for _, path := range paths {
		file := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		parts := strings.SplitN(file, "-", 3)
		t.Run(file, func(t *testing.T) {
			h, err := history.ReadFiles(path)
			if err != nil {
				t.Fatal(err)
			}
			if r := Assumptions(h); r.Verdict != Ok && parts[0] != "c0" {
				t.Fatalf("the file itself is wrong: %+v", r.Violations)
			}
			r := checkers[parts[0]](h)
			if string(r.Verdict) != parts[1] || !strings.EqualFold(r.ID, parts[0]) {
				t.Errorf("%s says %s: %s", r.ID, r.Verdict, r.Summary)
			}
			said := r.Summary
			if len(r.Violations) > 0 {
				said = r.Violations[0].Text
			}
			if want := violation[file]; !strings.Contains(said, want) || want == "" && parts[1] != "ok" {
				t.Errorf("said %q, want %q", said, want)
			}
			if (len(r.Violations) > 0) != (r.Verdict == Illegal) {
				t.Errorf("%s with %d violations", r.Verdict, len(r.Violations))
			}
		})
		kinds[parts[0]+parts[1]]++
	}
	for id := range checkers {
		if kinds[id+"ok"] == 0 || kinds[id+"illegal"] == 0 && id != "c4" {
			t.Errorf("%s has %d good and %d bad files", id, kinds[id+"ok"], kinds[id+"illegal"])
		}
	}
	for file := range violation {
		if _, err := os.Stat("testdata/" + file + ".jsonl"); err != nil {
			t.Error(err)
		}
	}
}

func figure(t *testing.T, r Result, name string) float64 {
	t.Helper()
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	t.Fatalf("%s has no figure %q: %+v", r.ID, name, r.Figures)
	return 0
}

func read(t *testing.T, path string) *history.History {
	t.Helper()
	h, err := history.ReadFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestUnfencedRegister_losses_countedNotFailed(t *testing.T) {
	for file, want := range map[string]float64{"c4-ok-nothing-lost": 0, "c4-ok-two-of-three-lost": 2} {
		r := UnfencedRegister(read(t, "testdata/"+file+".jsonl"))
		if got := figure(t, r, "unfenced updates lost"); got != want || r.Verdict != Ok {
			t.Errorf("%s: %v lost, verdict %s, want %v and ok", file, got, r.Verdict, want)
		}
	}
}

// Invariant: what porcupine did not decide is never a pass.
func TestLinearizable_noTime_unknown(t *testing.T) {
	h := read(t, "testdata/c5-ok-readers-share.jsonl")
	if r := Linearizable(h, 0); r.Verdict != Unknown {
		t.Errorf("timeout 0: %s", r.Verdict)
	}
	rs := All(h, Expect{X: true, T: true, Heal: time.Second})
	for i := range rs {
		if rs[i].ID != "C5" {
			rs[i].Verdict = Ok
		}
	}
	if Passed(rs) {
		t.Error("a run with an undecided C5 passed")
	}
}

// crowd is n grants of one lock, all of them asked for at once; turn says the rest of the i-th.
func crowd(n int, turn func(i int, op *history.Op)) *history.History {
	h := &history.History{}
	for i := range n {
		op := history.Op{
			Kind: history.KindLock, Client: fmt.Sprint("c", i), Call: 1, Return: 1000, Lock: "L", Mode: history.Exclusive, Holder: fmt.Sprint("h", i), Outcome: history.OK,
		}
		turn(i, &op)
		h.Ops = append(h.Ops, op)
	}
	return h
}

// Porcupine's time and memory are bounded: it runs out of the one, and is not asked where the other would not do.
func TestLinearizable_tooHard_unknown(t *testing.T) {
	for name, h := range map[string]*history.History{
		"forty without tokens, two of them until the end": crowd(40, func(i int, op *history.Op) {
			if op.Deadline = int64(40 - i); i < 2 {
				op.Deadline = 2000
			}
		}),
		"more than can be kept, in order": crowd(pieceMax+1, func(i int, op *history.Op) {
			op.Call, op.Return, op.Deadline = int64(10*i+1), int64(10*i+2), int64(10*i+8)
		}),
	} {
		began := time.Now()
		if r := Linearizable(h, 500*time.Millisecond); r.Verdict != Unknown || figure(t, r, "locks undecided") != 1 {
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Summary)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// Without the order of tokens this one takes for ever.
func TestLinearizable_manyReadersAtOnce_decided(t *testing.T) {
	h := crowd(40, func(i int, op *history.Op) { op.Mode, op.Token, op.Deadline = history.Shared, int64(40-i), 2000 })
	if r := Linearizable(h, 20*time.Second); r.Verdict != Ok {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

func TestAssumptions_notOrderedByCall_illegal(t *testing.T) {
	h := read(t, "testdata/c1-ok-expiry.jsonl")
	h.Ops[0], h.Ops[1] = h.Ops[1], h.Ops[0]
	if r := Assumptions(h); r.Verdict != Illegal || !strings.Contains(r.Violations[0].Text, "not ordered by call") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

func TestAll_impossibleHistory_judgedByNobody(t *testing.T) {
	rs := All(read(t, "testdata/c0-illegal-two-in-flight.jsonl"), Expect{})
	if len(rs) != 1 || rs[0].ID != "C0" || Passed(rs) {
		t.Errorf("got %+v", rs)
	}
	if Passed(nil) {
		t.Error("no results passed")
	}
}

func TestAll_promises_decideWhatCounts(t *testing.T) {
	for _, c := range []struct {
		e    Expect
		want string
	}{
		{Expect{}, "C0 C7 C8"}, {Expect{X: true}, "C0 C1 C7 C8"}, {Expect{T: true}, "C0 C2 C3 C6 C7 C8"},
		{Expect{X: true, T: true}, "C0 C1 C2 C3 C5 C6 C7 C8"},
	} {
		var ids []string
		for _, r := range All(read(t, "testdata/c1-illegal-overlap.jsonl"), c.e) {
			if r.Promised {
				ids = append(ids, r.ID)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%+v: %s count, want %s", c.e, got, c.want)
		}
	}
	passed := []Result{{ID: "C1", Verdict: Illegal}, {ID: "C8", Verdict: Ok, Promised: true}}
	if !Passed(passed) {
		t.Error("what was not promised failed the run")
	}
}
