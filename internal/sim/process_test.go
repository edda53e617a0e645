// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// A client that is killed as it sends a command to the nth master has reached n-1 of them. The others never see that command or any later one.
func TestProcess_killedHalfWay_sendsNothingMore(t *testing.T) {
	for _, test := range []struct {
		kind        string
		n           int
		votes       int // that are left
		doing       string
		outstanding history.Kind
	}{
		{"acquire", 1, 0, DoingLock, history.KindLock},
		{"acquire", 3, 2, DoingLock, history.KindLock},
		{"acquire", 5, 4, DoingLock, history.KindLock},
		{"release", 1, 5, DoingUnlock, history.KindUnlock},
		{"release", 3, 3, DoingUnlock, history.KindUnlock},
		{"release", 5, 1, DoingUnlock, history.KindUnlock},
	} {
		t.Run(test.kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Clients: 1, Calm: true, Nemeses: []string{}}.withDefaults()
				w := newWorld(1, cfg)
				if err := w.begin(); err != nil {
					t.Fatal(err)
				}
				m := w.members[0]
				defer m.close()
				p := m.running()
				if !p.doom(test.kind, test.n) || p.doom(test.kind, test.n) {
					t.Error("a process is doomed once")
				}
				for !p.killed.Load() {
					newWorker(m, p, 0).once(w.locks[1])
				}
				if got := *p.doing.Load(); got != test.doing {
					t.Errorf("it died %s, want %s", got, test.doing)
				}
				time.Sleep(time.Millisecond) // what is in flight arrives
				votes := 0
				for _, m := range w.masters {
					if slices.Contains(m.Keys(), w.locks[1].name) {
						votes++
					}
				}
				if votes != test.votes {
					t.Errorf("%d votes are left, want %d", votes, test.votes)
				}
				last := w.h.Ops[len(w.h.Ops)-1]
				if last.Kind != test.outstanding || last.Return != history.Never || last.Outcome != history.Unknown {
					t.Errorf("the history ends with %+v", last)
				}
			})
		})
	}
}

// A client may be killed before its workers start. Another process runs in its place all the same.
func TestWork_killedBeforeItStarts_anotherProcessRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, Config{Clients: 1, Calm: true, Nemeses: []string{}}.withDefaults())
		if err := w.begin(); err != nil {
			t.Fatal(err)
		}
		m := w.members[0]
		defer m.close()
		first := m.running()
		first.doom("", 0)
		m.mayStart(first)
		m.work(time.Now().Add(time.Second))
		if p := m.running(); p == nil || p == first {
			t.Error("no other process runs")
		}
		granted := func(op history.Op) bool { return op.Kind == history.KindLock && op.Outcome == history.OK }
		if !slices.ContainsFunc(w.h.Ops, granted) {
			t.Errorf("no lock was granted, in %d operations", len(w.h.Ops))
		}
	})
}
