// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redlock-go/redlock/internal/stall"
)

// results are what a run of the gate has seen. Several commands may add to them at once.
type results struct {
	out   io.Writer
	log   io.Writer // gets all that is said as well, if there is one
	began time.Time

	mu      sync.Mutex
	stages  []*tally // in the order in which they began
	texts   map[string]*strings.Builder
	skipped map[string]int    // tests by why they were skipped
	red     map[string]string // what the failed tests said, by name
	heldUp  []heldUp          // what is not judged yet
}

// tally is what one stage has seen. Subtests are not counted but as seeds.
type tally struct {
	name                                  string
	began, ended                          time.Time
	cpu                                   time.Duration // of the commands that have ended, with all that they started and waited for
	passed, failed, skipped, seeds, again int
	packages                              map[string]*tally // of a package, while it runs
	why                                   string            // the last test that was skipped was skipped
}

func newResults(out io.Writer) *results {
	return &results{out: out, began: time.Now(), texts: map[string]*strings.Builder{}, skipped: map[string]int{}, red: map[string]string{}}
}

func (r *results) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// begin opens a stage.
func (r *results) begin(stage string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "\n=== %s (%s)\n", stage, brief(time.Since(r.began)))
	r.stage(stage)
}

func (r *results) stage(name string) *tally {
	for _, s := range r.stages {
		if s.name == name {
			return s
		}
	}
	s := &tally{name: name, began: time.Now(), packages: map[string]*tally{}}
	r.stages = append(r.stages, s)
	return s
}

// add notes one event.
func (r *results) add(stage string, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stage(stage)
	s.ended = time.Now()
	key := stage + " " + e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if r.log != nil {
			_, _ = io.WriteString(r.log, e.Output)
		}
		if r.texts[key] == nil {
			r.texts[key] = &strings.Builder{}
		}
		r.texts[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		r.ended(s, e, key)
	}
}

// ended counts a test, or a package, that has ended.
func (r *results) ended(s *tally, e event, key string) {
	text := ""
	if b := r.texts[key]; b != nil {
		text = b.String()
	}
	delete(r.texts, key)
	p := s.packages[e.Package]
	if p == nil {
		p = &tally{}
		s.packages[e.Package] = p
	}
	switch {
	case e.Test == "":
		r.packageEnded(s, p, e, text)
	case e.Action == "fail":
		fmt.Fprintf(r.out, "%s", text)
		r.red[short(e.Package)+" "+e.Test] = text
	case e.Action == "skip" && strings.Contains(text, stall.AloneText):
		fmt.Fprintf(r.out, "%s", text)
		r.notJudged(s.name, e.Package, e.Test)
	case e.Action == "pass" && s.name == aloneStage:
		r.judged(e.Package, e.Test)
	}
	both := func(f func(*tally)) { f(s); f(p) }
	if e.Action == "pass" && strings.Contains(lastPart(e.Test), "seed=") {
		both(func(t *tally) { t.seeds++ })
	}
	if strings.Contains(text, "it runs again:") {
		both(func(t *tally) { t.again++ })
		fmt.Fprintf(r.out, "held up and tried again: %s %s\n", short(e.Package), e.Test)
		if e.Action == "pass" {
			fmt.Fprint(r.out, text) // what the first try said: a fault that comes beside load alone is one too
		}
	}
	if e.Test == "" || strings.Contains(e.Test, "/") {
		return
	}
	switch e.Action {
	case "pass":
		both(func(t *tally) { t.passed++ })
	case "fail":
		both(func(t *tally) { t.failed++ })
	case "skip":
		if !strings.Contains(text, stall.AloneText) { // that one is not left out, it comes again
			both(func(t *tally) { t.skipped++ })
			s.why = whySkipped(text)
			r.skipped[s.why]++
		}
	}
}

