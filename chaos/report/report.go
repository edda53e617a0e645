// SPDX-License-Identifier: Apache-2.0

// Package report writes one HTML file about a chaos run, for a reader who does not know the code. Write is the entry point.
//
// The file needs no network, no other file and no scripts. It stays under about 3 MB for a history of any size: if there are too many
// operations to draw, it draws a summary of all. The timeline shows every overlap that the checkers found; overlaps that are close together
// are drawn as one.
package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/internal/page"
)

//go:embed page.html
var pageHTML string

var pageTemplate = page.Template(pageHTML)

// sheet is the data of the template. Every text in it is ready to be shown.
type sheet struct {
	Style  template.CSS
	Script template.JS

	Title    string
	Verdict  page.Verdict
	Intro    string
	Facts    []page.Fact
	Replay   string
	Checks   []checked
	Overlaps []closeup
	More     []string // overlaps without a picture, one line each
	Rest     int      // overlaps without even that
	Unmarked int      // overlaps that are counted only
	Figures  []page.Figure
	Numbers  []page.Fact
	Faults   []faultRow
	Outcomes []outcomeRow
	Torn     []string
}

// Told is what a page says first when it is not about a run that is to be judged, but about an experiment that is to show something.
type Told struct {
	Shown bool // it did
	Title string
	Head  string
	Lines []string
	Intro string // what was done
}

// Write writes the report on the history of src and on what the checkers found in it. It reads the history once, in chapters. On an error from w
// the file is incomplete. A nil told is for the usual run, whose checkers have the first word.
func Write(w io.Writer, src history.Source, rs []check.Result, told *Told) error {
	return write(w, src, rs, told, judge.ChapterOps)
}

