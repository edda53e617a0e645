// SPDX-License-Identifier: Apache-2.0

// Package historytest generates histories for tests of checkers and reports. It simulates clients and masters with events on a simulated
// clock. It does not run the lock.
//
// Guarantee: the simulated lock is correct, so every history made here passes every checker that judges safety, on
// condition that clocks are perfect, which they are here: time is simulated. Its clients are not careful: they pause beyond
// their leases and are killed, so the unfenced register may lose updates.
package historytest

import (
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// Shape is the size of a run. All fields must be positive, but for ReadWrite, Faults and PauseOneIn.
type Shape struct {
	Duration   time.Duration // how long clients begin new work; outages of the quorum come on top, so that every seed does as much
	Clients    int
	Locks      int
	ReadWrite  int           // how many of the locks are read-write locks
	TTL        time.Duration // of every lease
	Think      time.Duration // mean time of a client between two locks
	Hold       time.Duration // mean time of work under a lock
	PauseOneIn int           // one hold in so many is slept through until after the lease; 0: none
	Faults     bool          // masters are stopped, killed and cut off
}

// Small is a run of a minute that has something of everything, about 20,000 operations.
func Small() Shape {
	return Shape{
		Duration: time.Minute, Clients: 12, Locks: 4, ReadWrite: 1, TTL: 2 * time.Second, Think: 20 * time.Millisecond, Hold: 10 * time.Millisecond,
		PauseOneIn: 150, Faults: true,
	}
}

const (
	masters = 5
	// start is the first instant: not 0, which would hide code that forgets to subtract it.
	start = int64(3 * time.Hour)
)

// Generate simulates a run. The same seed and shape give the same history.
func Generate(seed uint64, shape Shape) *history.History {
	s := &sim{
		Shape: shape, rng: rand.New(rand.NewPCG(seed, 1)), now: start, end: start + int64(shape.Duration),
		h: &history.History{Header: history.Header{
			Started: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), Seed: seed, Driver: "simulation", Masters: masters, TTL: shape.TTL,
			Replay:   fmt.Sprintf("REDLOCK_SEED=%d go test ./chaos/judge -run TestAll", seed),
			Promises: history.Promises{Exclusion: true, Tokens: true},
			Versions: map[string]string{"redlock": "v0.0.0-simulated", "redis": "none", "go": "go1.26"},
		}},
	}
	for i := range shape.Locks {
		s.locks = append(s.locks, &lock{name: fmt.Sprintf("lock-%02d", i), rw: i < shape.ReadWrite, holds: map[string]hold{}})
	}
	if shape.Faults {
		s.planFaults()
	}
	for i := range shape.Clients {
		s.spawn(fmt.Sprintf("p%d/g%d", i%4, i/4), (*client).work)
	}
	s.spawn("monitor", (*client).monitor)
	s.run()
	s.now = max(s.now, s.healed) + int64(shape.TTL) // no lease outlives this
	s.spawn("prober", (*client).probe)
	s.run()
	merged, err := history.Merge(s.h)
	if err != nil {
		panic(err) // merging one history with nothing cannot fail
	}
	return merged
}

// sim is a discrete event simulation: each client is a coroutine that yields the instant at which it wants to go on.
type sim struct {
	Shape
	rng    *rand.Rand
	now    int64
	end    int64
	events events
	seq    int
	locks  []*lock
	h      *history.History
	down   []outage
	healed int64
	kills  [masters]int
}

