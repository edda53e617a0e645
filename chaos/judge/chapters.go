// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"iter"
	"slices"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
)

// ChapterOps is about how many operations a chapter has. A chapter and what checkers make of it take some 100 MB.
const ChapterOps = 50_000

// mostOps is how many operations a chapter may have while it waits for a claim to end.
const mostOps = 8 * ChapterOps

// Chapters cuts the history of src into chapters of about size operations (history.Part). To judge them one after the other finds what
// judging the whole history finds.
//
// A chapter ends before the first claim whose end is not known yet. So every claim that begins in a chapter is there to its end, and with it
// every claim that it overlaps. If a claim does not end for a long time, the chapter is cut all the same (its To is its Known): the claim
// then seems to last until its deadline, and a later chapter, which has it too, may know of an extension.
//
// The next chapter begins with the operations on every grant that may still be claimed. A grant without an unlock may always be extended late,
// so it is carried until the end of the run. Few grants have no unlock: only those of clients that were killed.
func Chapters(src history.Source, size int) iter.Seq2[*history.History, error] {
	return chapters(src, size, mostOps)
}

func chapters(src history.Source, size, most int) iter.Seq2[*history.History, error] {
	return func(yield func(*history.History, error) bool) {
		var kept history.History // what the next chapter begins with
		from := int64(history.Beginning)
		for h, err := range src.Batches(size) {
			if err != nil {
				yield(nil, err)
				return
			}
			h.Ops, h.Keys, h.Counters = slices.Concat(kept.Ops, h.Ops), slices.Concat(kept.Keys, h.Keys), slices.Concat(kept.Counters, h.Counters)
			to := frontier(h)
			if to < h.Part.Known && len(h.Ops) > most {
				to = h.Part.Known
			}
			h.Part.From, h.Part.To = from, to
			kept = keep(h)
			if to > from && !yield(h, nil) {
				return
			}
			from = max(from, to)
		}
	}
}

// frontier returns the time before which every claim that begins is known to its end.
func frontier(h *history.History) int64 {
	to := h.Part.Known
	if to == history.Never {
		return to
	}
	for _, l := range check.Lives(h) {
		for _, c := range l.Claims() {
			if c.To >= h.Part.Known {
				to = min(to, c.From)
			}
		}
	}
	return to
}

// keep returns what the next chapter needs, and takes the keys and counters that belong to the next chapter out of h.
func keep(h *history.History) (next history.History) {
	to := h.Part.To
	if to == history.Never {
		return next
	}
	open := map[check.GrantID]bool{}
	for _, l := range check.Lives(h) {
		// An unlock may come long after the claim has ended, and then shows that its holder was not told.
		if l.Unlock == nil || l.Settled() >= to || l.Unlock.Call >= to {
			open[check.GrantID{Lock: l.Grant.Lock, Holder: l.Grant.Holder}] = true
		}
	}
	for _, op := range h.Ops {
		if op.Call >= to || op.Holder != "" && open[check.GrantID{Lock: op.Lock, Holder: op.Holder}] {
			next.Ops = append(next.Ops, op)
		}
	}
	next.Keys = slices.DeleteFunc(slices.Clone(h.Keys), func(k history.Key) bool { return k.At < to })
	next.Counters = slices.DeleteFunc(slices.Clone(h.Counters), func(c history.Counter) bool { return c.Call < to })
	h.Keys = slices.DeleteFunc(h.Keys, func(k history.Key) bool { return k.At >= to })
	h.Counters = slices.DeleteFunc(h.Counters, func(c history.Counter) bool { return c.Call >= to })
	return next
}
