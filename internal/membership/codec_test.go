// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

const inc = "0123456789abcdef.0123456789abcdef" // as long as an incarnation gets

var (
	epochA = Epoch{1_790_000_000, 0xfedcba9876543210}
	epochB = Epoch{1_790_000_001, 0x123456789abcdef0}
	planB  = Plan{Ballot{3, 0xabcdef012345}, epochA, epochB, []Nonce{0, 0x111111111111, 0x222222222222}}
)

// TestRecordState_text_isShort: every vote carries it.
func TestRecordState_text_isShort(t *testing.T) {
	for _, rs := range []RecordState{
		{Phase: Voting, Epoch: epochA, Incarnation: inc},
		{Phase: Quarantined, Epoch: epochA, Incarnation: inc, Nonce: 1<<nonceBits - 1, Whole: true},
		{Phase: Retired, Epoch: epochA, Incarnation: inc, Nonce: 1<<nonceBits - 1, Ballot: Ballot{999, 1<<nonceBits - 1}},
	} {
		s := rs.String()
		t.Logf("%3d %s", len(s), s)
		if len(s) > 100 {
			t.Errorf("%d bytes: %s", len(s), s)
		}
		if got, err := ParseRecordState(s); err != nil || got != rs {
			t.Errorf("ParseRecordState(%q) = %+v, %v", s, got, err)
		}
		if !strings.HasPrefix(s, RecordStatePrefix(epochA.String(), inc, rs.Phase)) {
			t.Errorf("%s does not begin with its prefix", s)
		}
	}
}

func TestParseRecordState_garbage_saysWhatToDo(t *testing.T) {
	good := RecordState{Phase: Quarantined, Epoch: epochA, Incarnation: inc, Nonce: 7}.String()
	for _, bad := range []string{
		"x", "2", "0|a|b|V", "-2|a|b|V", good + "|", good + " ", " " + good, strings.Replace(good, "|R|", "|Q|", 1),
		strings.Replace(good, "|R|", "|V|", 1), strings.Replace(good, inc, "", 1), strings.Replace(good, "|0000", "|000", 1),
		strings.ToUpper(good), strings.Replace(good, "1790000000.", "0.", 1), strings.Replace(good, "1790000000.", "01790000000.", 1),
		"2|" + epochA.String() + "|" + inc + "|V|", "2|" + epochA.String() + "|" + inc + "|X|000000000001|0.000000000001",
	} {
		_, err := ParseRecordState(bad)
		if !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("ParseRecordState(%q): %v", bad, err)
		}
	}
	for _, other := range []string{"1|abc|def|V", "1|abc|def|R|n|3", "3|x|y|z|w|v"} {
		if _, err := ParseRecordState(other); !errors.Is(err, ErrProtocol) || errors.Is(err, ErrRecord) {
			t.Errorf("ParseRecordState(%q): %v", other, err)
		}
	}
	if rs, err := ParseRecordState(""); err != nil || rs != (RecordState{}) {
		t.Errorf("no record state: %+v, %v", rs, err)
	}
}

func FuzzParseRecordState(f *testing.F) {
	f.Add("")
	f.Add(RecordState{Phase: Voting, Epoch: epochA, Incarnation: inc}.String())
	f.Add(RecordState{Phase: Quarantined, Epoch: epochA, Incarnation: inc, Nonce: 7}.String())
	f.Add(RecordState{Phase: Retired, Epoch: epochA, Incarnation: inc, Nonce: 7, Ballot: Ballot{1, 2}}.String())
	f.Fuzz(func(t *testing.T, s string) {
		rs, err := ParseRecordState(s)
		if err == nil && rs.String() != s {
			t.Errorf("%q is read as %q", s, rs)
		}
		if err != nil && (rs != RecordState{} || !errors.Is(err, ErrRecord) && !errors.Is(err, ErrProtocol)) {
			t.Errorf("%q: %+v, %v", s, rs, err)
		}
	})
}

func TestIntent_text_inverse(t *testing.T) {
	for _, n := range []Intent{
		{Plan: planB, Since: 1_790_000_000, Who: "host|7 reconfigure, \"now\"\n"},
		{Plan: Plan{Ballot: Ballot{1, 1}, From: epochA}, Since: -1},
		{Plan: Plan{Ballot: Ballot{1, 1}, From: epochA, Target: epochB, Begin: []Nonce{0}}},
		{},
	} {
		s := n.String()
		if got, err := ParseIntent(s); err != nil || !reflect.DeepEqual(got, n) {
			t.Errorf("ParseIntent(%q) = %+v, %v", s, got, err)
		}
		p := n.Plan.String()
		if got, err := ParsePlan(p); err != nil || !reflect.DeepEqual(got, n.Plan) {
			t.Errorf("ParsePlan(%q) = %+v, %v", p, got, err)
		}
	}
}

