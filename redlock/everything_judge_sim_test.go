// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

func (w *everything) take(p *process, m *redlock.Mutex, rng *rand.Rand) (*redlock.Lease, error) {
	switch rng.IntN(6) {
	case 0:
		w.note("try")
		return m.TryLock(p.ctx)
	case 1:
		w.note("try")
		return inside.LockFor(p.ctx, m, time.Duration(rng.IntN(2000))*time.Millisecond)
	case 2:
		w.note("cancel")
		ctx, cancel := context.WithTimeout(p.ctx, time.Duration(rng.IntN(anyOf(rng, 5_000, 100_000)))*time.Microsecond)
		defer cancel()
		return m.Lock(ctx)
	}
	w.note("lock")
	return m.Lock(p.ctx)
}

// use does something with a lease.
func (w *everything) use(g *given, m *redlock.Mutex, rng *rand.Rand) {
	time.Sleep(time.Duration(rng.IntN(anyOf(rng, 2_000, 200_000))) * time.Microsecond)
	switch rng.IntN(6) {
	case 0:
		w.note("extend")
		_ = g.Extend(g.of.ctx)
	case 1:
		if inner, err := m.Lock(g.Context()); err == nil {
			w.note("reenter")
			time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
			_ = inner.Unlock(g.of.ctx)
		}
	case 2:
		if !w.calm.Load() {
			w.force(g, w.slots[rng.IntN(3)].Load())
		}
	}
}

// handOff gives a lease to other processes, of which several may try to adopt it, some of them late.
func (w *everything) handOff(g *given, rng *rand.Rand) {
	text, err := g.Transfer(g.of.ctx)
	if err != nil {
		return
	}
	w.note("handoff")
	w.mu.Lock()
	w.tickets++
	ticket := w.tickets
	w.mu.Unlock()
	var heirs sync.WaitGroup
	defer heirs.Wait()
	for i := range 3 {
		heir, rng := w.slots[rng.IntN(3)].Load(), replay.RNG(rng.Uint64())
		late := time.Duration(rng.IntN(anyOf(rng, 3, 3, 8000))) * time.Millisecond
		heirs.Go(func() {
			time.Sleep(late * time.Duration(i))
			l, err := heir.Adopt(heir.ctx, text)
			if err != nil {
				return
			}
			w.note("adopt")
			w.granted(heir, l, true, 0, ticket)
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			_ = l.Unlock(heir.ctx)
		})
	}
}

// force has an operator take the lock from its holder. The holder is told before its TTL is over, and no quorum has its votes again.
func (w *everything) force(g *given, operator *process) {
	w.mu.Lock()
	g.forced, g.taken = true, time.Now()
	if now := time.Now(); !g.over || g.until.After(now) { // the next may begin from now on, also if the holder was killed before
		g.until, g.over = now, true
	}
	w.forced = append(w.forced, time.Now())
	w.mu.Unlock()
	if operator.ForceUnlock(operator.ctx, g.Name(), g.Holder()) != nil {
		return
	}
	w.note("force")
	for range 12 {
		n := 0
		for _, m := range w.c.masters {
			if m.Holder(g.Name()) == g.Holder() {
				n++
			}
		}
		w.mu.Lock()
		major := w.major
		w.mu.Unlock()
		if n > 2 && !major {
			w.wrong("forced", "%d votes of a holder that was forced", n)
		}
		time.Sleep(longest / 12)
	}
	w.mu.Lock()
	excused := g.excused // a majority with older data has the votes again, and does not know the bar
	w.mu.Unlock()
	if g.Err() == nil && !excused {
		w.wrong("forced", "the lease with token %d goes on after it was forced", g.Token())
	}
}

// noStall is a while in which no process dies and no master is struck, but connections break. Somebody always waits, and has the lock soon
// after it is free.
func (w *everything) noStall() {
	begun := time.Now()
	for time.Since(begun) < 10*time.Second {
		for range 6 + w.rng.IntN(4) { // one at a time: it is dialled again within 250 ms
			time.Sleep(100 * time.Millisecond)
			w.keptByNobody()
		}
		w.slots[w.rng.IntN(3)].Load().Ways[w.rng.IntN(5)].Cut()
	}
	ended := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	var last time.Time
	for _, g := range w.sorted("x") {
		if gap := g.from.Sub(last); last.After(begun) && g.from.Before(ended) && gap > stalled {
			w.wrong("stalled", "%v: the lock was free for %v", g.from, gap)
		}
		last = g.until
		if !g.over {
			last = g.from
		}
	}
}

// keptByNobody looks for a vote, and for a place at the head of a queue, that one master has had for long while the lock went from hand to
// hand. Nobody counts it, and nobody gives it back.
func (w *everything) keptByNobody() {
	queue := protocol.NewLock("x", protocol.Plain).Queue
	for i, m := range w.c.masters {
		head := ""
		_ = m.Do(func(db *nodetest.DB) {
			if slices.Contains(db.Keys(), queue) {
				head = db.ZRange(queue, -1)[0]
			}
		})
		for k, has := range [2]string{m.Holder("x"), head} {
			if seen := &w.seen[i][k]; seen.by != has {
				seen.by, seen.since = has, time.Now()
			} else if since := time.Since(seen.since); has != "" && since > stalled && !seen.told {
				seen.told = true
				w.wrong("left", "%v: m%d has had the %s of %s for %v", time.Now(), i, [2]string{"vote", "place"}[k], has, since)
			}
		}
	}
}

