// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/checktest"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
)

// verdicts is what must not depend on how a history is cut into chapters.
func verdicts(rs []check.Result) map[string]any {
	out := map[string]any{}
	for _, r := range rs {
		texts := func(vs []check.Violation) (s []string) {
			for _, v := range vs {
				s = append(s, fmt.Sprint(v.From, " ", v.To, " ", v.Text))
			}
			slices.Sort(s)
			return s
		}
		out[r.ID] = fmt.Sprintf("%s, promised %v, %d observed, %q, figures %v\n%s\nnot judged %s", r.Verdict, r.Promised, r.Observed, r.Summary, r.Figures,
			strings.Join(texts(r.Violations), "\n"), strings.Join(texts(r.NotJudged), "\n"))
		if r.ID == "linearizable" && r.Verdict == check.Illegal { // porcupine names any operation of a piece that has no place
			out[r.ID] = fmt.Sprintf("%s, promised %v, %d observed, figures %v, not judged %s", r.Verdict, r.Promised, r.Observed, r.Figures, texts(r.NotJudged))
		}
	}
	return out
}

// sums is the same for the figures of the summary.
func sums(h *history.History, t *Tally) string {
	share, lasted := digest.GrantedShare(h)
	costs := ""
	for name, c := range digest.Costs(h) {
		costs += fmt.Sprintf("%s %+v\n", name, *c)
	}
	lines := strings.Split(costs, "\n")
	slices.Sort(lines)
	return fmt.Sprint(t.Acquisitions, t.UnderFaults, t.Fenced, t.Unfenced, share, lasted, digest.Recovery(h), strings.Join(lines, "\n"))
}

// sameInChapters fails unless h, judged in chapters of the size, is judged as it is as a whole.
func sameInChapters(t *testing.T, h *history.History, e Expect, size int) (chapters int) {
	t.Helper()
	whole, tally, err := Run(t.Context(), history.Whole(h), e, len(h.Ops)+1)
	if err != nil {
		t.Fatal(err)
	}
	cut, cutTally, err := Run(t.Context(), history.Whole(h), e, size)
	if err != nil {
		t.Fatal(err)
	}
	want, got := verdicts(whole), verdicts(cut)
	for id := range want {
		if want[id] != got[id] {
			t.Errorf("chapters of %d: %s\n   %v\nthe whole:\n   %v", size, id, got[id], want[id])
		}
	}
	if len(got) != len(want) {
		t.Errorf("chapters of %d: %d checkers, the whole: %d", size, len(got), len(want))
	}
	if want, got := sums(h, tally), sums(cutTally.Digest, cutTally); got != want {
		t.Errorf("chapters of %d: sums\n%s\nthe whole:\n%s", size, got, want)
	}
	for range Chapters(history.Whole(h), size) {
		chapters++
	}
	return chapters
}

func TestJudge_knownHistoriesInChapters_asWhole(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	e := Expect{X: true, T: true, Heal: 100 * time.Nanosecond, Timeout: 10 * time.Second, Min: Minimums{Acquisitions: 2, Contended: 1, Tokens: 2}}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			h := read(t, path)
			for size := 1; size <= len(h.Ops)+1; size++ {
				sameInChapters(t, h, e, size)
			}
		})
	}
}

// Good histories, and each known way to make one bad.
func TestJudge_randomHistoriesInChapters_asWhole(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	replay.Each(t, randomHistoriesInChapters)
}

func randomHistoriesInChapters(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	shape := short()
	shape.Duration = 8 * time.Second
	most := 0
	for i := range uint64(2) {
		good := historytest.Generate(seed+i, shape)
		suspendSome(r, good)
		most = max(most, sameInChapters(t, good, expect(), 1+r.IntN(200)))
		for _, m := range mutants {
			h := checktest.Clone(good)
			if !m.change(r, h) {
				continue
			}
			slices.SortStableFunc(h.Keys, func(a, b history.Key) int { return int(a.At - b.At) })
			if len(h.Ops) > 0 {
				sameInChapters(t, h, expect(), 1+r.IntN(len(h.Ops)))
			}
			if t.Failed() {
				t.Fatalf("%s, history %d", m.name, i)
			}
		}
	}
	if replay.Listed() && most < 10 {
		t.Errorf("at most %d chapters: they show nothing", most)
	}
}

