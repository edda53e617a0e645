// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// clocked has the client read the clocks of all masters that answer, each d ahead of the one before.
func clocked(d time.Duration) func(*View) {
	return func(v *View) {
		for i := range v.Masters {
			if v.Masters[i].Answered {
				v.Masters[i].Time = 1000*time.Hour + time.Duration(i)*d
			}
		}
	}
}

// stampedFor has the clocks read, and master 0 stamped this long ago by each clock; 0 for a clock that was not read then.
func stampedFor(ago ...time.Duration) func(*View) {
	return func(v *View) {
		clocked(time.Minute)(v)
		r := &v.Masters[0].Record
		r.Stamp.Nonce = r.State.Nonce
		for i, d := range ago {
			at := 1000*time.Hour + time.Duration(i)*time.Minute - d
			if d == 0 {
				at = 0
			}
			r.Stamp.Times = append(r.Stamp.Times, at)
		}
	}
}

// TestNext_stamp_provesTheWait: a process that looks for the first time finds that the wait is over, if a quorum of clocks says so.
func TestNext_stamp_provesTheWait(t *testing.T) {
	const W, hour = sceneW, time.Hour
	for _, test := range []struct {
		name, masters, what string
		ago                 []time.Duration
		whole               time.Duration
	}{
		{"all clocks say so", "RA5 VA5 VA5", "a: R -> V", []time.Duration{W, W, W}, 0},
		{"two of three say so", "RA5 VA5 VA5", "a: R -> V", []time.Duration{1, W, W}, 0},
		{"one has jumped ahead", "RA5 VA5 VA5", "done, then 604ms", []time.Duration{30 * time.Second, hour, time.Second}, 0},
		{"one was not read then", "RA5 VA5 VA5", "a: R -> V", []time.Duration{W, 0, W}, 0},
		{"one was not read then, and one does not answer", "RA5 VA5 ?", "wait 30.604s", []time.Duration{W, 0, W}, 0},
		{"a clock was set back", "RA5 VA5 VA5", "done, then 30.604s", []time.Duration{-hour, -hour, hour}, 0},
		{"of another list's length", "RA5 VA5 VA5", "done, then 30.604s", []time.Duration{W, W}, 0},
		{"a nanosecond too early", "RA5 VA5 VA5", "done, then 1ns", []time.Duration{W - 1, W - 1, W - 1}, 0},
		// Who stamped it vouched for it. So a process that sees no quorum vote goes on with it, and with nothing else.
		{"no quorum votes", "RA5 VA5 -", "a: R -> V", []time.Duration{W, W, W}, never},
		{"no quorum votes, and the wait is not over", "RA5 VA5 -", "wait 604ms", []time.Duration{30 * time.Second, 30 * time.Second, 0}, never},
		{"seen whole long ago", "RA5 VA5 -", "a: R -> V", []time.Duration{W, W, W}, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, a := scene{masters: test.masters, whole: test.whole, edit: stampedFor(test.ago...)}.run(t)
			if got := tell(v, a); got != test.what {
				t.Errorf("%s, want %s", got, test.what)
			}
		})
	}
}

// TestNext_stamp_whoWrites: a process stamps what it vouches for, once, with what a quorum of clocks shows at most.
func TestNext_stamp_whoWrites(t *testing.T) {
	s := scene{masters: "RA5 VA5 VA5", whole: 0, edit: func(v *View) {
		clocked(time.Minute)(v)
		v.Masters[2].Sent -= 3 * time.Second // answered late: its clock may show more by now
	}}
	v, a := s.run(t)
	want := []time.Duration{1000 * time.Hour, 1000*time.Hour + time.Minute, 1000*time.Hour + 2*time.Minute + 3*time.Second}
	for i := range want {
		want[i] += time.Microsecond // rounded up
	}
	if a.Kind != Swap || a.To.State != a.From.State || a.Stamp == nil || a.Stamp.Nonce != sceneNonce(0) || !slices.Equal(a.Stamp.Times, want) {
		t.Fatalf("%s with %v, want %v", tell(v, a), a.Stamp, want)
	}
	if f := a.Fields(v, "urls"); !slices.Equal(f, []string{FieldSince, a.Stamp.String()}) {
		t.Errorf("it writes %q", f)
	}
	for masters, whole := range map[string]time.Duration{"RA5 VA5 ?": 0, "WA5 VA5 -": time.Hour, "RA5 ? RA5": 10 * time.Second} {
		if v, a := (scene{masters: masters, whole: whole, edit: clocked(0)}).run(t); a.Stamp == nil {
			t.Errorf("%s: %s, and no stamp", masters, tell(v, a))
		}
	}
	for masters, whole := range map[string]time.Duration{
		"RA5 VA5 -": never, "RA5 RA5 -": time.Hour, // nobody vouches
		"RA5 ? ?": 0, // no quorum of clocks
	} {
		if v, a := (scene{masters: masters, whole: whole, edit: clocked(0)}).run(t); a.Stamp != nil {
			t.Errorf("%s: stamped by %s", masters, tell(v, a))
		}
	}
	for _, goal := range []Goal{Init, Cancel} {
		if v, a := (scene{goal: goal, masters: "RA5 RA5 RA5", whole: never, edit: clocked(0)}).run(t); a.Stamp != nil {
			t.Errorf("goal %d: stamped by %s", goal, tell(v, a))
		}
	}
}

// TestDescribe_quarantined_timeOnlyIfSomebodyTimesIt: nobody is told a time for which nobody waits.
func TestDescribe_quarantined_timeOnlyIfSomebodyTimesIt(t *testing.T) {
	for _, test := range []struct {
		want string
		scene
	}{
		{"no program times its wait", scene{masters: "RA5 VA5 VA5", whole: 0}},
		{"no program times its wait", scene{masters: "RA5 VA5 -", whole: never, stood: time.Second}},
		{"votes in about 29.6s", scene{masters: "RA5 VA5 VA5", whole: 0, stood: time.Second}},
		{"votes in about 600ms", scene{masters: "RA5 VA5 VA5", whole: 0, edit: stampedFor(30*time.Second, 30*time.Second, 30*time.Second)}},
		{"votes in about 30.6s", scene{goal: Init, masters: "RA5 RA5 RA5", whole: never}},
	} {
		if v := test.view(t); !strings.Contains(Describe(v, 0), test.want) {
			t.Errorf("%s after %v: %q, want %q", test.masters, test.stood, Describe(v, 0), test.want)
		}
	}
}

func FuzzParseStamp(f *testing.F) {
	f.Add(Stamp{7, []time.Duration{time.Hour, 0, time.Microsecond}}.String())
	f.Add("00000000000a|-")
	f.Fuzz(func(t *testing.T, s string) {
		if stamp, err := ParseStamp(s); err == nil && stamp.String() != s {
			t.Errorf("%q is read as %q", s, stamp)
		}
	})
}