func write(w io.Writer, src history.Source, rs []check.Result, told *Told, size int) error {
	h := src.Run()
	s := newStory(h, rs)
	if err := s.tell(src, size); err != nil {
		return err
	}
	p := sheet{
		Style: page.Style(), Script: page.Script(),
		Title: title(h), Verdict: judgement(rs), Intro: usualIntro, Facts: s.facts(), Replay: h.Header.Replay, Checks: checks(rs, s.run.From),
		Figures: s.figures(), Numbers: numbers(rs), Faults: faultTable(h, digest.Costs(s.digest.History())), Outcomes: s.outcomeTable(), Torn: h.Torn,
		Overlaps: s.closeups.big, More: s.closeups.lines, Rest: s.closeups.rest, Unmarked: s.more,
	}
	if told != nil {
		p.Title, p.Intro, p.Verdict = told.Title, told.Intro, page.Verdict{Class: "illegal", Head: told.Head, Lines: told.Lines}
		if told.Shown {
			p.Verdict.Class = "ok"
		}
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (s *story) figures() []page.Figure {
	var figs []page.Figure
	timeline, whole := s.timeline(s.run, "timeline")
	timeline.Title, timeline.How = "Who held which lock", howHolds+howFaults
	if !whole {
		timeline.How = howShares + howFaults
	}
	figs = append(figs, timeline)
	if !whole {
		near := s.typical()
		detail, _ := s.timeline(near, "near")
		detail.Title = fmt.Sprintf("A closer look: %s of it", page.Span(time.Duration(near.To-near.From)))
		detail.How = howNear
		figs = append(figs, detail)
	}
	if votes := s.votes(); len(votes.Rows) > 0 {
		figs = append(figs, votes)
	}
	return figs
}

// extent is the time from the first to the last thing that happened, looks at the masters' votes included.
func extent(h *history.History) (w page.Window) {
	w.From, w.To = h.Extent()
	for _, v := range h.Votes {
		w.From, w.To = min(w.From, v.Call), max(w.To, v.Call)
		if v.Return != history.Never {
			w.To = max(w.To, v.Return)
		}
	}
	if w.From == history.Never {
		w.From = 0
	}
	w.To = max(w.To, w.From+1)
	return w
}

func (s *story) facts() []page.Fact {
	hd := s.h.Header
	fs := []page.Fact{
		{Name: "Length", Value: page.Span(time.Duration(s.run.To - s.run.From))},
		{Name: "Masters", Value: fmt.Sprintf("%d (%s)", hd.Masters, hd.Driver)},
		{Name: "Locks", Value: page.Count(len(s.locks))},
		{Name: "Clients’ threads", Value: page.Count(len(s.clients))},
		{Name: "Operations", Value: page.Count(s.ops)},
		{Name: "Locks granted", Value: page.Count(s.grants)},
		{Name: "Lease (TTL)", Value: page.Span(hd.TTL)},
		{Name: "Faults applied", Value: page.Count(applied(s.h.Faults))},
		{Name: "Promised", Value: promised(hd.Promises)},
	}
	if hd.Seed != 0 {
		fs = append(fs, page.Fact{Name: "Seed", Value: fmt.Sprint(hd.Seed)})
	}
	if !hd.Started.IsZero() {
		fs = append(fs, page.Fact{Name: "Started", Value: hd.Started.UTC().Format("2006-01-02 15:04 UTC")})
	}
	names := make([]string, 0, len(hd.Versions))
	for name := range hd.Versions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fs = append(fs, page.Fact{Name: name, Value: hd.Versions[name]})
	}
	return fs
}

func promised(p history.Promises) string {
	switch {
	case p.Exclusion && p.Tokens:
		return "one holder, tokens"
	case p.Exclusion:
		return "one holder"
	case p.Tokens:
		return "tokens"
	}
	return "nothing"
}

func applied(fs []history.Fault) int {
	n := 0
	for _, f := range fs {
		if f.Error == "" {
			n++
		}
	}
	return n
}

func numbers(rs []check.Result) []page.Fact {
	var fs []page.Fact
	for _, r := range rs {
		for _, f := range r.Figures {
			fs = append(fs, page.Fact{Name: f.Name, Value: page.Number(f.Value)})
		}
	}
	return fs
}

// checked is one row of the table of verdicts.
type checked struct {
	ID, Question, Answer, Class, Word string
	Found                             []string
	More                              int
}

// foundMax is how many violations of one checker are written out.
const foundMax = 12

func checks(rs []check.Result, zero int64) []checked {
	var cs []checked
	for _, r := range rs {
		c := checked{ID: r.ID, Question: r.Question, Answer: r.Summary, Class: string(r.Verdict), Word: verdictWord(r)}
		if r.ID == "exclusion" && len(r.Violations) > 0 {
			// In the words of the pictures: the checker's own are the holders' ids.
			c.Answer = fmt.Sprintf("Yes, %s found; the first: %s.", page.Count(len(r.Violations)+r.More), both(r.Violations[0]))
		}
		if !r.Promised {
			c.Class += " unpromised"
		}
		for _, v := range r.Violations[:min(foundMax, len(r.Violations))] {
			text := v.Text
			if r.ID == "exclusion" {
				text = both(v)
			}
			if v.From > 0 {
				text = fmt.Sprintf("at %s: %s", page.Seconds(v.From-zero), text)
			}
			c.Found = append(c.Found, text)
		}
		c.More = len(r.Violations) + r.More - len(c.Found)
		cs = append(cs, c)
	}
	return cs
}

// both says which two grants overlap, and for how long.
func both(v check.Violation) string {
	return fmt.Sprintf("%s and %s both held %s, for %s", v.Ops[0].Client, v.Ops[1].Client, v.Ops[0].Lock, page.Span(time.Duration(v.To-v.From)))
}

// faultRow is what one nemesis did, and what it cost.
type faultRow struct{ Name, What, Applied, Refused, Time, Granted, Back, Worst, Masters, Detail string }

func faultTable(h *history.History, costs map[string]*digest.Cost) []faultRow {
	type sum struct {
		applied, refused int
		details          []string
	}
	sums := map[string]*sum{}
	for _, f := range h.Faults {
		s := sums[f.Nemesis]
		if s == nil {
			s = &sum{}
			sums[f.Nemesis] = s
		}
		if f.Error != "" {
			s.refused++
			continue
		}
		s.applied++
		if f.Detail != "" && !slices.Contains(s.details, f.Detail) {
			s.details = append(s.details, f.Detail)
		}
	}
	var rows []faultRow
	for _, name := range nemesisOrder(sums) {
		s := sums[name]
		detail := strings.Join(s.details[:min(4, len(s.details))], "; ")
		if len(s.details) > 4 {
			detail += "; …"
		}
		row := faultRow{Name: name, What: nemeses[name], Applied: page.Count(s.applied), Refused: page.Count(s.refused), Time: "–", Granted: "–", Back: "–", Worst: "–", Masters: "–", Detail: detail}
		if c := costs[name]; c != nil {
			row.Time, row.Granted = page.Span(c.Lasted), fmt.Sprintf("%.0f %%", 100*c.Availability())
			if len(c.Back) > 0 {
				row.Back, row.Worst = page.Span(c.Median()), page.Span(c.Longest())
			}
			if c.Masters > 0 {
				row.Masters = page.Span(c.Masters)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// outcomeRow counts how operations of one kind ended in one way.
type outcomeRow struct{ Kind, Outcome, Count, Share string }

// outcomeMax bounds the table: error classes are few, unless a workload puts addresses into them.
const outcomeMax = 60

func (s *story) outcomeTable() []outcomeRow {
	n, total := s.endings, map[history.Kind]int{}
	keys := make([]ending, 0, len(n))
	for k := range n {
		keys = append(keys, k)
		total[k.kind] += n[k]
	}
	slices.SortFunc(keys, func(a, b ending) int {
		return cmp.Or(cmp.Compare(total[b.kind], total[a.kind]), cmp.Compare(a.kind, b.kind), cmp.Compare(n[b], n[a]), cmp.Compare(a.ended, b.ended))
	})
	var rows []outcomeRow
	for _, k := range keys[:min(len(keys), outcomeMax)] {
		rows = append(rows, outcomeRow{string(k.kind), k.ended, page.Count(n[k]), fmt.Sprintf("%.1f %%", 100*float64(n[k])/float64(total[k.kind]))})
	}
	return rows
}

// ended says how an operation ended, in few words.
func ended(op history.Op) string {
	switch {
	case op.Outcome == history.OK && op.Kind == history.KindLock:
		return "granted"
	case op.Outcome == history.OK:
		return "done"
	case op.Outcome == history.Unknown && op.Return == history.Never:
		return "no answer: the client was killed"
	case op.Outcome == history.Unknown:
		return strings.TrimSuffix("unknown: "+op.Error, ": ")
	}
	return cmp.Or(op.Error, "refused")
}
