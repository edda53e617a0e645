// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

func TestDecode_eachKind_classAndValue(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		kind protocol.Kind
		n    int64
		want protocol.Reply
	}{
		{protocol.Acquire, 17, protocol.Reply{Outcome: protocol.Granted, Token: 17}},
		{protocol.Acquire, 1<<53 - 1, protocol.Reply{Outcome: protocol.Granted, Token: 1<<53 - 1}},
		{protocol.Acquire, -1, protocol.Reply{Outcome: protocol.Held}},
		{protocol.Acquire, -1001, protocol.Reply{Outcome: protocol.Held, Remaining: 1000 * ms}},
		{protocol.Acquire, 0, protocol.Reply{Outcome: protocol.Held, Remaining: -ms}}, // no TTL
		{protocol.Acquire, math.MinInt64, protocol.Reply{Outcome: protocol.Held, Remaining: maxRemaining}},
		{protocol.TopUp, 1, protocol.Reply{Outcome: protocol.Granted}},
		{protocol.TopUp, -51, protocol.Reply{Outcome: protocol.Held, Remaining: 50 * ms}},
		{protocol.TopUp, 2, protocol.Reply{Err: errReply}},
		{protocol.Release, 1, protocol.Reply{Outcome: protocol.Granted}},
		{protocol.Release, 0, protocol.Reply{Outcome: protocol.Absent}},
		{protocol.Release, -1, protocol.Reply{Err: errReply}},
		{protocol.Confirm, 1, protocol.Reply{Outcome: protocol.Granted}},
		{protocol.Confirm, 0, protocol.Reply{Outcome: protocol.Absent}},
		{protocol.Confirm, 2, protocol.Reply{Err: errReply}},
		{protocol.Adopt, 1, protocol.Reply{Outcome: protocol.Granted, Token: 1}},
		{protocol.Adopt, 1<<53 - 1, protocol.Reply{Outcome: protocol.Granted, Token: 1<<53 - 1}},
		{protocol.Adopt, 0, protocol.Reply{Outcome: protocol.Absent}},
		{protocol.Adopt, -1, protocol.Reply{Err: errReply}},
		{protocol.Announce, 1, protocol.Reply{Outcome: protocol.Granted}},
		{protocol.Announce, 0, protocol.Reply{Outcome: protocol.Absent}},
		{protocol.Announce, 2, protocol.Reply{Err: errReply}},
	} {
		var got protocol.Reply
		if decode(&got, tc.kind, tc.n); got.Outcome != tc.want.Outcome || got.Token != tc.want.Token ||
			got.Remaining != tc.want.Remaining || !errors.Is(got.Err, tc.want.Err) {
			t.Errorf("%v %d: %+v, want %+v", tc.kind, tc.n, got, tc.want)
		}
	}
}