// atTheEnd has everybody leave. Nothing is left of what they did, and a fresh client has the locks at once.
func (w *everything) atTheEnd() {
	time.Sleep(5 * time.Second) // What was not acknowledged is sent again. Nobody used y lately: a place of a process that was killed may be there.
	for _, m := range w.c.masters {
		l := protocol.NewLock("x", protocol.Plain)
		for _, key := range []string{l.Key, l.Queue, l.Rest} {
			if left := m.PTTL(key); left > -2*time.Millisecond {
				w.wrong("left", "%s has %q for %v", m.Name(), key, left)
			}
		}
	}
	for i := range w.slots {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*longest) // nobody holds anything
		if err := w.slots[i].Load().Shutdown(ctx); err != nil {
			w.wrong("left", "Shutdown: %v", err)
		}
		cancel()
	}
	fresh := w.startFor("", 0)
	for _, name := range w.names {
		l, err := fresh.Mutex(name).TryLock(w.t.Context())
		if err != nil {
			w.wrong("left", "a fresh client: %v", err)
			continue
		}
		w.granted(fresh, l, true, 0, 0)
		if err := l.Unlock(w.t.Context()); err != nil {
			w.wrong("left", "a fresh client unlocks: %v", err)
		}
	}
	if err := fresh.Shutdown(w.t.Context()); err != nil {
		w.wrong("left", "Shutdown: %v", err)
	}
	time.Sleep(6 * longest)
	for _, m := range w.c.masters {
		if left := slices.DeleteFunc(m.Keys(), func(k string) bool { return strings.HasSuffix(k, protocol.RecordKey) }); len(left) > 0 {
			w.wrong("left", "%s has %q", m.Name(), left)
		}
	}
}

// spared is how many masters that were not struck had the vote of a lease when the strike began, or have it now. A lease with fewer may be
// lost: others had votes of that lock, or the releases of a holder that was killed never came.
func (w *everything) spared(l *redlock.Lease) int {
	before, now := 0, 0
	had := w.before[l.Name()] // nothing, if nothing was struck yet
	for i, holder := range w.holders(l.Name()) {
		if slices.Contains(w.struck, i) {
			continue
		}
		if i < len(had) && had[i] == l.Holder() {
			before++
		}
		if holder == l.Holder() {
			now++
		}
	}
	return max(before, now)
}

// holders are those of a lock's votes, by master.
func (w *everything) holders(lock string) (all []string) {
	for _, m := range w.c.masters {
		all = append(all, m.Holder(lock))
	}
	return all
}

// sorted returns the grants of a lock in the order of time.
func (w *everything) sorted(lock string) (of []*given) {
	for _, g := range w.grants {
		if g.Name() == lock {
			of = append(of, g)
		}
	}
	slices.SortStableFunc(of, func(a, b *given) int { return a.from.Compare(b.from) })
	return of
}

// judge checks what holds whatever happens: no two leases of a lock are valid at one time, tokens grow, a ticket is adopted once, and a lock rests
// while a quorum of masters knows it.
func (w *everything) judge() {
	for _, name := range w.names {
		of := w.sorted(name)
		var spans []span
		for i, g := range of {
			if !g.over {
				w.wrong("exclusion", "a lease of %s with token %d never ends", name, g.token)
			}
			if i > 0 && w.unnoticed(g.from) && spans[i-1].until.After(g.from) {
				spans[i-1].until = g.from
			}
			spans = append(spans, g.span)
			w.judgeRest(g, of[i+1:])
		}
		_, wrong := overlaps(spans)
		for _, text := range wrong {
			w.wrong("exclusion", "%s: %s", name, text)
		}
		if len(wrong) > 0 && w.hunted == nil {
			for _, g := range of {
				w.t.Logf("%s: %v to %v token %d %s ticket %d forced %v excused %v killed %v minimum hold %v: %v", name, g.from, g.until, g.token, g.who, g.voucher,
					g.forced, g.excused, g.of.dead.Load(), g.minHold, context.Cause(g.Context()))
			}
		}
	}
}

// unnoticed says whether what was granted then may have a vote that missed an eviction: the last 20 ms are not promised (A10), and the answers
// have their ways.
func (w *everything) unnoticed(then time.Time) bool {
	return slices.ContainsFunc(w.evicted, func(at time.Time) bool { return !then.Before(at) && then.Sub(at) < 30*time.Millisecond })
}

// judgeRest checks that nobody after g was granted the lock while a quorum of masters had it rest.
func (w *everything) judgeRest(g *given, after []*given) {
	for _, next := range after {
		know := 0
		for i, until := range g.rests {
			lost := slices.ContainsFunc(w.losses[i], func(at time.Time) bool { return !at.Before(g.from) && at.Before(next.from) })
			if next.from.Before(until) && !lost {
				know++
			}
		}
		lifted := slices.ContainsFunc(w.forced, func(at time.Time) bool { return at.After(g.from) && at.Before(next.from) })
		if next.voucher == 0 && know > 2 && !lifted {
			w.wrong("rest", "token %d after %d: granted %v after the grant, and the minimum hold is %v", next.token, g.token, next.from.Sub(g.from), g.minHold)
		}
	}
}