// suspendSome lets some faults suspend exclusion.
func suspendSome(r *rand.Rand, h *history.History) {
	for i := range h.Faults {
		h.Faults[i].MayBreak.Exclusion = r.IntN(3) == 0
	}
}

// Short histories in which most things are wrong, cut everywhere.
func TestJudge_denseHistoriesInChapters_asWhole(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	replay.Each(t, denseHistoriesInChapters)
}

func denseHistoriesInChapters(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	e := Expect{X: true, T: true, Heal: 100, Timeout: 10 * time.Second}
	for i := range 1500 {
		var h *history.History
		if i%2 == 0 {
			h = checktest.RandomTurns(r, 2+r.IntN(8))
		} else if h = checktest.RandomLock(r, 1+r.IntN(12)); r.IntN(2) == 0 {
			for j := range h.Ops {
				h.Ops[j].Token = 1 + r.Int64N(9)
			}
		}
		h.Header.TTL = 40
		if r.IntN(3) == 0 {
			h.Faults = []history.Fault{{Nemesis: "step-clock", Start: r.Int64N(100), End: 120, MayBreak: history.Promises{Exclusion: true}}}
		}
		sameInChapters(t, h, e, 1+r.IntN(len(h.Ops)))
		if t.Failed() {
			t.Fatalf("history %d: %+v", i, h.Ops)
		}
	}
}

// A checker that is a function of one chapter.
func TestEach_chapters_addedUp(t *testing.T) {
	replay.Each(t, chaptersAddedUp)
}

func chaptersAddedUp(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	h := historytest.Generate(seed, short())
	if !checktest.OverlapNext(r, h, history.Exclusive) {
		t.Fatal("no place to overlap")
	}
	want := check.Whole(safety.Exclusion(), h)
	c, chapters := check.Each(whole(safety.Exclusion), func(check.Result) string { return "" }), 0
	for part, err := range Chapters(history.Whole(h), 500) {
		if err != nil {
			t.Fatal(err)
		}
		c.Add(part)
		chapters++
	}
	got := c.Result()
	if chapters < 5 || !reflect.DeepEqual(got.Violations, want.Violations) || got.Verdict != want.Verdict || got.Observed != want.Observed ||
		checktest.Figure(t, got, "claims") != checktest.Figure(t, want, "claims") {
		t.Errorf("%d chapters: %+v, want %+v", chapters, got, want)
	}
}

// Invariant: a chapter begins where the one before ends, and every operation, key and counter belongs to one chapter.
func TestChapters_everyRecord_inOneChapter(t *testing.T) {
	replay.Each(t, everyRecordInOneChapter)
}

func everyRecordInOneChapter(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	h := historytest.Generate(seed, short())
	size := 1 + r.IntN(1000)
	from, ops, keys, counters, most := int64(history.Beginning), 0, 0, 0, 0
	for part, err := range Chapters(history.Whole(h), size) {
		if err != nil {
			t.Fatal(err)
		}
		if part.Part.From != from {
			t.Fatalf("a chapter from %d after one to %d", part.Part.From, from)
		}
		from = part.Part.To
		ops, keys, counters, most = ops+len(part.Own()), keys+len(part.Keys), counters+len(part.Counters), max(most, len(part.Ops))
	}
	if from != history.Never || ops != len(h.Ops) || keys != len(h.Keys) || counters != len(h.Counters) {
		t.Errorf("to %d: %d of %d operations, %d of %d keys, %d of %d counters", from, ops, len(h.Ops), keys, len(h.Keys), counters, len(h.Counters))
	}
	if most > size+len(h.Ops)/4 {
		t.Errorf("chapters of %d have up to %d operations", size, most)
	}
}

