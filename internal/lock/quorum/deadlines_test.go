// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
)

// Each wait ends at its own time, in whatever order the waits began. A wait that was removed is not
// ended.
func TestDeadlines_eachEndsAtItsTime(t *testing.T) {
	for seed := range replay.Many(t, 20) {
		synctest.Test(t, func(t *testing.T) {
			rng := replay.RNG(seed)
			var d deadlines
			type waits struct {
				b       *Call
				at      time.Time
				removed bool
			}
			var all []waits
			check := func() {
				synctest.Wait()
				for i, w := range all {
					want := 1
					if w.removed || w.at.After(time.Now()) {
						want = 0
					}
					if got := len(w.b.decided); got != want {
						t.Fatalf("seed %d: wait %d of %d was ended %d times at %v after its time, want %d", seed, i, len(all), got, time.Since(w.at), want)
					}
				}
			}
			for range 200 {
				in := time.Duration(rng.IntN(100)) * time.Millisecond
				w := waits{b: &Call{decided: make(chan struct{}, 2)}, at: time.Now().Add(in)}
				d.add(w.b, in)
				all = append(all, w)
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
				}
				if i := rng.IntN(len(all)); rng.IntN(2) == 0 && all[i].at.After(time.Now()) {
					d.remove(all[i].b)
					all[i].removed = true
				}
				check()
			}
			for end := time.Now().Add(100 * time.Millisecond); !time.Now().After(end); time.Sleep(time.Millisecond) {
				check()
			}
			if d.mu.Lock(); !d.next.IsZero() || len(d.open) > 0 {
				t.Errorf("seed %d: %d waits are left, and the timer's next is %v", seed, len(d.open), d.next)
			}
			d.mu.Unlock()
		})
	}
}

// A wait that ends before its time leaves the timer as it is, and the waits that come meanwhile end at theirs.
func TestDeadlines_waitsThatEndEarly_changeNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadlines
		began := time.Now()
		for i := range 9 { // one each millisecond, of 10 ms
			b := &Call{decided: make(chan struct{}, 1)}
			d.add(b, 10*time.Millisecond)
			if want := began.Add(10 * time.Millisecond); !d.next.Equal(want) {
				t.Fatalf("wait %d set the timer to %v, want %v after the first began", i, d.next.Sub(began), want.Sub(began))
			}
			time.Sleep(time.Millisecond)
			d.remove(b)
		}
		last := &Call{decided: make(chan struct{}, 1)}
		d.add(last, 10*time.Millisecond)
		time.Sleep(10*time.Millisecond - 1)
		synctest.Wait()
		if len(last.decided) != 0 {
			t.Error("it was ended before its time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if len(last.decided) != 1 {
			t.Error("it was not ended at its time")
		}
	})
}

// silent is a node that was sent all, and of which nothing was read.
type silent struct{ protocol.Node }

func (silent) Submit(*protocol.Op) bool { return true }

// A process that was held up for longer than a round finds the answers unread: its timers run before it looks at the network. They count, if they
// come within the time by which the timer was late. The caller's context ends the wait at once all the same.
func TestAwait_processWasHeldUp_answersThatLieThereCount(t *testing.T) {
	const timeout, late = 30 * time.Millisecond, 20 * time.Millisecond
	for name, tc := range map[string]struct {
		late    time.Duration // by how much the timer was
		then    func(q *Call, cancel func())
		verdict counting.Verdict
		after   time.Duration // the timer fired
	}{
		"answers":       {late, func(q *Call, _ func()) { q.Answer(0, protocol.Reply{Outcome: protocol.Granted}) }, counting.Won, 0},
		"none":          {late, func(*Call, func()) {}, counting.Lost, late},
		"none, longer":  {10 * timeout, func(*Call, func()) {}, counting.Lost, timeout},
		"not held up":   {time.Millisecond, func(*Call, func()) {}, counting.Lost, 0},
		"context ended": {late, func(_ *Call, cancel func()) { cancel() }, counting.Lost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &Masters{Nodes: []protocol.Node{silent{}}, Need: 1, All: 1}
				q := m.Poll(m.All, m.Need, &protocol.Request{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var got counting.Verdict
				ended := make(chan time.Time, 1)
				go func() {
					got = q.Await(ctx, timeout)
					ended <- time.Now()
				}()
				synctest.Wait()
				fired := time.Now()
				m.deadlines.mu.Lock()
				q.limit.At = fired.Add(-tc.late) // as if the process had stood still since the timer was set
				m.deadlines.mu.Unlock()
				m.deadlines.expire()
				synctest.Wait() // whoever decides without looking at the network has done so
				tc.then(q, cancel)
				if after := (<-ended).Sub(fired); after != tc.after || got != tc.verdict {
					t.Errorf("verdict %v after %v, want %v after %v", got, after, tc.verdict, tc.after)
				}
			})
		})
	}
}
