// SPDX-License-Identifier: Apache-2.0

// Package sheet writes one HTML page about what redlock-bench measured, in the style of the chaos report. Write is the entry point.
package sheet

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/cmd/redlock-bench/internal/results"
	"github.com/redlock-go/redlock/internal/page"
)

//go:embed sheet.html
var sheetHTML string

var sheetTemplate = page.Template(sheetHTML)

// sheet is the data of the template. Every text in it is ready to be shown.
type sheet struct {
	Style  template.CSS
	Script template.JS

	Title   string
	Verdict page.Verdict
	Intro   string
	Facts   []page.Fact
	Command string
	Parts   []part
	Words   []page.Fact

	length time.Duration // of the measurement of a cell
}

// part is a section: words, tables, pictures.
type part struct {
	Title, How string
	Tables     []table
	Figures    []page.Figure
}

// table is one whose first column is words, and the others numbers.
type table struct {
	Head []string
	Rows [][]string
}

// Write writes the page about a result. On an error from w the file is incomplete.
func Write(w io.Writer, r *results.Result) error {
	if err := sheetTemplate.Execute(w, newSheet(r)); err != nil {
		return fmt.Errorf("page of %s: %w", r.Command, err)
	}
	return nil
}

func newSheet(r *results.Result) *sheet {
	s := &sheet{Style: page.Style(), Script: page.Script(), Title: title(r), Facts: facts(r), length: time.Duration(r.Duration * float64(time.Second))}
	if r.Run != nil {
		s.Command = r.Run.Command
	}
	var pairs []*results.LatencyCell
	var crowds []*results.ContentionCell
	var phases []*results.PhaseCell
	for _, c := range r.Cells {
		switch c := c.(type) {
		case *results.LatencyCell:
			pairs = append(pairs, c)
		case *results.ContentionCell:
			crowds = append(crowds, c)
		case *results.PhaseCell:
			phases = append(phases, c)
		}
	}
	s.Verdict = page.Verdict{Class: "unknown", Head: "Nothing was measured"}
	if len(pairs) > 0 {
		s.latency(pairs)
	}
	if len(crowds) > 0 {
		s.contention(crowds)
	}
	if len(phases) > 0 {
		s.outage(phases, r.Outage)
	}
	if r.Interrupted {
		s.worse("unknown", "Interrupted: what was measured up to then")
	}
	if r.Broke != "" {
		s.worse("unknown", "It broke off: what was measured up to then")
		s.say("It broke off: %s", r.Broke)
	}
	return s
}

// worse changes the verdict, unless it is one already that is not good.
func (s *sheet) worse(class, head string) {
	if s.Verdict.Class == "ok" {
		s.Verdict.Class, s.Verdict.Head = class, head
	}
}

// begin makes the verdict that of a measurement, which is worth as much as that of one before it on the same page.
func (s *sheet) begin(head string) {
	if s.Verdict.Class == "unknown" && len(s.Parts) == 0 {
		s.Verdict.Class, s.Verdict.Head = "ok", head
	}
}

func (s *sheet) say(format string, args ...any) {
	s.Verdict.Lines = append(s.Verdict.Lines, fmt.Sprintf(format, args...))
}

// failures are the calls of a measurement that failed, with the words of the first.
type failures struct {
	n     int
	first string
}

func (f *failures) add(n int, first error) {
	f.n += n
	if f.first == "" && first != nil {
		f.first = "; the first: " + first.Error()
	}
}

func (s *sheet) tell(f failures) {
	if f.n > 0 {
		s.say("%s%s", plural(f.n, "call")+" failed", f.first)
		s.worse("unknown", "Some calls failed")
	}
}

func (s *sheet) define(words ...string) {
	for i := 0; i < len(words); i += 2 {
		s.Words = append(s.Words, page.Fact{Name: words[i], Value: words[i+1]})
	}
}

var titles = map[string]string{
	"latency": "Taking and giving back a lock", "contention": "One lock that many want", "outage": "Masters that fail under load", "tour": "A short tour",
}

func title(r *results.Result) string {
	what := map[string]string{"embedded": "masters in memory", "nodes": "masters of yours"}[r.Backend]
	if what == "" {
		what = "throw-away redis-servers"
	}
	return fmt.Sprintf("%s: %d %s", titles[r.Command], r.Masters, what)
}

func facts(r *results.Result) []page.Fact {
	fs := []page.Fact{
		{Name: "Masters", Value: strconv.Itoa(r.Masters)},
		{Name: "Lease (TTL)", Value: page.Span(time.Duration(r.TTL) * time.Millisecond)},
		{Name: "Time for each figure", Value: seconds(r.Duration)},
	}
	if r.Hurt != "" {
		fs = append(fs, page.Fact{Name: "One master is", Value: map[string]string{"stop": "stopped", "kill": "killed"}[r.Hurt]})
	}
	if run := r.Run; run != nil {
		fs = append(fs, page.Fact{Name: "Measured", Value: run.At.UTC().Format("2006-01-02 15:04 UTC")}, page.Fact{Name: "Servers", Value: run.Masters},
			page.Fact{Name: "Machine", Value: run.Machine}, page.Fact{Name: "Go", Value: run.Go})
		if run.Build != "" {
			fs = append(fs, page.Fact{Name: "Build", Value: run.Build})
		}
	}
	return fs
}

// micros writes a time that is given in microseconds.
func micros(us float64) string { return page.Span(time.Duration(us * float64(time.Microsecond))) }

func seconds(s float64) string { return page.Span(time.Duration(s * float64(time.Second))) }

// rate writes how many a second: whole, or with three digits if they are few.
func rate(perSecond float64) string {
	if perSecond < 100 {
		return strconv.FormatFloat(perSecond, 'g', 3, 64)
	}
	return page.Count(int(perSecond + 0.5))
}

func optional(x *float64) string {
	if x == nil {
		return "–"
	}
	return micros(*x)
}

func fixed(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

// plural is "1 caller" or "5 callers".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return page.Count(n) + " " + what + "s"
}
