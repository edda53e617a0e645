// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/checktest"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkers is each checker with the parameters that the files in testdata are written for.
var checkers = map[string]func(*history.History) check.Result{
	"assumptions": whole(safety.Assumptions), "exclusion": whole(safety.Exclusion), "tokens": whole(safety.Tokens), "counters": whole(safety.Counters),
	"fenced-register": whole(safety.FencedRegister), "unfenced-register": whole(safety.UnfencedRegister),
	"linearizable": func(h *history.History) check.Result {
		return check.Whole(safety.Linearizable(context.Background(), 10*time.Second), h)
	},
	"healed": func(h *history.History) check.Result { return digest.Healed(h, 100*time.Nanosecond) },
	"effort": func(h *history.History) check.Result {
		return Effort(h, Minimums{Acquisitions: 2, UnderFaults: 1, Contended: 1, Tokens: 2, Faults: map[string]int{"kill-minority": 1}})
	},
}

// whole makes a function of one history of a checker.
func whole[C check.Checker](c func() C) func(*history.History) check.Result {
	return func(h *history.History) check.Result { return check.Whole(c(), h) }
}

// violation is, for each file that is not ok, a part of the first violation's text (or of the summary, if unknown).
var violation = map[string]string{
	"assumptions_illegal_two-in-flight":                "its client has another operation in flight: read of \"L\" by a called at 19",
	"assumptions_illegal_ends-before-start":            "ends before it starts",
	"assumptions_illegal_holder-twice":                 "its holder was granted before: lock of \"L\" by a (holder a1) called at 50",
	"assumptions_illegal_unlock-of-nothing":            "succeeded for a holder that was not granted",
	"assumptions_illegal_no-deadline":                  "granted without a holder or a deadline",
	"assumptions_illegal_success-without-return":       "succeeded without returning",
	"assumptions_illegal_fault-backwards":              "ends before it starts: fault kill-minority",
	"assumptions_illegal_unlock-before-grant":          "called before its lock was granted",
	"assumptions_illegal_extend-before-grant":          "succeeded for a holder that was not granted yet",
	"assumptions_illegal_claim-longer-than-ttl":        "claimed for 1.011µs after its return, and no client asks for more than 1µs: lock of \"L\" by a (holder a1) called at 10",
	"assumptions_illegal_extended-for-longer-than-ttl": "claimed for 1.011µs after its return, and no client asks for more than 1µs: extend of \"L\" by a",
	"assumptions_illegal_extend-after-unlock":          "succeeded after the unlock of its lock had: extend of \"L\" by a (holder a1) called at 41",
	"exclusion_illegal_failed-extend-keeps-claim":      "a1 and b1 both claim \"L\" for 100ns",
	"exclusion_illegal_overlap":                        "a1 and b1 both claim \"L\" for 1ns: a1 until 500 (votes of m1, m2, m3), b1 from 499 (votes of m3, m4, m5)",
	"exclusion_illegal_extended":                       "a1 and b1 both claim \"L\" for 200ns",
	"exclusion_illegal_extended-late":                  "b1 and a1 both claim \"L\" for 380ns: b1 until 1410, a1 from 520",
	"exclusion_illegal_reader-and-writer":              "a1 and b1 both claim",
	"exclusion_illegal_writer-behind-readers":          "a1 and c1 both claim",
	"exclusion_illegal_overlap-outlasts-suspension":    "a1 and b1 both claim \"L\" for 401ns",
	"exclusion_illegal_overlap-before-suspension":      "a1 and b1 both claim \"L\" for 401ns",
	"exclusion_illegal_overlap-between-suspensions":    "a1 and b1 both claim \"L\" for 401ns",
	"exclusion_illegal_fault-that-breaks-nothing":      "a1 and b1 both claim \"L\" for 401ns",
	"exclusion_unknown_suspended-throughout":           "Nothing was there to be judged. Not judged: 0.0 s of 0.0 s (step-clock 0.0 s); overlaps in that time: 1.",
	"tokens_unknown_none-issued":                       "Nothing was there to be judged.",
	"fenced-register_unknown_no-write":                 "Nothing was there to be judged.",
	"counters_unknown_no-reading":                      "Nothing was there to be judged.",
	"linearizable_unknown_no-grant":                    "Nothing was there to be judged.",
	"effort_illegal_no-fault-at-the-time":              "locks granted while a fault was at work: 0, want at least 1",
	"exclusion_unknown_no-claims":                      "Nothing was there to be judged.",
	"linearizable_illegal_overlap-before-suspension":   "no place for",
	"tokens_illegal_twice":                             "token 7 of \"L\" was issued twice: lock of \"L\" by a (holder a1) called at 10, and lock of \"L\" by b",
	"tokens_illegal_one-without":                       "of \"L\" one grant has a token and one has none: lock of \"L\" by a (holder a1) called at 10, and lock of \"L\" by a (holder a2) called at 910",
	"tokens_illegal_back":                              "token went back from 7 to 6",
	"tokens_illegal_reader-twice":                      "token 7 of \"L\" was issued twice",
	"fenced-register_illegal_stale-write":              "stale token accepted: write of \"L\" by a called at 30 with token 5, after read of \"L\" by b",
	"fenced-register_illegal_update-lost":              "update lost: write of \"L\" by a called at 14 and write of \"L\" by b called at 21 both wrote 1",
	"fenced-register_illegal_value-fell":               "value fell from 1 to 0",
	"fenced-register_illegal_value-back":               "value fell from 2 to 1",
	"fenced-register_illegal_last-write-lost":          "value fell from 2 to 1: write of \"L\" by b called at 64, then read of \"L\" by harness.registers",
	"fenced-register_unknown_last-write-unread":        "The last write was not read again",
	"fenced-register_illegal_phantom":                  "nobody had written 1",
	"fenced-register_illegal_from-the-future":          "nobody had written 1",
	"fenced-register_illegal_no-token":                 "a write without a token was accepted",
	"linearizable_illegal_two-owners":                  "no place for",
	"linearizable_illegal_token-back":                  "no place for",
	"linearizable_illegal_writer-among-readers":        "no place for",
	"linearizable_illegal_released-what-was-gone":      "no place for",
	"counters_illegal_rolled-back":                     "counter 0 of n1 (incarnation i1) fell from 9, read at 1, to 8, read at 3",
	"healed_illegal_never-taken":                       "\"L\" could not be taken after the last fault",
	"healed_illegal_taken-too-late":                    "\"L\" could be taken only after 101ns, more than 100ns",
	"healed_illegal_key-without-expiry":                "the key of \"L\" on n1 has no expiry",
	"healed_illegal_key-outlives-ttl":                  "has 1.001µs left",
	"healed_illegal_key-renewed-for-nobody":            "is still there",
	"healed_unknown_not-probed":                        "1 of 2 locks were not probed",
	"healed_unknown_not-healed":                        "1 of 1 locks were not probed",
	"healed_unknown_no-locks":                          "0 of 0 locks",
	"effort_illegal_no-contention":                     "lock calls while another client held the lock: 0, want at least 1",
	"effort_illegal_no-tokens":                         "tokens issued: 0, want at least 2",
	"effort_illegal_one-without-token":                 "tokens issued: 2, want at least 3",
	"effort_illegal_fault-not-applied":                 "faults applied by kill-minority: 0, want at least 1",
	"effort_illegal_one-lock":                          "locks granted: 1, want at least 2",
}

