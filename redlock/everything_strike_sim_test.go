// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"errors"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// strike hurts masters, heals them, and waits until that is over. Most times they are a minority.
func (w *everything) strike() {
	n := 1 + w.rng.IntN(2)
	if w.rng.IntN(3) == 0 {
		n = 3 + w.rng.IntN(3)
		w.mu.Lock()
		w.major = true
		for _, g := range w.grants {
			g.excused = true
		}
		w.mu.Unlock()
	}
	struck := w.rng.Perm(5)[:n]
	what := anyOf(w.rng, "older", "restart", "flush", "evict", "refuse", "freeze", "copy", "ways")
	w.note(what)
	w.t.Logf("%v: %s of %v", time.Now(), what, struck)
	var old [5]*nodetest.Data
	for i, m := range w.c.masters {
		old[i] = m.Snapshot()
	}
	w.lively.Store(true)
	time.Sleep(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	if voter := w.someoneIsNew(); voter >= 0 && !slices.Contains(struck, voter) {
		struck[0] = voter
	}
	w.mu.Lock()
	w.struck, w.before = struck, make(map[string][]string)
	for _, name := range w.names {
		w.before[name] = w.holders(name)
	}
	w.mu.Unlock()
	for _, i := range struck {
		m := w.c.masters[i]
		w.mu.Lock()
		w.losses[i] = append(w.losses[i], time.Now())
		if what == "evict" {
			w.evicted = append(w.evicted, time.Now())
		}
		w.mu.Unlock()
		switch what {
		case "older":
			fallBack(m, old[i])
		case "restart":
			m.Restart()
		case "flush":
			m.Flush()
		case "evict":
			m.Evict(slices.DeleteFunc(m.Keys(), func(k string) bool { return k == protocol.RecordKey })...)
		case "refuse":
			m.RefuseWrites(anyOf(w.rng, errors.New("OOM command not allowed when used memory > 'maxmemory'."), errors.New("READONLY You can't write against a read only replica.")))
		case "freeze":
			m.Pause()
		case "copy":
			m.Promote(old[(i+1)%5]) // of another master: one whose own data go back while it runs is not promised (A12)
		case "ways":
			w.rough[i].Store(true)
		}
		time.Sleep(time.Duration(30+w.rng.IntN(70)) * time.Millisecond) // A10: evictions within 10 ms are not promised
	}
	w.visit()
	time.Sleep(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
	for _, i := range struck {
		m := w.c.masters[i]
		m.RefuseWrites(nil)
		w.rough[i].Store(false)
		if what == "freeze" {
			m.Resume()
		}
	}
	w.lively.Store(false)
	time.Sleep(healed)
	w.mu.Lock()
	w.major = false
	w.mu.Unlock()
}

// someoneIsNew waits, for some seconds at most, until a lease was granted a moment ago that lasts, best one whose client has not heard of all its
// votes. It returns the master of one vote that the client has heard of, or -1.
func (w *everything) someoneIsNew() (voter int) {
	w.keep.Store(true)
	defer w.keep.Store(false)
	moment, which := time.Duration(5+w.rng.IntN(10))*time.Millisecond, w.rng.IntN(60)
	for i := range 3000 {
		if known := w.newest(i > 1500); len(known) > 0 {
			time.Sleep(moment)
			return known[which%len(known)]
		}
		time.Sleep(2 * time.Millisecond)
	}
	return -1
}

// newest has the lease that was granted last be kept if it was granted a moment ago, and its client does not know all of its votes, or any will do.
// It returns the masters whose votes are known.
func (w *everything) newest(any bool) (known []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.grants) == 0 {
		return nil
	}
	g, all := w.grants[len(w.grants)-1], 0
	if !g.mayLast || g.over || time.Since(g.from) > 30*time.Millisecond {
		return nil
	}
	names := inside.Voters(g.Lease)
	for i, m := range w.c.masters {
		if slices.Contains(names, m.Name()) {
			known = append(known, i)
		}
		if m.Holder(g.Name()) == g.Holder() {
			all++
		}
	}
	if bare := len(known) == 3 && all > 3; !bare && !any {
		return nil
	}
	g.lasts = true
	return known
}

// visit has somebody in each process ask for the lock at once, and not wait for long.
func (w *everything) visit() {
	for i := range w.slots {
		p := w.slots[i].Load()
		w.work.Go(func() {
			l, err := p.Mutex("x", redlock.WithoutFairness(), redlock.WithTTL(longest), redlock.WithMaxWait(500*time.Millisecond)).Lock(p.ctx)
			if err != nil {
				return
			}
			w.granted(p, l, true, 0, 0)
			_ = l.Unlock(p.ctx)
		})
	}
}