// packageEnded prints a line for a package, which may run again in the stage on another server. A package that fails without a failed test did not build, or broke off.
func (r *results) packageEnded(s, p *tally, e event, text string) {
	delete(s.packages, e.Package)
	unended := 0
	for key, b := range r.texts { // of tests that had not ended: the program broke off
		if strings.HasPrefix(key, s.name+" "+e.Package+" ") {
			if e.Action == "fail" {
				unended++
				fmt.Fprint(r.out, b.String())
			}
			delete(r.texts, key)
		}
	}
	if e.Action == "fail" && (p.failed == 0 || unended > 0) {
		s.failed++
		fmt.Fprint(r.out, text)
		r.red[short(e.Package)] = text
	}
	if e.Action == "skip" && p.passed == 0 {
		return // no test files
	}
	word := "ok  "
	if e.Action == "fail" {
		word = "FAIL"
	}
	fmt.Fprintf(r.out, "%s %-36s %6.1fs  %4d passed", word, short(e.Package), e.Elapsed, p.passed)
	for _, n := range []struct {
		n    int
		what string
	}{{p.failed, "failed"}, {p.skipped, "skipped"}, {p.seeds, "seeds"}} {
		if n.n > 0 {
			fmt.Fprintf(r.out, ", %d %s", n.n, n.what)
		}
	}
	fmt.Fprintln(r.out)
}

// whySkipped is the reason in what a skipped test printed.
func whySkipped(text string) string {
	for line := range strings.Lines(text) {
		if _, why, ok := strings.Cut(line, ".go:"); ok {
			if _, why, ok = strings.Cut(why, ": "); ok {
				return strings.TrimSpace(why)
			}
		}
	}
	return "without a reason"
}

func (r *results) failed(stage string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stage(stage).failed > 0
}

// verdicts returns how many tests of a stage have passed or failed, and why there may be none.
func (r *results) verdicts(stage string) (n int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stage(stage)
	return s.passed + s.failed, cmp.Or(s.why, "no test ran")
}

// used notes the processor time of a command of stage that has ended.
func (r *results) used(stage string, cpu time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stage(stage).cpu += cpu
}

// reds returns the names of the failed tests and of those that are not judged, sorted. A test with subtests that failed is not named beside them.
func (r *results) reds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.Collect(maps.Keys(r.red))
	for _, h := range r.heldUp {
		if !r.failedToo(&h) {
			names = append(names, h.name())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(n string) bool {
		return slices.ContainsFunc(names, func(o string) bool { return strings.HasPrefix(o, n+"/") })
	})
}

// forget drops the failed tests, so that the next one is new.
func (r *results) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.red)
}

// print writes the table of what was judged, and reports whether all was green.
func (r *results) print(title string) bool {
	reds := r.reds()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all tally
	fmt.Fprintln(r.out)
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, took time.Duration, t *tally) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", name, brief(took), brief(t.cpu), t.passed, t.failed, t.skipped, t.seeds, t.again)
	}
	fmt.Fprintln(w, "stage\ttime\tcpu\tpassed\tfailed\tskipped\tseeds\ttried again\t")
	for _, s := range r.stages {
		row(s.name, s.ended.Sub(s.began), s)
		all.passed, all.failed, all.skipped = all.passed+s.passed, all.failed+s.failed, all.skipped+s.skipped
		all.seeds, all.again, all.cpu = all.seeds+s.seeds, all.again+s.again, all.cpu+s.cpu
	}
	row("all", time.Since(r.began), &all)
	_ = w.Flush()
	if len(r.skipped) > 0 {
		fmt.Fprintln(r.out, "\nleft out:")
		whys := slices.SortedFunc(maps.Keys(r.skipped), func(a, b string) int {
			return cmp.Or(cmp.Compare(r.skipped[b], r.skipped[a]), cmp.Compare(a, b))
		})
		for _, why := range whys {
			fmt.Fprintf(r.out, "%6d  %s\n", r.skipped[why], why)
		}
	}
	if len(reds) > 0 {
		fmt.Fprintln(r.out, "\nred:")
		for _, name := range reds {
			fmt.Fprintf(r.out, "        %s\n", name)
		}
	}
	verdict := "green"
	if all.failed > 0 || len(reds) > 0 || all.passed == 0 {
		verdict = "RED"
	}
	fmt.Fprintf(r.out, "\n%s: %s after %s on %d processors\n", title, verdict, brief(time.Since(r.began)), runtime.NumCPU())
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped)
	return verdict == "green"
}

// brief is a time as a table shows it.
func brief(d time.Duration) string {
	d = d.Round(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// short is a package as this repository calls it.
func short(pkg string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"), ".")
}

func lastPart(test string) string { return test[strings.LastIndex(test, "/")+1:] }

const module = "github.com/redlock-go/redlock"
