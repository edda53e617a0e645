// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/page"
)

const (
	closeupsMax = 8   // overlaps with a picture
	moreMax     = 200 // overlaps with a line of text
	closeRows   = 8   // claims in a picture
	closeOps    = 24  // operations listed under it
)

// closeup is one overlap, large.
type closeup struct {
	Title, Text string
	Figure      page.Figure
	Ops         []opRow
	More        int
}

// opRow is one operation, with times counted from the beginning of the overlap.
type opRow struct{ Call, Return, Client, What, Outcome, Detail, Colour, Class string }

// closeups has the first overlaps as pictures, more of them as lines, and the number of the rest.
type closeups struct {
	big   []closeup
	lines []string
	rest  int

	drawn    int                    // how many overlaps are among these
	shown    map[string]page.Window // lock -> time of its last picture
	chapters []chapter              // the last three
}

// chapter is what pictures of overlaps need of a chapter.
type chapter struct {
	own    *history.History
	ops    []history.Op
	claims []check.Claim
}

// drawCloseups draws the overlaps of the chapter before next. So what comes before and after an overlap is there. If next is empty the history
// is at its end, and it draws all that are left.
func (s *story) drawCloseups(next chapter) {
	if s.closeups.drawn == len(s.overlaps) {
		s.closeups.chapters = nil
		return
	}
	c := &s.closeups
	if next.own != nil {
		c.chapters = append(c.chapters, next)
	}
	c.chapters = c.chapters[max(0, len(c.chapters)-3):]
	for c.drawn < len(s.overlaps) {
		v := s.overlaps[c.drawn]
		if last := c.chapters[len(c.chapters)-1].own; next.own != nil && (last.Owns(v.From) || last.Part.To <= v.From) {
			return // when the next chapter is there
		}
		s.draw(v)
		c.drawn++
	}
}

// draw draws an overlap. An overlap that is inside a picture already does not get another one: when many clients hold one lock at once, one
// picture shows them all.
func (s *story) draw(v check.Violation) {
	c := &s.closeups
	w, ok := c.shown[v.Ops[0].Lock]
	switch {
	case len(c.big) < closeupsMax && (!ok || v.To > w.To):
		if c.shown == nil {
			c.shown = map[string]page.Window{}
		}
		c.shown[v.Ops[0].Lock] = s.around(v)
		c.big = append(c.big, s.closeup(len(c.big), v))
	case len(c.lines) < moreMax:
		c.lines = append(c.lines, fmt.Sprintf("at %s: %s and %s, %s, for %s", page.Seconds(v.From-s.run.From), v.Ops[0].Client, v.Ops[1].Client, v.Ops[0].Lock, page.Span(time.Duration(v.To-v.From))))
	default:
		c.rest++
	}
}

// visible returns the holds of a lock in the window, as far as the last chapters have them.
func (c *closeups) visible(w page.Window, lock string) (cs []check.Claim) {
	for _, part := range c.chapters {
		cs = append(cs, visible(part.claims, w, lock)...)
	}
	return cs
}

func (s *story) closeup(i int, v check.Violation) closeup {
	a, b := v.Ops[0], v.Ops[1]
	w := s.around(v)
	c := closeup{
		Title: fmt.Sprintf("%s, at %s", a.Lock, page.Seconds(v.From-s.run.From)),
		Text: fmt.Sprintf("%s had been granted %s%s%s and had neither released it nor reached its deadline when %s was granted it too%s%s. Both claimed it for %s.",
			a.Client, a.Lock, withToken(a), withVotes(a), b.Client, withToken(b), withVotes(b), page.Span(time.Duration(v.To-v.From))),
		Figure: s.figure(w, fmt.Sprintf("overlap%d", i)),
	}
	c.Figure.Ticks = w.Ticks(v.From, w.Unit())
	col := page.Colours{}
	c.Figure.Rows = claimRows(w, v, s.closeups.visible(w, a.Lock), col)
	c.Figure.Rows = append(c.Figure.Rows, s.nemesisRows(w)...)
	c.Figure.Legend = []page.Key{{Class: "overlapkey", Text: "more than one"}, {Class: "waitkey", Text: "call in flight"}, {Class: "holdkey", Text: "claims the lock (colour: client)"}}
	c.Ops, c.More = s.opRows(w, v, col)
	return c
}

func withToken(op history.Op) string {
	if op.Token == 0 {
		return ""
	}
	return fmt.Sprintf(" (token %d)", op.Token)
}

func withVotes(op history.Op) string {
	if op.Voters == "" {
		return ""
	}
	return " by the votes of " + op.Voters
}