// A text that this library would write in another way was written by somebody else, and is refused.
func TestParse_otherSpelling_refused(t *testing.T) {
	intent, note := Intent{Plan: planB, Who: "me"}.String(), Note{7, time.Hour, -time.Second, time.Millisecond}.String()
	for name, spell := range map[string]func(string) string{
		"a leading zero": func(s string) string { return "0" + s },
		"a plus":         func(s string) string { return "+" + s },
		"cut short":      func(s string) string { return s[:len(s)/2] },
		"one more field": func(s string) string { return s + "|1" },
	} {
		for what, err := range map[string]error{
			"plan":   second(ParsePlan(spell(planB.String()))),
			"intent": second(ParseIntent(spell(intent))),
			"note":   second(ParseNote(spell(note))),
		} {
			if name == "one more field" && what == "intent" {
				continue // the last field is a name, which may contain anything
			}
			if !errors.Is(err, ErrRecord) {
				t.Errorf("%s of a %s: %v", name, what, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzParseIntent(f *testing.F) {
	f.Add(Intent{Plan: planB, Who: "a b"}.String())
	f.Add(Intent{Plan: Plan{Ballot: Ballot{1, 1}, From: epochA}}.String())
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseIntent(s)
		if err == nil && n.String() != s || err != nil && !errors.Is(err, ErrRecord) {
			t.Errorf("%q is read as %q, %v", s, n, err)
		}
	})
}

func FuzzParseNote(f *testing.F) {
	f.Add(Note{7, time.Hour, -time.Second, time.Millisecond}.String())
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseNote(s)
		if err == nil && n.String() != s || err != nil && !errors.Is(err, ErrRecord) {
			t.Errorf("%q is read as %q, %v", s, n, err)
		}
	})
}

func FuzzParseTerms(f *testing.F) {
	f.Add(terms(f, "a:1", "b:2", "c:3").String())
	f.Add("1 masters a, maximum TTL 1s, drift 0 + 0s, fixed")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTerms(s)
		if err == nil && got.String() != s || err != nil && !errors.Is(err, ErrRecord) {
			t.Errorf("%q is read as %v, %v", s, got, err)
		}
	})
}

