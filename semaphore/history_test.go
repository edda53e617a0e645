// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// claim is the time for which somebody believed to hold a permit.
type claim struct {
	who      string
	slot     int
	token    int64
	from, to time.Time
}

// history is the claims of a run.
type history struct {
	mu     sync.Mutex
	claims []claim
}

func (h *history) add(c claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims = append(h.claims, c)
}

// check returns what is wrong: more than k claims at once, a slot beyond k, two claims of one slot at once,
// or a token that is not larger than the one before in its slot. A claim that begins when another ends
// is not at once with it.
func (h *history) check(k int) error {
	claims := slices.Clone(h.claims)
	slices.SortStableFunc(claims, func(a, b claim) int { return a.from.Compare(b.from) })
	tokens := make([]int64, k+1)
	var held []claim
	for _, c := range claims {
		if c.slot < 1 || c.slot > k {
			return fmt.Errorf("%v: slot %d of %d", c, c.slot, k)
		}
		if !c.to.After(c.from) {
			continue // nobody ever had it
		}
		held = append(slices.DeleteFunc(held, func(o claim) bool { return !o.to.After(c.from) }), c)
		if len(held) > k {
			return fmt.Errorf("%d permits of %d at once:\n%s", len(held), k, list(held))
		}
		if i := slices.IndexFunc(held, func(o claim) bool { return o.slot == c.slot }); i < len(held)-1 {
			return fmt.Errorf("slot %d twice at once:\n%s", c.slot, list([]claim{held[i], c}))
		}
		if c.token <= tokens[c.slot] {
			return fmt.Errorf("%v: token %d after %d", c, c.token, tokens[c.slot])
		}
		tokens[c.slot] = c.token
	}
	return nil
}

func (c claim) String() string {
	return fmt.Sprintf("%s has slot %d with token %d from %v to %v", c.who, c.slot, c.token, c.from.Format("05.000000"), c.to.Format("05.000000"))
}

func list(claims []claim) string {
	slices.SortFunc(claims, func(a, b claim) int { return cmp.Compare(a.slot, b.slot) })
	var lines []string
	for _, c := range claims {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

// The checker finds what is wrong, and nothing else.
func TestHistory_badOnes_refused(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	one, two := claim{"a", 1, 1, at(0), at(10)}, claim{"b", 2, 1, at(5), at(15)}
	for name, c := range map[string]struct {
		third claim
		wrong string
	}{
		"three at once":         {claim{"c", 3, 1, at(9), at(20)}, "slot 3 of 2"},
		"one slot twice":        {claim{"c", 1, 2, at(9), at(20)}, "3 permits of 2"},
		"one slot twice, of 2":  {claim{"c", 2, 2, at(12), at(20)}, "slot 2 twice"},
		"an old token":          {claim{"c", 1, 1, at(10), at(20)}, "token 1 after 1"},
		"within another":        {claim{"c", 1, 2, at(6), at(7)}, "3 permits of 2"},
		"slot 0":                {claim{"c", 0, 2, at(30), at(40)}, "slot 0 of 2"},
		"one after the other":   {claim{"c", 1, 2, at(10), at(20)}, ""},
		"it ended as it began":  {claim{"c", 1, 2, at(6), at(6)}, ""},
		"it began before all":   {claim{"c", 2, 0, at(-9), at(-1)}, "token 0 after 0"},
		"both slots once more":  {claim{"c", 2, 2, at(15), at(20)}, ""},
		"a token much too high": {claim{"c", 1, 1 << 52, at(15), at(20)}, ""},
	} {
		err := (&history{claims: []claim{c.third, one, two}}).check(2)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
	bad := &history{claims: []claim{one, two, {"c", 3, 1, at(9), at(20)}}}
	if err := bad.check(3); err != nil {
		t.Error(err)
	}
}
