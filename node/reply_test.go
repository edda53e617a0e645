// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestDecode_eachKind_classAndValue(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		kind Kind
		n    int64
		want Reply
	}{
		{Acquire, 17, Reply{Class: Granted, Token: 17}},
		{Acquire, 1<<53 - 1, Reply{Class: Granted, Token: 1<<53 - 1}},
		{Acquire, -1, Reply{Class: Held}},
		{Acquire, -1001, Reply{Class: Held, Remaining: 1000 * ms}},
		{Acquire, 0, Reply{Class: Held, Remaining: -ms}}, // no TTL
		{Acquire, math.MinInt64, Reply{Class: Held, Remaining: maxRemaining}},
		{TopUp, 1, Reply{Class: Granted}},
		{TopUp, -51, Reply{Class: Held, Remaining: 50 * ms}},
		{TopUp, 2, Reply{Err: errReply}},
		{Release, 1, Reply{Class: Granted}},
		{Release, 0, Reply{Class: Absent}},
		{Release, -1, Reply{Err: errReply}},
		{Confirm, 1, Reply{Class: Granted}},
		{Confirm, 0, Reply{Class: Absent}},
		{Confirm, 2, Reply{Err: errReply}},
		{Leave, 0, Reply{Class: Absent}},
	} {
		var got Reply
		if got.decode(tc.kind, tc.n); got.Class != tc.want.Class || got.Token != tc.want.Token ||
			got.Remaining != tc.want.Remaining || !errors.Is(got.Err, tc.want.Err) {
			t.Errorf("%v %d: %+v, want %+v", tc.kind, tc.n, got, tc.want)
		}
	}
}

// The words are those of real servers: 6.2.16, 7.0.15, 8.0.2 and Valkey 8.1.1 each word an
// error inside a script in their own way. What it means must not depend on that.
func TestFailure_errorInAScript_sameClassOnEveryServer(t *testing.T) {
	const sha = "6dee20530b98af29aede2283e1e46670101fd16c"
	const raised62 = "ERR Error running script (call to f_" + sha + "): @user_script:1: "
	const raised70 = " script: " + sha + ", on @user_script:1."
	const wrong = "WRONGTYPE Operation against a key holding the wrong kind of value"
	const readOnly = "READONLY You can't write against a read only replica."
	for _, tc := range []struct {
		what  string
		kind  Kind
		words []string // of the servers, as raised and, where it differs, as caught by pcall
		want  Class
		is    error  // errors.Is
		says  string // in the error
	}{
		{"wrong type, leave", Leave, []string{raised62 + wrong, wrong + raised70, wrong}, Absent, nil, ""},
		{"wrong type, swap", SwapRecord, []string{raised62 + wrong, wrong + raised70, wrong}, Refused, ErrRecord, ""},
		{"wrong type, extend", Extend, []string{raised62 + wrong, wrong + raised70}, Refused, nil, "WRONGTYPE"},
		{"replica, release", Release, []string{raised62 + "@user_script: 1: -" + readOnly + "\n", "@user_script: 1: -" + readOnly + "\r\n",
			readOnly + raised70, readOnly}, Unknown, nil, "READONLY"},
		{"no right to a key", Acquire, []string{
			raised62 + "@user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments",
			"@user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments",
			"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + raised70,
			"ERR ACL failure in script: No permissions to access a key" + raised70}, Refused, nil, "grant it"},
		{"no right to a command", Acquire, []string{
			raised62 + "@user_script: 1: The user executing the script can't run this command or subcommand",
			"ERR ACL failure in script: User u has no permissions to run the 'hset' command" + raised70}, Refused, nil, "grant it"},
		{"out of memory", Acquire, []string{raised62 + "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
			"@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
			"OOM command not allowed when used memory > 'maxmemory'." + raised70}, Refused, nil, "OOM"},
		{"the gate", Acquire, []string{"REDLOCK GATE 1|e|i|V"}, Refused, &GateError{}, ""},
	} {
		for _, words := range tc.words {
			r := failure(&Request{Kind: tc.kind}, scriptError(words))
			if r.Class != tc.want || (r.Err == nil) != (tc.want == Absent) {
				t.Errorf("%s, %q: %+v, want %v", tc.what, words, r, tc.want)
				continue
			}
			var gate *GateError
			if errors.As(tc.is, &gate) {
				if !errors.As(r.Err, &gate) || gate.Got != "1|e|i|V" {
					t.Errorf("%s, %q: %v", tc.what, words, r.Err)
				}
			} else if tc.is != nil && !errors.Is(r.Err, tc.is) {
				t.Errorf("%s, %q: %v is not %v", tc.what, words, r.Err, tc.is)
			}
			if r.Err != nil && (!strings.Contains(r.Err.Error(), tc.says) || strings.HasPrefix(r.Err.Error(), "@") || strings.Contains(r.Err.Error(), "call to f_")) {
				t.Errorf("%s, %q: %v", tc.what, words, r.Err)
			}
			if readOnly := tc.says == "READONLY"; (r.Err != nil && elsewhere(r.Err) != nil) != readOnly {
				t.Errorf("%s, %q: elsewhere says %v", tc.what, words, elsewhere(r.Err))
			}
		}
	}
}