// Files are named <checker>_<verdict>_<what they show>.jsonl. An ok file of a checker is there because a careless version of
// that checker would refuse it.
func TestCheckers_knownHistories_verdictOfTheName(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	kinds := map[string]int{}
	for _, path := range paths {
		file := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		parts := strings.SplitN(file, "_", 3)
		t.Run(file, func(t *testing.T) {
			h, err := history.ReadFiles(path)
			if err != nil {
				t.Fatal(err)
			}
			if r := check.Whole(safety.Assumptions(), h); r.Verdict != check.Ok && parts[0] != "assumptions" {
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
			if (len(r.Violations) > 0) != (r.Verdict == check.Illegal) {
				t.Errorf("%s with %d violations", r.Verdict, len(r.Violations))
			}
		})
		kinds[parts[0]+parts[1]]++
	}
	for id := range checkers {
		if kinds[id+"ok"] == 0 || kinds[id+"illegal"] == 0 && id != "unfenced-register" {
			t.Errorf("%s has %d good and %d bad files", id, kinds[id+"ok"], kinds[id+"illegal"])
		}
	}
	for file := range violation {
		if _, err := os.Stat("testdata/" + file + ".jsonl"); err != nil {
			t.Error(err)
		}
	}
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
	for file, want := range map[string]float64{"unfenced-register_ok_nothing-lost": 0, "unfenced-register_ok_two-of-three-lost": 2} {
		r := check.Whole(safety.UnfencedRegister(), read(t, "testdata/"+file+".jsonl"))
		if got := checktest.Figure(t, r, "unfenced updates lost"); got != want || r.Verdict != check.Ok {
			t.Errorf("%s: %v lost, verdict %s, want %v and ok", file, got, r.Verdict, want)
		}
	}
}

// Invariant: what porcupine did not decide is never a pass.
func TestLinearizable_noTime_unknown(t *testing.T) {
	h := read(t, "testdata/linearizable_ok_readers-share.jsonl")
	if r := check.Whole(safety.Linearizable(t.Context(), 0), h); r.Verdict != check.Unknown {
		t.Errorf("timeout 0: %s", r.Verdict)
	}
	rs := All(h, Expect{X: true, T: true, Heal: time.Second})
	for i := range rs {
		if rs[i].ID != "linearizable" {
			rs[i].Verdict = check.Ok
		}
	}
	if Passed(rs) {
		t.Error("a run with an undecided linearizable passed")
	}
}

func TestAssumptions_notOrderedByCall_illegal(t *testing.T) {
	h := read(t, "testdata/exclusion_ok_expiry.jsonl")
	h.Ops[0], h.Ops[1] = h.Ops[1], h.Ops[0]
	if r := check.Whole(safety.Assumptions(), h); r.Verdict != check.Illegal || !strings.Contains(r.Violations[0].Text, "not ordered by call") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

func TestAll_impossibleHistory_judgedByNobody(t *testing.T) {
	rs := All(read(t, "testdata/assumptions_illegal_two-in-flight.jsonl"), Expect{})
	if len(rs) != 1 || rs[0].ID != "assumptions" || Passed(rs) {
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
		{Expect{}, "assumptions healed effort harness"}, {Expect{X: true}, "assumptions exclusion healed effort harness"}, {Expect{T: true}, "assumptions tokens fenced-register counters healed effort harness"},
		{Expect{X: true, T: true}, "assumptions exclusion tokens fenced-register linearizable counters healed effort harness"},
	} {
		var ids []string
		for _, r := range All(read(t, "testdata/exclusion_illegal_overlap.jsonl"), c.e) {
			if r.Promised {
				ids = append(ids, r.ID)
			}
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%+v: %s count, want %s", c.e, got, c.want)
		}
	}
	passed := []check.Result{{ID: "exclusion", Verdict: check.Illegal}, {ID: "effort", Verdict: check.Ok, Promised: true}}
	if !Passed(passed) {
		t.Error("what was not promised failed the run")
	}
}

// A header cannot say that a checker is idle that judges every run, and knows each of the others.
func TestIdle_everyChecker_refusedOrTaken(t *testing.T) {
	h := read(t, "testdata/exclusion_ok_expiry.jsonl")
	var refused []string
	for _, r := range All(h, Expect{X: true, T: true}) {
		h.Header.Idle = []string{r.ID}
		if _, err := history.NewWriter(io.Discard, h.Header); err != nil {
			refused = append(refused, r.ID)
			if want := "idle names \"" + r.ID + "\", which judges every run"; !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	if got := strings.Join(refused, " "); got != "assumptions exclusion linearizable healed effort harness" {
		t.Errorf("refused: %s", got)
	}
}

// That a checker has nothing to judge is no excuse when it has found something.
func TestAll_idleCheckerFindsSomething_counts(t *testing.T) {
	for id, file := range map[string]string{
		"tokens": "tokens_illegal_back", "fenced-register": "fenced-register_illegal_update-lost", "counters": "counters_illegal_rolled-back",
	} {
		for name, want := range map[string]bool{file: true, "exclusion_unknown_no-claims": false} {
			h := read(t, "testdata/"+name+".jsonl")
			h.Header.Idle = []string{id}
			for _, r := range All(h, Expect{X: true, T: true, Timeout: time.Second}) {
				if r.ID == id && r.Promised != want {
					t.Errorf("%s, %s is %s: it counts: %v", name, id, r.Verdict, r.Promised)
				}
			}
		}
	}
}
