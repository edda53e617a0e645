// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/safety"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/page"
	"github.com/redlock-go/redlock/internal/page/pagetest"
)

// keep leaves the reports that the tests make where somebody can look at them.
var keep = flag.String("keep", "", "directory for the reports made by the tests")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func expect() judge.Expect {
	return judge.Expect{X: true, T: true, Heal: time.Second, Timeout: time.Minute, Min: judge.Minimums{Acquisitions: 100, Contended: 10, Tokens: 100}}
}

// render writes the report of h as judged under e, checks what must be true of every report, and gives it back.
func render(t *testing.T, name string, h *history.History, e judge.Expect) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, history.Whole(h), judge.All(h, e), nil); err != nil {
		t.Fatal(err)
	}
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, name+".html"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pagetest.Check(t, b.String())
	if !strings.Contains(b.String(), `id="timeline"`) {
		t.Error("no timeline")
	}
	return b.String()
}

func has(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) && !strings.Contains(html.UnescapeString(page), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

func hasNot(t *testing.T, page string, bads ...string) {
	t.Helper()
	for _, bad := range bads {
		if strings.Contains(page, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
}

// spoil lets n grants return while the claim before them still stands, and issues one token twice.
func spoil(h *history.History, n int) {
	for _, cs := range byLock(h) {
		done := 0
		for i := len(cs) / 3; i+1 < len(cs) && done < n; i++ {
			a, b := cs[i], cs[i+1]
			if b.Grant.Mode == history.Exclusive && b.Grant.Call < a.From && a.To <= b.From && a.To-a.From > int64(2*time.Millisecond) {
				b.Grant.Return = a.From + (a.To-a.From)/2
				done++
				i += 20
			}
		}
		if done > 0 {
			cs[len(cs)-1].Grant.Token = cs[0].Grant.Token
			return
		}
	}
}

func byLock(h *history.History) [][]check.Claim {
	claims := check.Claims(h)
	var all [][]check.Claim
	for i := range claims {
		all = append(all, claims[i])
	}
	slices.SortFunc(all, func(a, b []check.Claim) int { return strings.Compare(a[0].Grant.Lock, b[0].Grant.Lock) })
	return all
}

func TestWrite_goodRun_saysSo(t *testing.T) {
	h := historytest.Generate(3, historytest.Small())
	h.Torn = []string{"p3.jsonl:812 (57 bytes)"}
	page := render(t, "good", h, expect())
	has(t, page, "Every promise was kept", "No two clients ever believed", h.Header.Replay, "v0.0.0-simulated", "redlock", "<dt>Seed</dt><dd>3</dd>", "<dd>one holder, tokens</dd>",
		"Who held which lock", "Which masters gave their votes", "master-5", "lock-03",
		"kill a minority of the masters", "unfenced updates lost, percent", "p3.jsonl:812 (57 bytes)", "prefers-color-scheme: dark", "stale token")
	hasNot(t, page, "A promise was broken", `id="overlaps"`, `class="overlap"`)
	if got, want := strings.Count(page, `<p class="how">`), strings.Count(page, `<div class="figure"`); got < want {
		t.Errorf("%d sentences of how to read %d pictures", got, want)
	}
}

func TestWrite_badRun_showsOverlaps(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	h := historytest.Generate(3, historytest.Small())
	spoil(h, 3)
	rs := judge.All(h, expect())
	page := render(t, "bad", h, expect())
	has(t, page, "A promise was broken", "Two clients believed that they held the same lock", `id="overlaps"`, `id="overlap0"`, `id="overlap2"`, `class="overlap"`,
		"was issued twice", "+0.000 ms")
	hasNot(t, page, `id="overlap3"`, "more overlaps")
	for _, r := range rs {
		if r.ID != "exclusion" {
			continue
		}
		for _, v := range r.Violations {
			has(t, page, v.Ops[0].Client, v.Ops[1].Client, fmt.Sprintf("token %d", v.Ops[1].Token))
		}
	}
}

// An overlap in the time for which a fault suspends exclusion is told, and decides nothing.
func TestWrite_overlapWhileSuspended_told(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	h := historytest.Generate(3, historytest.Small())
	for i, cs := 0, byLock(h); i < len(cs); i++ { // a grant returns during the claim before; its token stays in order
		a, b := cs[i][0], cs[i][1]
		if a.Grant.Mode != history.Exclusive || b.Grant.Call >= a.From || a.To > b.From {
			continue
		}
		b.Grant.Return = a.From + (a.To-a.From)/2
		h.Faults = append(h.Faults, history.Fault{Nemesis: "step-clock", Start: a.From, End: a.To, MayBreak: history.Promises{Exclusion: true}})
		break
	}
	page := render(t, "suspended", h, expect())
	has(t, page, "Every promise was kept", "No two clients ever believed", "(step-clock ", "Overlaps in that time: 1.")
	hasNot(t, page, `id="overlaps"`)
}

// What is not promised does not decide the verdict, but is told.
func TestWrite_overlapNotPromised_told(t *testing.T) {
	h := historytest.Generate(3, historytest.Small())
	spoil(h, 1)
	e := expect()
	e.X, e.T = false, false
	page := render(t, "unpromised", h, e)
	has(t, page, "What was promised was kept", "Not promised under the faults of this run, and it did happen: Two clients", `id="overlap0"`, "broken, not promised")
}

func TestWrite_runWithoutEffort_provesNothing(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	h := historytest.Generate(3, historytest.Small())
	e := expect()
	e.Min.Acquisitions = 1 << 30
	page := render(t, "idle", h, e)
	has(t, page, "This run proves nothing", "The run did too little", "too little</span>")
	hasNot(t, page, "Every promise was kept")
}

// Strange histories are shown too: a report that fails hides what went wrong.
func TestWrite_strangeHistories_shown(t *testing.T) {
	hd := historytest.Generate(1, historytest.Small()).Header
	lock := history.Op{Kind: history.KindLock, Client: "a", Call: 10, Return: 20, Lock: "L", Mode: history.Exclusive, Holder: "h", Deadline: 90, Outcome: history.OK}
	for name, h := range map[string]*history.History{
		"empty":         {Header: hd},
		"one operation": {Header: hd, Ops: []history.Op{lock}},
		"one instant":   {Header: hd, Ops: []history.Op{{Kind: history.KindLock, Client: "a", Call: 10, Return: 10, Lock: "L", Mode: history.Exclusive, Outcome: history.Failed}}},
		"never healed":  {Header: hd, Ops: []history.Op{lock}, Faults: []history.Fault{{Nemesis: "kill-minority", Start: 5, End: history.Never}, {Nemesis: "kill-majority", Start: 7, End: 9, Error: "no"}}},
		"impossible":    {Header: hd, Ops: []history.Op{lock, lock}},
		"markup in names": {Header: history.Header{Replay: `</code><script>alert(1)</script>`, Driver: `"><b>`, TTL: time.Second}, Ops: []history.Op{
			{Kind: history.KindLock, Client: `<i>"&`, Call: 10, Return: 20, Lock: `</svg><b>`, Mode: history.Exclusive, Holder: "h", Deadline: 90, Outcome: history.OK},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			page := render(t, "strange-"+strings.ReplaceAll(name, " ", "-"), h, expect())
			hasNot(t, page, "<script>alert", "</svg><b>")
			if name == "empty" {
				has(t, page, "<dt>Length</dt><dd>1 ns</dd>")
			}
		})
	}
	var b bytes.Buffer
	if err := Write(&b, history.Whole(&history.History{Header: hd}), nil, nil); err != nil || !strings.Contains(b.String(), "Nothing was judged") {
		t.Errorf("no results: error %v", err)
	}
}

// A large history stays small, and no overlap is lost in it.
func TestWrite_hugeRun_smallFile(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	shape := historytest.Small()
	shape.Duration, shape.Clients, shape.Locks, shape.ReadWrite, shape.Think, shape.Hold = 30*time.Second, 40, 60, 10, 3*time.Millisecond, 2*time.Millisecond
	h := historytest.Generate(5, shape)
	if len(h.Ops) < 60_000 {
		t.Fatalf("only %d operations", len(h.Ops))
	}
	h.Header.TTL = time.Minute // some claims will overlap for that long
	grants := map[string][]*history.Op{}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.KindLock && op.Outcome == history.OK {
			grants[op.Lock] = append(grants[op.Lock], op)
		}
	}
	for _, mine := range grants { // of every lock, also those without a row of their own
		for j := 5; j+1 < len(mine) && j < 40; j += 5 {
			mine[j].Deadline, mine[j+1].Mode = mine[j+1].Return+int64(time.Second), history.Writing
		}
	}
	h.Ops = slices.DeleteFunc(h.Ops, func(op history.Op) bool { return op.Kind == history.KindUnlock })
	page := render(t, "huge", h, judge.Expect{Heal: time.Second, Timeout: time.Second})
	if len(page) > 1<<20 {
		t.Errorf("%d bytes", len(page))
	}
	res := check.Whole(safety.Exclusion(), h)
	overlaps := res.Violations
	if len(overlaps) < 1000 || res.More == 0 {
		t.Fatalf("only %d and %d overlaps", len(overlaps), res.More)
	}
	has(t, page, "44 other locks", fmt.Sprintf("and %d more, which are counted", res.More), fmt.Sprintf("and %d more: all of them are marked", len(overlaps)-closeupsMax-moreMax))
	everyOverlapMarked(t, page, h, overlaps)
}

func TestSpan_unitsAndDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 1: "1 ns", 999: "999 ns", 1500: "1.5 µs", 12_340: "12.3 µs", 250_000: "250 µs", time.Millisecond: "1 ms", 10 * time.Second: "10 s",
		-1500 * time.Millisecond: "-1.5 s", 100 * time.Second: "100 s", 5 * time.Minute: "5m", 90 * time.Minute: "1h30m", 1234 * time.Second: "20m34s",
	} {
		if got := page.Span(d); got != want {
			t.Errorf("%d ns: %q, want %q", int64(d), got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := page.Count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestHeldShare_readersTogether_countedOnce(t *testing.T) {
	w := page.Window{From: 0, To: page.Columns * 10}
	claim := func(from, to int64) check.Claim { return check.Claim{Grant: &history.Op{}, From: from, To: to} }
	shares := heldShare(w, []check.Claim{claim(-5, 5), claim(2, 15), claim(3, 4), claim(20, 30), claim(page.Columns*10-2, page.Columns*10+50)})
	for i, want := range map[int]float64{0: 1, 1: 0.5, 2: 1, 3: 0, page.Columns - 1: 0.2} {
		if got := shares[i]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("column %d: %v, want %v", i, got, want)
		}
	}
}

func BenchmarkWriteMillion(b *testing.B) {
	h := historytest.Generate(1, historytest.Shape{
		Duration: 165 * time.Second, Clients: 64, Locks: 16, ReadWrite: 4, TTL: 2 * time.Second, Think: 20 * time.Millisecond, Hold: 5 * time.Millisecond,
		PauseOneIn: 5000, Faults: true,
	})
	rs := judge.All(h, expect())
	var page bytes.Buffer
	for b.Loop() {
		page.Reset()
		if err := Write(&page, history.Whole(h), rs, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(h.Ops)), "ops/history")
	b.ReportMetric(float64(page.Len()), "bytes/page")
}

// An experiment that is to show an overlap is no broken promise.
func TestWrite_told_hasTheFirstWord(t *testing.T) {
	h, err := history.ReadFiles("../judge/testdata/exclusion_illegal_overlap.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for shown, class := range map[bool]string{true: "verdict ok", false: "verdict illegal"} {
		var b bytes.Buffer
		told := &Told{Shown: shown, Title: "the title", Head: "the head", Lines: []string{"a line"}, Intro: "the introduction"}
		if err := Write(&b, history.Whole(h), []check.Result{check.Whole(safety.Exclusion(), h)}, told); err != nil {
			t.Fatal(err)
		}
		pagetest.Check(t, b.String())
		if !strings.Contains(b.String(), `id="timeline"`) {
			t.Error("no timeline")
		}
		has(t, b.String(), class, "the title", "the head", "a line", "the introduction", "a and b both held L, for 1 ns")
	}
}

// The verdict has a sentence for whatever a checker may find.
func TestJudge_everyChecker_saysWhatIsBroken(t *testing.T) {
	for _, r := range judge.All(&history.History{}, expect()) {
		if r.ID == "unfenced-register" { // counts, and never fails
			continue
		}
		r.Promised, r.Verdict = true, check.Illegal
		if v := judgement([]check.Result{r}); len(v.Lines) != 1 || v.Lines[0] == "" {
			t.Errorf("%s: the verdict says %q", r.ID, v.Lines)
		}
	}
}

func TestNemeses_each_inAFewWords(t *testing.T) {
	for _, name := range history.Nemeses() {
		if nemeses[name] == "" {
			t.Errorf("no words for %s", name)
		}
	}
	if len(nemeses) != len(history.Nemeses()) {
		t.Errorf("words for %d nemeses, and there are %d", len(nemeses), len(history.Nemeses()))
	}
}