func terms(t testing.TB, names ...string) *Terms {
	t.Helper()
	made, err := NewTerms(names, 30*time.Second, 0.01, 2*time.Millisecond, false)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestTerms_id_coversAllThatClientsMustAgreeOn(t *testing.T) {
	base := terms(t, "c:3", "a b,c%", "b:2")
	same := terms(t, "b:2", "c:3", "a b,c%")
	if base.ID != same.ID || base.ID == 0 {
		t.Errorf("the order of the names is in the id")
	}
	if read, err := ParseTerms(base.String()); err != nil || !reflect.DeepEqual(read, base) {
		t.Errorf("ParseTerms(%q) = %+v, %v", base, read, err)
	}
	ids := map[ID]string{base.ID: "base"}
	for name, args := range map[string]struct {
		names    []string
		ttl      time.Duration
		factor   float64
		constant time.Duration
		fixed    bool
	}{
		"names":    {[]string{"c:3", "a b,c%", "b:4"}, 30 * time.Second, 0.01, 2 * time.Millisecond, false},
		"ttl":      {base.Masters, 31 * time.Second, 0.01, 2 * time.Millisecond, false},
		"factor":   {base.Masters, 30 * time.Second, 0.02, 2 * time.Millisecond, false},
		"constant": {base.Masters, 30 * time.Second, 0.01, 3 * time.Millisecond, false},
		"fixed":    {base.Masters, 30 * time.Second, 0.01, 2 * time.Millisecond, true},
	} {
		other, err := NewTerms(args.names, args.ttl, args.factor, args.constant, args.fixed)
		if err != nil {
			t.Fatal(err)
		}
		if ids[other.ID] != "" {
			t.Errorf("%s and %s have one id", name, ids[other.ID])
		}
		ids[other.ID] = name
		if read, err := ParseTerms(other.String()); err != nil || !reflect.DeepEqual(read, other) {
			t.Errorf("ParseTerms(%q) = %+v, %v", other, read, err)
		}
	}
}

func TestNewTerms_bad_refused(t *testing.T) {
	for name, make := range map[string]func() (*Terms, error){
		"none":     func() (*Terms, error) { return NewTerms(nil, time.Second, 0, 0, false) },
		"empty":    func() (*Terms, error) { return NewTerms([]string{"a", ""}, time.Second, 0, 0, false) },
		"twice":    func() (*Terms, error) { return NewTerms([]string{"a", "b", "a"}, time.Second, 0, 0, false) },
		"no UTF-8": func() (*Terms, error) { return NewTerms([]string{"a", "b\xff"}, time.Second, 0, 0, false) },
		"no TTL":   func() (*Terms, error) { return NewTerms([]string{"a"}, 0, 0, 0, false) },
		"NaN":      func() (*Terms, error) { return NewTerms([]string{"a"}, time.Second, math.NaN(), 0, false) },
		"factor 1": func() (*Terms, error) { return NewTerms([]string{"a"}, time.Second, 1, 0, false) },
		"negative": func() (*Terms, error) { return NewTerms([]string{"a"}, time.Second, 0, -1, false) },
		"too long": func() (*Terms, error) { return NewTerms([]string{"a"}, math.MaxInt64, 0, 0, false) },
	} {
		if got, err := make(); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTerms_wait(t *testing.T) {
	base := terms(t, "a", "b", "c")
	if got := base.Wait(); got != 30*time.Second+2*(300*time.Millisecond+2*time.Millisecond) {
		t.Errorf("W = %v", got)
	}
	for n, q := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		if got := (&Terms{Masters: make([]string, n)}).Quorum(); got != q {
			t.Errorf("quorum of %d is %d, want %d", n, got, q)
		}
	}
}

// TestParseRecord_unused_boundToItsRecordState: what was said of one record state is not said of the next one.
func TestParseRecord_unused_boundToItsRecordState(t *testing.T) {
	state := RecordState{Phase: Quarantined, Epoch: Epoch{1, 2}, Incarnation: "i", Nonce: 7}
	voting := RecordState{Phase: Voting, Epoch: Epoch{1, 2}, Incarnation: "i"}
	for _, test := range []struct {
		state  RecordState
		unused Nonce
		want   bool
	}{{state, 7, true}, {state, 8, false}, {voting, 7, false}} {
		r, err := ParseRecord(map[string]string{FieldState: test.state.String(), FieldUnused: test.unused.String()})
		if err != nil || r.Unused != test.want {
			t.Errorf("%v with %v: %v, %v", test.state, test.unused, r.Unused, err)
		}
	}
}

func TestParseRecord(t *testing.T) {
	base := terms(t, "a", "b", "c")
	want := RecordState{Phase: Retired, Epoch: epochA, Incarnation: inc, Nonce: 7, Ballot: planB.Ballot}
	fields := map[string]string{
		FieldState: want.String(), FieldIntent: Intent{Plan: planB, Who: "x"}.String(), FieldPlan: planB.String(), FieldTerms: base.String(),
		FieldTarget: "somewhere", FieldURLs: "urls", FieldClock: Note{1, 2000, 3000, 4000}.String(), "c17": "5", "later": "?",
	}
	r, err := ParseRecord(fields)
	if err != nil || r.State != want || r.Intent.Who != "x" || r.Plan.Ballot != planB.Ballot || r.Terms.ID != base.ID ||
		r.Target != "somewhere" || r.URLs != "urls" || r.Clock.Frame != 1 || !r.Counters {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := ParseRecord(nil); err != nil || !reflect.DeepEqual(r, Record{}) {
		t.Errorf("no record: %+v, %v", r, err)
	}
	for _, f := range []string{FieldState, FieldIntent, FieldPlan, FieldTerms, FieldClock} {
		if _, err := ParseRecord(map[string]string{f: "garbage"}); !errors.Is(err, ErrRecord) {
			t.Errorf("garbage in %s: %v", f, err)
		}
		if strings.HasPrefix(f, "c") {
			t.Errorf("field %s begins like a counter, which the script only raises", f)
		}
	}
}

// Who is told to delete a record sees first which list it names, and which one was given.
func TestRecordError_bothLists(t *testing.T) {
	ours := &Terms{Masters: []string{"a", "b", "c"}, MaxTTL: time.Second, Factor: 0.01, Constant: time.Millisecond, Fixed: true}
	others := *ours
	others.MaxTTL, others.Fixed = time.Minute, false
	const end = "; if nothing else uses this key, delete it: the master then recovers as after a restart"
	for list, want := range map[string]string{
		"":              "it names no list; you gave " + ours.String(),
		"rubbish":       "it names no list; you gave " + ours.String(),
		others.String(): "it names 3 masters a b c, maximum TTL 1m0s, drift 0.01 + 1ms; you gave 3 masters a b c, maximum TTL 1s, drift 0.01 + 1ms, fixed",
		ours.String():   "it names your list, " + ours.String(),
	} {
		fields := map[string]string{FieldState: "junk", FieldTerms: list}
		_, err := ParseRecord(fields)
		err = Beside(err, fields, ours)
		if text := "the node record cannot be read: its state is \"junk\"; " + want + end; !errors.Is(err, ErrRecord) || err.Error() != text {
			t.Errorf("%v\nwant\n%s", err, text)
		}
	}
	if err := Beside(ErrProtocol, nil, ours); err != ErrProtocol {
		t.Error(err)
	}
}
