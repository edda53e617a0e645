// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/chaos/check"
	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/chaos/history/historytest"
	"github.com/redlock-go/redlock/chaos/judge"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/page"
)

// How a history is cut into chapters does not show in the report.
func TestWrite_inChapters_asWhole(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	for _, overlaps := range []int{0, 1, 12} {
		h := historytest.Generate(3, historytest.Small())
		spoil(h, overlaps)
		rs := judge.All(h, expect())
		var whole bytes.Buffer
		if err := write(&whole, history.Whole(h), rs, nil, len(h.Ops)+1); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{700, 3000, 9000} {
			var cut bytes.Buffer
			if err := write(&cut, history.Whole(h), rs, nil, size); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(cut.Bytes(), whole.Bytes()) {
				a, b := bytes.Split(whole.Bytes(), []byte("\n")), bytes.Split(cut.Bytes(), []byte("\n"))
				for i := range min(len(a), len(b)) {
					if !bytes.Equal(a[i], b[i]) {
						t.Errorf("%d overlaps, chapters of %d: line %d is\n%.600s\nand not\n%.600s", overlaps, size, i+1, b[i], a[i])
						break
					}
				}
			}
		}
	}
}

// Only the holds around the middle are kept, and it is known which.
func TestNearby_manyHolds_someKept(t *testing.T) {
	n := nearby{middle: 3 * nearMax}
	for i := range int64(6 * nearMax) {
		n.add(check.Claim{Grant: &history.Op{Lock: "L"}, From: i, To: i + 1})
	}
	for w, want := range map[page.Window]bool{
		{From: n.middle - 10, To: n.middle + 10}:           true,
		{From: n.middle - nearMax/2, To: n.middle + 1}:     true,
		{From: 0, To: n.middle}:                            false,
		{From: n.middle, To: n.middle + nearMax + 1}:       false,
		{From: n.middle - 3*nearMax, To: n.middle}:         false,
		{From: n.middle - 1, To: n.middle + 3*nearMax - 1}: false,
	} {
		if got := n.has(w); got != want {
			t.Errorf("from %d to %d: %v", w.From-n.middle, w.To-n.middle, got)
		}
		if got := int64(len(n.visible(w, "L"))); want && got != w.To-w.From {
			t.Errorf("from %d to %d: %d holds", w.From-n.middle, w.To-n.middle, got)
		}
	}
	if len(n.claims) > 3*nearMax {
		t.Errorf("%d holds are kept", len(n.claims))
	}
}

// Readers hold a lock together: each instant counts once, also across chapters.
func TestStory_shares_asOfAllHolds(t *testing.T) {
	h := historytest.Generate(3, historytest.Small())
	s := newStory(history.Whole(h).Run(), nil)
	if err := s.tell(history.Whole(h), 1000); err != nil {
		t.Fatal(err)
	}
	for lock, claims := range check.Claims(h) {
		if l := s.locks[lock]; l.n != len(claims) || !slices.Equal(l.share, heldShare(s.run, claims)) {
			t.Errorf("%s: %d holds, want %d, or their shares differ", lock, l.n, len(claims))
		}
	}
}
