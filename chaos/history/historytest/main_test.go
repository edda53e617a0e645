// SPDX-License-Identifier: Apache-2.0

package historytest

import (
	"bytes"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos/history"
	"github.com/redlock-go/redlock/internal/needs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGenerate_sameSeed_sameHistory(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	a, b := Generate(7, Small()), Generate(7, Small())
	if !reflect.DeepEqual(a, b) {
		t.Error("two histories of one seed differ")
	}
	if reflect.DeepEqual(a.Ops, Generate(8, Small()).Ops) {
		t.Error("another seed gave the same history")
	}
}

// What the other tests count on: something of everything, and nothing that the strict reader refuses.
func TestGenerate_small_hasEverything(t *testing.T) {
	needs.NoRace(t, "computes, in one goroutine")
	h := Generate(1, Small())
	type key struct {
		kind history.Kind
		out  history.Outcome
	}
	n := map[key]int{}
	for _, op := range h.Ops {
		n[key{op.Kind, op.Outcome}]++
	}
	for _, k := range []key{
		{history.KindLock, history.OK}, {history.KindLock, history.Failed}, {history.KindUnlock, history.OK}, {history.KindUnlock, history.Failed},
		{history.KindUnlock, history.Unknown}, {history.KindExtend, history.OK}, {history.KindRead, history.OK}, {history.KindWrite, history.OK},
		{history.KindWrite, history.Failed}, {history.KindProbe, history.OK},
	} {
		if n[k] == 0 {
			t.Errorf("no %s that is %s", k.kind, k.out)
		}
	}
	if len(h.Ops) < 15000 || len(h.Ops) > 40000 || len(h.Faults) < 5 || len(h.Votes) == 0 || len(h.Counters) == 0 || len(h.Keys) == 0 {
		t.Errorf("%d ops, %d faults, %d votes, %d counters, %d keys", len(h.Ops), len(h.Faults), len(h.Votes), len(h.Counters), len(h.Keys))
	}
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := history.Read("generated", &b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(h, again) {
		t.Error("read back differently")
	}
}
