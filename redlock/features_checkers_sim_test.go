// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// claim is a turn as checkers get it.
type claim struct {
	span
	value string
	slot  int
	taken time.Time // when it was forced; zero: it was not
	told  time.Time // when who had it knew that it was over; zero: that is not judged
}

// run is one run of a job.
type run struct {
	called, began time.Time
	known         bool // a quorum of masters knew of it until the next began
}

// late is who was forced and not told before its TTL was over.
func late(claims []claim) (wrong []string) {
	for _, c := range claims {
		if took := c.told.Sub(c.taken); !c.taken.IsZero() && !c.told.IsZero() && took > longest+time.Second {
			wrong = append(wrong, fmt.Sprintf("%s was told %v after it was forced", c.who, took))
		}
	}
	return wrong
}

// leaders checks that at most one leads at a time, that terms grow, and that a leader that was forced is told.
func leaders(terms []claim) []string {
	spans := make([]span, len(terms))
	for i, t := range terms {
		spans[i] = t.span
	}
	_, wrong := overlaps(spans)
	return append(wrong, late(terms)...)
}

// sawLeaders checks that what observers saw of a term is what its leader announced, and that none saw an older term after a newer one.
func sawLeaders(sights []sight, terms []claim) (wrong []string) {
	newest := make(map[*process]int64)
	for _, s := range sights {
		if s.none {
			continue
		}
		if s.token < newest[s.observer] {
			wrong = append(wrong, fmt.Sprintf("an observer saw token %d after %d", s.token, newest[s.observer]))
		}
		newest[s.observer] = s.token
		for _, t := range terms {
			if t.token == s.token && t.value != s.value {
				wrong = append(wrong, fmt.Sprintf("an observer saw %q with token %d, which is that of %q", s.value, s.token, t.value))
			}
		}
	}
	return wrong
}

// permits checks that there are never more than k at once, one for each slot, and that the tokens of a slot grow.
func permits(all []claim, k int) (wrong []string) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b claim) int { return a.from.Compare(b.from) })
	slots := make([][]span, k+1)
	var held []claim
	for _, c := range all {
		if c.slot < 1 || c.slot > k {
			wrong = append(wrong, fmt.Sprintf("%s has slot %d of %d", c.who, c.slot, k))
			continue
		}
		slots[c.slot] = append(slots[c.slot], c.span)
		if held = append(slices.DeleteFunc(held, func(o claim) bool { return !o.until.After(c.from) }), c); len(held) > k {
			wrong = append(wrong, fmt.Sprintf("%d permits of %d at %v", len(held), k, c.from))
		}
	}
	for _, of := range slots {
		_, more := overlaps(of)
		wrong = append(wrong, more...)
	}
	return append(wrong, late(all)...)
}

const (
	// behind is by how much a call comes later than another that is in the queue by then.
	behind = 100 * time.Millisecond
	// mayPass is how many calls may pass one that waits: those that ask between one first waiter and the next.
	mayPass = 2
)

// passed are calls that waited for a permit while many that came later were served.
func passed(calls []*call) (wrong []string) {
	for _, c := range calls {
		n := 0
		for _, other := range calls {
			if c.waits && c.has && other.has && other.from.Sub(c.from) > behind && other.until.Before(c.until) {
				n++
			}
		}
		if n > mayPass {
			wrong = append(wrong, fmt.Sprintf("%d calls passed that of %v, which waited for %v", n, c.from, c.until.Sub(c.from)))
		}
	}
	return wrong
}

// periods checks that at least the period passes between two runs: from when the first was called for, which is before the masters were told.
func periods(runs []run, period time.Duration) (wrong []string) {
	for i := 1; i < len(runs); i++ {
		if gap := runs[i].began.Sub(runs[i-1].called); runs[i-1].known && gap < period {
			wrong = append(wrong, fmt.Sprintf("a run begins %v after the one before was called for", gap))
		}
	}
	return wrong
}

// Each checker refuses what is wrong, and nothing else.
func TestFeatures_badHistories_refused(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }
	has := func(who string, token int64, from, until float64) claim {
		return claim{span: span{from: at(from), until: at(until), token: token, who: who}, value: who}
	}
	slot := func(n int, c claim) claim { c.slot = n; return c }
	forced := func(c claim, taken, told float64) claim { c.taken, c.told = at(taken), at(told); return c }
	one, two := has("one", 1, 0, 10), has("two", 2, 10, 20)
	asks := func(from, until float64) *call {
		return &call{from: at(from), until: at(until), waits: true, has: true}
	}
	p := new(process)
	for name, tc := range map[string]struct {
		wrong []string
		want  string
	}{
		"one leads after the other":   {leaders([]claim{one, two}), ""},
		"two lead":                    {leaders([]claim{one, has("two", 2, 9, 20)}), "one until"},
		"a term is not larger":        {leaders([]claim{one, has("two", 1, 10, 20)}), "token 1, after 1"},
		"told in time":                {leaders([]claim{forced(one, 5, 11)}), ""},
		"told late":                   {leaders([]claim{forced(one, 5, 13)}), "told 8s after"},
		"seen as it is":               {sawLeaders([]sight{{p, 1, "one", false}, {p, 0, "", true}, {p, 2, "two", false}}, []claim{one, two}), ""},
		"seen with another's value":   {sawLeaders([]sight{{p, 1, "two", false}}, []claim{one, two}), `that of "one"`},
		"the former leader is seen":   {sawLeaders([]sight{{p, 2, "two", false}, {p, 1, "one", false}}, []claim{one, two}), "token 1 after 2"},
		"two permits":                 {permits([]claim{slot(1, one), slot(2, has("two", 1, 5, 20))}, 2), ""},
		"a slot twice":                {permits([]claim{slot(1, one), slot(1, has("two", 2, 5, 20))}, 2), "one until"},
		"three permits of two":        {permits([]claim{slot(1, one), slot(2, has("two", 1, 5, 20)), slot(1, has("three", 3, 6, 7))}, 2), "3 permits of 2"},
		"slot 3 of 2":                 {permits([]claim{slot(3, one)}, 2), "slot 3"},
		"a permit was told late":      {permits([]claim{forced(slot(1, one), 1, 10)}, 2), "told 9s"},
		"in their order":              {passed([]*call{asks(0, 5), asks(1, 6), asks(2, 7), asks(3, 8)}), ""},
		"passed by two":               {passed([]*call{asks(0, 9), asks(1, 6), asks(2, 7)}), ""},
		"passed by three":             {passed([]*call{asks(0, 9), asks(1, 6), asks(2, 7), asks(3, 8)}), "3 calls passed"},
		"a period apart":              {periods([]run{{at(0), at(1), true}, {at(2), at(10), true}}, 10*time.Second), ""},
		"within the period":           {periods([]run{{at(0), at(1), true}, {at(2), at(9), true}}, 10*time.Second), "begins 9s after"},
		"a quorum lost its data":      {periods([]run{{at(0), at(1), false}, {at(2), at(9), true}}, 10*time.Second), ""},
		"a key of the namespace":      {of(foreign("team", []string{"redlock:ns:team:x", "{redlock:ns:team:x}:u"})), ""},
		"a key outside of it":         {of(foreign("team", []string{"redlock:ns:team:x", "redlock:queue:{x}"})), "queue"},
		"a key of another's":          {of(foreign("", []string{"redlock:ns:team:x"})), "team"},
		"a key of one that is longer": {of(foreign("team", []string{"redlock:ns:team2:x"})), "team2"},
	} {
		got := strings.Join(tc.wrong, "\n")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func of(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
