// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/check/digest"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/internal/page"
)

// story is a history prepared for drawing. It is given the history in chapters, and keeps what the pictures need: sums for each column, and
// the holds that are drawn one by one. Its size depends on the number of locks, and hardly on the length of the run.
type story struct {
	h        *history.History // Header, Faults, Votes and Torn of the run
	run      page.Window
	overlaps []check.Violation // found by the checker exclusion
	more     int               // overlaps that are not among them
	colours  page.Colours

	ops, grants int
	clients     map[string]bool
	locks       map[string]*holding
	near        nearby
	digest      *digest.Digest
	endings     map[ending]int
	closeups    closeups
}

// holding is what is known of the holds of one lock.
type holding struct {
	n     int           // holds in the run
	first []check.Claim // the first of them; all if there are few enough to be drawn
	share []float64     // for each column, for how much of it the lock was held
	end   int64         // what is held up to here is in share
}

// ending is a kind of operation and a way in which it ended.
type ending struct {
	kind  history.Kind
	ended string
}

func newStory(run *history.History, rs []check.Result) *story {
	s := &story{
		h: run, run: extent(run), colours: page.Colours{}, digest: digest.New(run), clients: map[string]bool{}, locks: map[string]*holding{},
		endings: map[ending]int{},
	}
	for _, r := range rs {
		if r.ID == "exclusion" {
			s.overlaps, s.more = r.Violations, r.More
		}
	}
	s.near.middle = s.run.From + (s.run.To-s.run.From)/2
	for _, f := range run.Faults {
		if f.Error == "" {
			s.near.middle = f.Start
			break
		}
	}
	return s
}

// tell reads the whole history. Chapters have about size operations.
func (s *story) tell(src history.Source, size int) error {
	for h, err := range judge.Chapters(src, size) {
		if err != nil {
			return err
		}
		s.add(h)
	}
	s.drawCloseups(chapter{})
	return nil
}

// mostEnds bounds how many ways of ending are counted apart: error classes are few, unless a workload puts addresses into them.
const mostEnds = 1000

func (s *story) add(h *history.History) {
	s.digest.Add(h)
	own := h.Own()
	for _, op := range own {
		s.ops++
		s.clients[op.Client] = true
		e := ending{op.Kind, ended(op)}
		if s.endings[e] == 0 && len(s.endings) >= mostEnds {
			e.ended = "other"
		}
		s.endings[e]++
		if op.Kind == history.KindLock && op.Outcome == history.OK {
			s.grants++
			if s.locks[op.Lock] == nil {
				s.locks[op.Lock] = &holding{share: make([]float64, page.Columns), end: math.MinInt64}
			}
		}
	}
	claims := ownClaims(h)
	for _, c := range claims {
		if s.run.Shows(c.From, c.To) {
			s.locks[c.Grant.Lock].add(s.run, c)
		}
		s.near.add(c)
	}
	s.drawCloseups(chapter{own: h, ops: own, claims: claims})
}

// ownClaims returns the claims that begin in a chapter, in order. They do not keep the chapter in memory.
func ownClaims(h *history.History) (own []check.Claim) {
	for _, cs := range check.Claims(h) {
		for _, c := range cs {
			if h.Owns(c.From) {
				grant := *c.Grant
				c.Grant = &grant
				own = append(own, c)
			}
		}
	}
	slices.SortFunc(own, func(a, b check.Claim) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Grant.Call, b.Grant.Call), cmp.Compare(a.Grant.Lock, b.Grant.Lock), cmp.Compare(a.Grant.Holder, b.Grant.Holder))
	})
	return own
}

func (l *holding) add(w page.Window, c check.Claim) {
	l.n++
	if l.n <= laneBars+1 {
		l.first = append(l.first, c)
	}
	l.end = addShare(l.share, w, c, max(l.end, w.From))
}

// nearby has the holds around one instant of the run, of which a short part is drawn hold by hold.
type nearby struct {
	middle   int64
	claims   []check.Claim // in the order of From
	from, to int64         // all holds in this time are in claims; 0: no limit
	after    int           // how many begin at middle or later
}

// nearMax is how many holds before the middle are kept, and how many after it: many more than are drawn.
const nearMax = 20_000

func (n *nearby) add(c check.Claim) {
	if c.From >= n.middle {
		if n.after == nearMax {
			if n.to == 0 {
				n.to = c.From
			}
			return
		}
		n.after++
	}
	n.claims = append(n.claims, c)
	if c.From < n.middle && len(n.claims) > 2*nearMax {
		for _, c := range n.claims[:nearMax] {
			n.from = max(n.from, c.To)
		}
		n.claims = slices.Delete(n.claims, 0, nearMax)
	}
}

// has reports whether all holds in the window are kept.
func (n *nearby) has(w page.Window) bool { return w.From >= n.from && (n.to == 0 || w.To <= n.to) }

// visible returns the kept holds of a lock in the window.
func (n *nearby) visible(w page.Window, lock string) []check.Claim { return visible(n.claims, w, lock) }

func visible(claims []check.Claim, w page.Window, lock string) (cs []check.Claim) {
	for _, c := range claims {
		if c.Grant.Lock == lock && w.Shows(c.From, c.To) {
			cs = append(cs, c)
		}
	}
	return cs
}