// Whatever a master answers, it is a vote only when a script says so, and nothing
// panics.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(Acquire), 0, []byte("12345678"))
	f.Add(uint8(Extend), 3, make([]byte, 24))
	f.Add(uint8(Acquire), 1, make([]byte, 32))
	f.Fuzz(func(t *testing.T, kind uint8, items int, raw []byte) {
		var vals []int64
		for len(raw) >= 8 {
			vals = append(vals, int64(binary.LittleEndian.Uint64(raw)))
			raw = raw[8:]
		}
		sane := func(r Reply) {
			t.Helper()
			if (r.Class == Unknown || r.Class == Refused) != (r.Err != nil) {
				t.Errorf("kind %d, %v: %+v", kind, vals, r)
			}
			if r.Remaining > maxRemaining || r.Remaining < -time.Millisecond || r.Class != Held && r.Remaining != 0 {
				t.Errorf("kind %d, %v: remaining %v", kind, vals, r.Remaining)
			}
			if (r.Token != 0) != (r.Class == Granted && r.Token > 0) || r.Ticket < 0 || r.Ahead < 0 {
				t.Errorf("kind %d, %v: %+v", kind, vals, r)
			}
		}
		if len(vals) > 0 {
			k := Kind(kind % (uint8(Beat) + 1))
			var r Reply
			r.decode(k, vals[0])
			sane(r)
			if r.Class == Granted && vals[0] <= 0 {
				t.Errorf("%v %d is granted", k, vals[0])
			}
		}
		words := make([]any, len(vals))
		for i, v := range vals {
			words[i] = v
		}
		for _, said := range []any{words, any(raw), nil, "REDLOCK GATE x", "WRONGTYPE of " + string(raw)} {
			for _, k := range []Kind{Acquire, Release} {
				var r Reply
				r.decodeVote(&Request{Kind: k, Lock: NewLock("x", Plain)}, said)
				sane(r)
				if r.Class == Granted {
					t.Errorf("%v is granted to a %v", said, k)
				}
			}
		}
		r := decodeExtend(items, vals)
		sane(r)
		for i, ok := range r.Intact {
			if ok != (vals[i] == 1) {
				t.Errorf("%v: item %d intact = %v", vals, i, ok)
			}
		}
		if r.Class == Granted && len(r.Intact) != items {
			t.Errorf("%d items, %d answers", items, len(r.Intact))
		}
	})
}

func TestClass_unknownValue_hasAName(t *testing.T) {
	if Held.String() != "held" || Class(255).String() != "?" {
		t.Errorf("%v and %v", Held, Class(255))
	}
}