// around is the overlap with three times its length on either side, but not much beyond the two claims.
func (s *story) around(v check.Violation) page.Window {
	first, last := min(v.Ops[0].Call, v.Ops[1].Call), v.To
	for _, c := range s.pair(v) {
		last = max(last, c.To)
	}
	margin := max(3*(v.To-v.From), int64(time.Microsecond))
	edge := (last - first) / 20
	return page.Window{From: max(v.From-margin, first-edge), To: min(v.To+margin, last+edge+1)}
}

// pair gives the claims of the two grants of an overlap that have to do with it.
func (s *story) pair(v check.Violation) []check.Claim {
	var cs []check.Claim
	for _, c := range s.closeups.visible(page.Window{From: v.From, To: v.To}, v.Ops[0].Lock) {
		if c.Grant.Holder == v.Ops[0].Holder || c.Grant.Holder == v.Ops[1].Holder {
			cs = append(cs, c)
		}
	}
	return cs
}

// claimRows gives one row a claim on the lock in the window, ordered by time. If there are too many, the two that overlap stay.
func claimRows(w page.Window, v check.Violation, claims []check.Claim, col page.Colours) []page.Row {
	ours := func(c check.Claim) int {
		if c.Grant.Holder == v.Ops[0].Holder || c.Grant.Holder == v.Ops[1].Holder {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(claims, func(a, b check.Claim) int { return ours(a) - ours(b) })
	claims = claims[:min(closeRows, len(claims))]
	slices.SortStableFunc(claims, func(a, b check.Claim) int { return cmp.Compare(a.From, b.From) })
	var rows []page.Row
	for _, c := range claims {
		g := c.Grant
		r := page.Row{Label: g.Client, Note: strings.Trim(withToken(*g), " ()"), Tall: laneTall}
		r.Bars = []page.Bar{
			w.Box(v.From, v.To, 0, laneTall, 3, [...]string{"overlap", "beside"}[ours(c)], "two holders at once"),
			w.Box(g.Call, g.Return, 11, 4, 1, "wait", fmt.Sprintf("%s asked for %s, %s long", g.Client, g.Lock, page.Span(time.Duration(g.Return-g.Call)))),
			w.Box(c.From, c.To, 7, laneTall-14, 1.5, col.Of(g.Client), claimTitle(c)),
		}
		rows = append(rows, r)
	}
	return rows
}

// opRows lists what was done with the lock in the window, and always the two grants.
func (s *story) opRows(w page.Window, v check.Violation, col page.Colours) ([]opRow, int) {
	ops := slices.Clone(v.Ops)
	more := 0
	for _, part := range s.closeups.chapters {
		for _, op := range part.ops {
			granted := op.Kind == history.KindLock && (op.Holder == v.Ops[0].Holder || op.Holder == v.Ops[1].Holder)
			switch {
			case op.Call < w.From || op.Call > w.To || op.Lock != v.Ops[0].Lock || granted:
			case len(ops) < closeOps:
				ops = append(ops, op)
			default:
				more++
			}
		}
	}
	slices.SortStableFunc(ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	rows := make([]opRow, len(ops))
	for i, op := range ops {
		rows[i] = opRow{
			Call: offset(op.Call - v.From), Return: "never", Client: op.Client, What: what(op), Outcome: ended(op), Detail: detail(op, v.From), Colour: col.Of(op.Client),
		}
		if op.Call < v.To && op.Return >= v.From {
			rows[i].Class = "in"
		}
		if op.Return != history.Never {
			rows[i].Return = offset(op.Return - v.From)
		}
	}
	return rows, more
}

// offset writes a time before or after the beginning of an overlap, in milliseconds.
func offset(ns int64) string {
	return page.Minus(fmt.Sprintf("%+.3f ms", float64(ns)/1e6))
}

func what(op history.Op) string {
	switch {
	case op.Kind == history.KindLock && op.Mode != history.Exclusive:
		return fmt.Sprintf("%s (%s)", op.Kind, op.Mode)
	case op.Kind == history.KindRead || op.Kind == history.KindWrite:
		if op.Fenced {
			return string(op.Kind) + ", fenced register"
		}
		return string(op.Kind) + ", unfenced register"
	}
	return string(op.Kind)
}

func detail(op history.Op, zero int64) string {
	var d []string
	if op.Token != 0 {
		d = append(d, fmt.Sprintf("token %d", op.Token))
	}
	if op.Kind == history.KindRead || op.Kind == history.KindWrite {
		d = append(d, fmt.Sprintf("value %d", op.Value))
	}
	if op.Deadline != 0 {
		d = append(d, "deadline "+offset(op.Deadline-zero))
	}
	return strings.Join(d, ", ")
}
