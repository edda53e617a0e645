// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"errors"
	"math"
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