func TestDecodeInspect_whatTheScriptReturns(t *testing.T) {
	type list = []any
	got := decodeInspect(list{int64(1), "17", "said", "",
		list{"a:1", "2", int64(1500), "billing", "b:1", "1", int64(-1), "", "c:1", "x", int64(math.MaxInt64), ""},
		list{"d:1/x/state", "1700000000000001", "", "e:1", "1.7e+15", "shop"}, list{"f:1", int64(2500), "hr"}})
	want := protocol.Inspected{Votes: true, Counter: 17, Announcement: "said", Votings: []protocol.Voting{
		{Field: "a:1", Mode: protocol.Plain, Count: 2, Left: 1500 * time.Millisecond, Owner: "billing"},
		{Field: "b:1", Mode: protocol.Plain, Count: 1, Left: -time.Millisecond},
		{Field: "c:1", Mode: protocol.Plain, Left: maxRemaining},
	}, Waiting: []protocol.Waiting{
		{Place: "d:1/x/state", Ticket: 1700000000000001}, {Place: "e:1", Ticket: 1700000000000000, Owner: "shop"}},
		Rest: protocol.Voting{Field: "f:1", Mode: protocol.Plain, Left: 2500 * time.Millisecond, Owner: "hr"}}
	if got.Outcome != protocol.Granted || got.Err != nil || !reflect.DeepEqual(*got.Inspected, want) {
		t.Errorf("%+v", got)
	}
	got = decodeInspect(list{int64(0), "0", "", "write", list{"a:1:write", "1", int64(1), "", "a:2", "1", int64(1), ""}, list{}, list{}})
	if vs := got.Inspected.Votings; got.Inspected.Votes || vs[0].Mode != protocol.Write || vs[1].Mode != protocol.Read {
		t.Errorf("%+v", got.Inspected)
	}
	for _, bad := range []list{nil, {int64(1), "17"}, {"1", "17", "", "", list{}, list{}, list{}}, {int64(1), int64(17), "", "", list{}, list{}, list{}},
		{int64(1), "17", nil, "", list{}, list{}, list{}}, {int64(1), "17", "", nil, list{}, list{}, list{}}, {int64(1), "17", "", "", "", list{}, list{}},
		{int64(1), "17", "", "", list{}, int64(0), list{}}, {int64(1), "17", "", "", list{"a:1", "1", int64(7)}, list{}, list{}},
		{int64(1), "17", "", "", list{"a:1", "1", "7", ""}, list{}, list{}}, {int64(1), "17", "", "", list{}, list{"a:1", "1"}, list{}},
		{int64(1), "17", "", "", list{}, list{"a:1", int64(1), ""}, list{}}, {int64(1), "17", "", "", list{}, list{}},
		{int64(1), "17", "", "", list{}, list{}, ""}, {int64(1), "17", "", "", list{}, list{}, list{"a:1", "1", ""}},
		{int64(1), "17", "", "", list{}, list{}, list{"a:1", int64(1)}}} {
		if got := decodeInspect(bad); !errors.Is(got.Err, errReply) || got.Outcome != protocol.Unknown || got.Inspected != nil {
			t.Errorf("%v: %+v", bad, got)
		}
	}
}

// The texts are those of real servers: 6.2.16, 7.0.15, 8.0.2 and Valkey 8.1.1 each word an
// error inside a script differently. The outcome must not depend on the wording.
func TestFailure_errorInAScript_sameClassOnEveryServer(t *testing.T) {
	const sha = "6dee20530b98af29aede2283e1e46670101fd16c"
	const raised62 = "ERR Error running script (call to f_" + sha + "): @user_script:1: "
	const raised70 = " script: " + sha + ", on @user_script:1."
	const wrong = "WRONGTYPE Operation against a key holding the wrong kind of value"
	const readOnly = "READONLY You can't write against a read only replica."
	for _, tc := range []struct {
		what  string
		kind  protocol.Kind
		words []string // of the servers, as raised and, where it differs, as caught by pcall
		want  protocol.Outcome
		is    error  // errors.Is
		says  string // in the error
	}{
		{"wrong type, release", protocol.Release, []string{raised62 + wrong, wrong + raised70, wrong}, protocol.Absent, nil, ""},
		{"wrong type, compare-and-set", protocol.CompareAndSetRecord, []string{raised62 + wrong, wrong + raised70, wrong}, protocol.Refused, protocol.ErrRecord, ""},
		{"wrong type, extend", protocol.Extend, []string{raised62 + wrong, wrong + raised70}, protocol.Refused, nil, "WRONGTYPE"},
		{"replica, release", protocol.Release, []string{raised62 + "@user_script: 1: -" + readOnly + "\n", "@user_script: 1: -" + readOnly + "\r\n",
			readOnly + raised70, readOnly}, protocol.Unknown, nil, "READONLY"},
		{"no right to a key", protocol.Acquire, []string{
			raised62 + "@user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments",
			"@user_script: 1: The user executing the script can't access at least one of the keys mentioned in the command arguments",
			"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + raised70,
			"ERR ACL failure in script: No permissions to access a key" + raised70}, protocol.Refused, nil, "grant it"},
		{"no right to a command", protocol.Acquire, []string{
			raised62 + "@user_script: 1: The user executing the script can't run this command or subcommand",
			"ERR ACL failure in script: User u has no permissions to run the 'hset' command" + raised70}, protocol.Refused, nil, "grant it"},
		{"no right to a channel", protocol.Acquire, []string{
			raised62 + "@user_script: 1: The user executing the script can't publish to the channel mentioned in the command",
			"ERR The user executing the script can't publish to the channel mentioned in the command" + raised70,
			"ERR ACL failure in script: No permissions to access a channel" + raised70}, protocol.Refused, nil, "grant it"},
		{"out of memory", protocol.Acquire, []string{raised62 + "@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
			"@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
			"OOM command not allowed when used memory > 'maxmemory'." + raised70}, protocol.Refused, nil, "OOM"},
		{"the record state", protocol.Acquire, []string{"REDLOCK STATE 1|e|i|V"}, protocol.Refused, &protocol.RecordStateError{}, ""},
	} {
		for _, words := range tc.words {
			r := failure(&protocol.Request{Kind: tc.kind}, scriptError(words))
			if r.Outcome != tc.want || (r.Err == nil) != (tc.want == protocol.Absent) {
				t.Errorf("%s, %q: %+v, want %v", tc.what, words, r, tc.want)
				continue
			}
			var state *protocol.RecordStateError
			if errors.As(tc.is, &state) {
				if !errors.As(r.Err, &state) || state.Got != "1|e|i|V" {
					t.Errorf("%s, %q: %v", tc.what, words, r.Err)
				}
			} else if tc.is != nil && !errors.Is(r.Err, tc.is) {
				t.Errorf("%s, %q: %v is not %v", tc.what, words, r.Err, tc.is)
			}
			if r.Err != nil && (!strings.Contains(r.Err.Error(), tc.says) || strings.HasPrefix(r.Err.Error(), "@") || strings.Contains(r.Err.Error(), "call to f_")) {
				t.Errorf("%s, %q: %v", tc.what, words, r.Err)
			}
			if readOnly := tc.says == "READONLY"; (r.Err != nil && NotServing(r.Err) != nil) != readOnly {
				t.Errorf("%s, %q: NotServing says %v", tc.what, words, NotServing(r.Err))
			}
		}
	}
}