type event struct {
	at  int64
	seq int // equal instants in the order of scheduling, or the history would depend on the heap
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func (s *sim) at(t int64, do func()) {
	s.seq++
	heap.Push(&s.events, event{max(t, s.now), s.seq, do})
}

func (s *sim) run() {
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
}

// about is a random time around the mean, never 0.
func (s *sim) about(mean time.Duration) int64 {
	return 1 + int64(float64(mean)*min(s.rng.ExpFloat64(), 8))
}

// trip is half a round trip to the masters.
func (s *sim) trip() int64 { return 100_000 + s.about(150*time.Microsecond) }

type client struct {
	*sim
	id    string
	yield func(int64) bool
	next  func() (int64, bool)
	wakes int // outdates wake-ups that were planned before the last one
	lives int
}

func (s *sim) spawn(id string, body func(*client)) {
	c := &client{sim: s, id: id}
	var stop func()
	c.next, stop = iter.Pull(func(yield func(int64) bool) {
		c.yield = yield
		body(c)
	})
	_ = stop // every body runs to its end: nothing to stop
	c.wakeAt(s.now)
}

func (c *client) wakeAt(t int64) {
	c.wakes++
	this := c.wakes
	c.at(t, func() {
		if this != c.wakes {
			return
		}
		if t, ok := c.next(); ok {
			c.wakeAt(t)
		}
	})
}

func (c *client) until(t int64) { c.yield(t) }
func (c *client) sleep(d int64) { c.yield(c.now + d) }

func (c *client) record(op history.Op) {
	op.Client = c.id
	c.h.Ops = append(c.h.Ops, op)
}

// work is the life of a client: lock, read and write both registers, unlock.
func (c *client) work() {
	for c.now < c.end {
		c.sleep(c.about(c.Think))
		l := c.locks[c.rng.IntN(len(c.locks))]
		if g, ok := c.lock(l); ok {
			c.hold(l, g)
		}
		c.sleep(1) // operations of one client do not touch
	}
}

func (c *client) lock(l *lock) (history.Op, bool) {
	op := history.Op{Kind: history.KindLock, Call: c.now, Lock: l.name, Mode: l.mode(c.rng), Outcome: history.Failed}
	w := &waiter{client: c, mode: op.Mode, holder: fmt.Sprintf("%s:%d", c.id, c.seq)}
	c.sleep(c.trip())
	switch {
	case c.outage(c.now) > masters/2:
		op.Error = "no quorum"
		c.sleep(int64(50 * time.Millisecond))
	case c.rng.IntN(4) == 0 && !l.free(op.Mode): // TryLock
		op.Error = "held"
	default:
		l.queue = append(l.queue, w)
		l.admit(c.sim)
		if w.token == 0 {
			c.until(c.now + c.about(c.TTL)) // admit cuts this short
		}
		if w.token == 0 {
			l.leave(w)
			op.Error = "timeout"
		}
	}
	c.sleep(c.trip())
	op.Return = c.now
	if w.token != 0 {
		op.Holder, op.Token, op.Outcome = w.holder, w.token, history.OK
		op.Deadline = w.granted + int64(c.TTL)*98/100 - int64(2*time.Millisecond) // the key lives for TTL from granted on
	}
	c.record(op)
	return op, w.token != 0
}

func (c *client) hold(l *lock, g history.Op) {
	fate := c.rng.IntN(1 << 20)
	if g.Mode == history.Shared {
		c.register(l, g, history.KindRead, true, 0)
	} else {
		fenced, ok := c.register(l, g, history.KindRead, true, 0)
		plain, _ := c.register(l, g, history.KindRead, false, 0)
		if c.PauseOneIn > 0 && fate%c.PauseOneIn == 0 {
			c.sleep(int64(c.TTL) + c.about(c.TTL/2)) // it will not notice
		}
		c.sleep(c.about(c.Hold))
		if ok {
			c.register(l, g, history.KindWrite, true, fenced+1)
		}
		c.register(l, g, history.KindWrite, false, plain+1)
	}
	if fate%7 == 0 && c.now < g.Deadline {
		c.extend(l, &g)
		c.sleep(c.about(c.Hold))
	}
	c.unlock(l, g, fate%997 == 0)
}

// register reads or writes the register of l, with the token if it is the fenced one, and gives the value read.
func (c *client) register(l *lock, g history.Op, kind history.Kind, fenced bool, v int64) (int64, bool) {
	op := history.Op{Kind: kind, Call: c.now, Lock: l.name, Fenced: fenced, Outcome: history.OK, Value: v}
	c.sleep(c.trip() / 4)
	value := &l.plain
	if fenced {
		value = &l.fenced
		if g.Mode != history.Shared { // readers run in any order among themselves: they show no token
			op.Token = g.Token
		}
	}
	switch {
	case op.Token != 0 && op.Token < l.fence:
		op.Outcome, op.Error = history.Failed, "stale token"
	case kind == history.KindWrite:
		*value = v
	default:
		op.Value = *value
	}
	if op.Outcome == history.OK {
		l.fence = max(l.fence, op.Token)
	}
	c.sleep(c.trip() / 4)
	op.Return = c.now
	c.record(op)
	c.sleep(1)
	return op.Value, op.Outcome == history.OK
}

func (c *client) extend(l *lock, g *history.Op) {
	op := history.Op{Kind: history.KindExtend, Call: c.now, Lock: l.name, Holder: g.Holder, Outcome: history.Failed, Error: "not held"}
	c.sleep(c.trip())
	if hd, ok := l.holds[g.Holder]; ok && hd.expires > c.now {
		hd.expires = c.now + int64(c.TTL)
		l.holds[g.Holder] = hd
		c.at(hd.expires, func() { l.admit(c.sim) })
		op.Outcome, op.Error = history.OK, ""
		op.Deadline = op.Call + int64(c.TTL)*98/100 - int64(2*time.Millisecond)
	}
	c.sleep(c.trip())
	op.Return = c.now
	c.record(op)
	c.sleep(1)
	if op.Outcome == history.OK && op.Return < g.Deadline {
		g.Deadline = op.Deadline
	}
}

// unlock gives the lock back. A client killed in it leaves its first record only, and a new client takes its place.
func (c *client) unlock(l *lock, g history.Op, killed bool) {
	op := history.Op{Kind: history.KindUnlock, Call: c.now, Return: history.Never, Lock: l.name, Holder: g.Holder, Outcome: history.Unknown}
	c.sleep(c.trip())
	hd, ok := l.holds[g.Holder]
	ok = ok && hd.expires > c.now
	delete(l.holds, g.Holder)
	l.admit(c.sim)
	if killed {
		c.record(op)
		c.lives++
		c.id = fmt.Sprintf("%s.%d", c.id, c.lives)
		return
	}
	c.sleep(c.trip())
	op.Return, op.Outcome = c.now, history.OK
	if !ok {
		op.Outcome, op.Error = history.Failed, "not held"
	}
	c.record(op)
}

// probe shows at the end that every lock can be taken.
func (c *client) probe() {
	for _, l := range c.locks {
		op := history.Op{Kind: history.KindProbe, Call: c.now, Lock: l.name, Outcome: history.OK}
		c.sleep(4 * c.trip())
		op.Return = c.now
		c.record(op)
		c.sleep(1)
		c.register(l, history.Op{Token: l.fence}, history.KindRead, true, 0)
		c.register(l, history.Op{}, history.KindRead, false, 0)
	}
}
