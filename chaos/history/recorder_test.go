// SPDX-License-Identifier: Apache-2.0

package history

import (
	"errors"
	"reflect"
	"testing"
)

func TestRecorder_Do_whatIsRecorded(t *testing.T) {
	broken, full := errors.New("broken"), errors.New("disk full")
	for name, test := range map[string]struct {
		kind  Kind
		ahead bool
		err   error
		want  []Op
	}{
		"granted": {KindLock, true, nil, []Op{{Client: "c", Kind: KindLock, Lock: "L", Call: 1, Return: 2, Outcome: OK, Token: 7}}},
		"refused": {KindLock, true, broken, []Op{{Client: "c", Kind: KindLock, Lock: "L", Call: 1, Return: 2, Outcome: Failed, Error: "broken"}}},
		"unlocked": {KindUnlock, true, nil, []Op{
			{Client: "c", Kind: KindUnlock, Lock: "L", Call: 1, Return: Never, Outcome: Unknown},
			{Client: "c", Kind: KindUnlock, Lock: "L", Call: 1, Return: 2, Outcome: OK, Token: 7},
		}},
		"unlocked, in memory": {KindUnlock, false, nil, []Op{{Client: "c", Kind: KindUnlock, Lock: "L", Call: 1, Return: 2, Outcome: OK, Token: 7}}},
	} {
		var got []Op
		now := int64(0)
		r := Recorder{Client: "c", Ahead: test.ahead,
			Now:     func() int64 { now++; return now },
			Append:  func(op Op) error { got = append(got, op); return nil },
			Failure: func(_ Kind, err error) (Outcome, string) { return Failed, err.Error() },
		}
		op := Op{Kind: test.kind, Lock: "L"}
		err := r.Do(&op, func() error {
			if test.err == nil {
				op.Token = 7
			}
			return test.err
		})
		if !errors.Is(err, test.err) || !reflect.DeepEqual(got, test.want) || r.Err() != nil {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
	r := Recorder{Append: func(Op) error { return full }}
	r.Add(Op{})
	r.Append = func(Op) error { t.Error("it goes on after an error"); return nil }
	if r.Add(Op{}); !errors.Is(r.Err(), full) {
		t.Errorf("%v, want %v", r.Err(), full)
	}
	if r.Fail(broken); !errors.Is(r.Err(), broken) {
		t.Errorf("%v, want %v", r.Err(), broken)
	}
}