// No answer of a master makes the package panic, and only a script's grant becomes a vote.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(protocol.Acquire), 0, []byte("12345678"))
	f.Add(uint8(protocol.Extend), 3, make([]byte, 24))
	f.Add(uint8(protocol.Acquire), 1, make([]byte, 32))
	f.Fuzz(func(t *testing.T, kind uint8, items int, raw []byte) {
		var vals []int64
		for len(raw) >= 8 {
			vals = append(vals, int64(binary.LittleEndian.Uint64(raw)))
			raw = raw[8:]
		}
		sane := func(r protocol.Reply) {
			t.Helper()
			if (r.Outcome == protocol.Unknown || r.Outcome == protocol.Refused) != (r.Err != nil) {
				t.Errorf("kind %d, %v: %+v", kind, vals, r)
			}
			if r.Remaining > maxRemaining || r.Remaining < -time.Millisecond || r.Outcome != protocol.Held && r.Remaining != 0 {
				t.Errorf("kind %d, %v: remaining %v", kind, vals, r.Remaining)
			}
			if (r.Token != 0) != (r.Outcome == protocol.Granted && r.Token > 0) || r.Ticket < 0 || r.Ahead < 0 {
				t.Errorf("kind %d, %v: %+v", kind, vals, r)
			}
		}
		if len(vals) > 0 {
			k := protocol.Kind(kind % (uint8(protocol.Announce) + 1))
			var r protocol.Reply
			decode(&r, k, vals[0])
			sane(r)
			if r.Outcome == protocol.Granted && vals[0] <= 0 {
				t.Errorf("%v %d is granted", k, vals[0])
			}
		}
		words := make([]any, len(vals))
		for i, v := range vals {
			words[i] = v
		}
		for _, said := range []any{words, any(raw), nil, "REDLOCK STATE x", "WRONGTYPE of " + string(raw)} {
			for _, k := range []protocol.Kind{protocol.Acquire, protocol.Release} {
				var r protocol.Reply
				decodeVote(&r, &protocol.Request{Kind: k, Lock: protocol.NewLock("x", protocol.Plain)}, said)
				sane(r)
				if r.Outcome == protocol.Granted {
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
			if denied := r.Denied != nil && r.Denied[i]; denied != (vals[i] == unsaid) {
				t.Errorf("%v: item %d denied = %v", vals, i, denied)
			}
		}
		if r.Outcome == protocol.Granted && len(r.Intact) != items {
			t.Errorf("%d items, %d answers", items, len(r.Intact))
		}
	})
}