// A claim that does not end for a long time does not keep the whole history in memory, and nothing is missed.
func TestChapters_claimThatDoesNotEnd_cutAllTheSame(t *testing.T) {
	replay.Each(t, claimThatDoesNotEnd)
}

func claimThatDoesNotEnd(t *testing.T, seed uint64) {
	r := replay.RNG(seed)
	h := historytest.Generate(seed, short())
	if !checktest.OverlapNext(r, h, history.Exclusive) {
		t.Fatal("no place to overlap")
	}
	first := slices.IndexFunc(h.Ops, checktest.Granted)
	long := h.Ops[first]
	long.Lock, long.Mode, long.Holder, long.Client, long.Deadline = "forever", history.Exclusive, "one", "patient", history.Never-1
	late := long
	late.Holder, late.Client, late.Deadline = "two", "impatient", 0
	last := h.Ops[len(h.Ops)-1]
	late.Call, late.Return, late.Deadline = last.Call, last.Return, last.Return+100
	h.Ops = append(slices.Insert(h.Ops, first, long), late)
	want, got, most := check.Whole(safety.Exclusion(), h), safety.Exclusion(), 0
	for part, err := range chapters(history.Whole(h), 200, 1000) {
		if err != nil {
			t.Fatal(err)
		}
		got.Add(part)
		most = max(most, len(part.Ops))
	}
	if most > 3000 || most < 1000 {
		t.Errorf("up to %d operations in memory", most)
	}
	if res := got.Result(); len(want.Violations) < 2 || len(res.Violations) != len(want.Violations) || res.Observed != want.Observed {
		t.Errorf("%+v, want %+v", res, want)
	}
}

// An overlap that a chapter cut all the same takes for shorter than the suspension, or for longer, is judged by how long it lasted.
func TestChapters_overlapOverAForcedEnd_judgedByItsLength(t *testing.T) {
	for name, want := range map[string]int{"extended": 1, "unlocked": 0} {
		t.Run(name, func(t *testing.T) {
			h := historytest.Generate(1, short())
			first, last := slices.IndexFunc(h.Ops, checktest.Granted), h.Ops[len(h.Ops)-1]
			long, over := h.Ops[first], last.Return+1000
			long.Lock, long.Mode, long.Token = "long", history.Exclusive, 0
			h.Faults = []history.Fault{{Nemesis: "step-clock", End: over - int64(h.Header.TTL), MayBreak: history.Promises{Exclusion: true}}}
			for i, holder := range []string{"one", "two"} {
				lock := long
				lock.Holder, lock.Client, lock.Deadline = holder, holder, over-1
				end := history.Op{Kind: history.KindExtend, Client: holder, Lock: "long", Holder: holder, Call: last.Call, Return: last.Return, Deadline: over + 1000, Outcome: history.OK}
				if name == "unlocked" {
					lock.Deadline, end.Kind, end.Deadline = over+1000, history.KindUnlock, 0
				}
				h.Ops = append(slices.Insert(h.Ops, first+i, lock), end)
			}
			whole, cut, n := check.Whole(safety.Exclusion(), h), safety.Exclusion(), 0
			for part, err := range chapters(history.Whole(h), 200, 1000) {
				if err != nil {
					t.Fatal(err)
				}
				cut.Add(part)
				n++
			}
			got := cut.Result()
			if len(whole.Violations) != want || len(whole.NotJudged) != 1-want || n < 3 {
				t.Fatalf("%d chapters, the whole: %+v", n, whole)
			}
			if !reflect.DeepEqual(got, whole) {
				t.Errorf("%+v, want %+v", got, whole)
			}
		})
	}
}
