// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// longest is the maximum TTL, and so the wait of a master that lost its data. After healed each master votes, and each lease that goes on
// has its vote there again.
const (
	longest = 6 * time.Second
	healed  = 2*longest + 5*time.Second
	stalled = 2500 * time.Millisecond // for how long a lock may be free while somebody waits: who hears no message asks after 2.1 s
)

// All that a lock can do goes on at once: it is locked, tried, re-entered, extended, handed off, adopted twice and late, forced and has a
// minimum hold. Its processes are closed, shut down and killed. Masters restart with older data, are flushed, evict, refuse writes, freeze,
// are replaced by a copy, and lose what is on its way. The promises are those of everything.judge, and what is said where they are checked.
func TestSim_everything_keepsItsPromises(t *testing.T) {
	needs.NoRace(t, "the race detector leaves a tenth of the speed: the tests of each operation have it")
	needs.Test(t)
	n := 0
	if needs.InSoak(t) {
		n = 400
	}
	did := make(map[string]int)
	for seed := range replay.Many(t, n) {
		simulate(t, func(t *testing.T, c *cluster) {
			newEverything(t, c, seed, did).run()
		})
	}
	t.Log(did)
	for _, what := range []string{"lock", "try", "cancel", "reenter", "extend", "handoff", "adopt", "force", "minhold", "close", "shutdown", "kill"} {
		if replay.Listed() && did[what] == 0 {
			t.Errorf("nobody did %q: %v", what, did)
		}
	}
}

// everything is one run. Its lists are guarded by mu.
type everything struct {
	t       *testing.T
	names   []string // of the locks whose grants are judged
	callers int      // of each process
	strikes int
	hasty   bool                                   // in the calm callers come fast, so that somebody always waits
	more    time.Duration                          // how long all goes on after the strikes
	heals   time.Duration                          // after how long in the calm nothing is left of what went wrong
	began   func(p *process, seed uint64)          // called for each process that was opened; may be nil
	sends   func(p *process, cmd nodetest.Command) // called for each command and message; may be nil
	calmly  func()                                 // what is judged when the faults are over
	hunted  func(checker, text string)             // gets what is wrong; nil: the test fails
	c       *cluster
	rng     *rand.Rand     // the nemesis's
	rough   [5]atomic.Bool // what is on its way to the master is late or lost now and then
	calm    atomic.Bool    // nobody dies, is forced, or keeps a lock for long
	lively  atomic.Bool    // callers come fast, because masters are struck now
	keep    atomic.Bool    // who has a lock keeps it for a moment, or for as long as the nemesis says
	done    atomic.Bool
	work    sync.WaitGroup
	slots   [3]atomic.Pointer[process]
	mu      sync.Mutex
	major   bool // more masters than a minority are struck, or were not long ago
	struck  []int
	before  map[string][]string // the holders of each master's votes when the strike began, by lock
	grants  []*given
	tickets int
	forced  []time.Time    // when a lock was taken from its holder
	evicted []time.Time    // when a master evicted keys
	losses  [5][]time.Time // when a master lost data
	did     map[string]int
	seen    [5][2]struct { // by keptByNobody: the vote and the place that each master has
		by    string
		since time.Time
		told  bool
	}
}

// given is a lease, and what is known of it.
type given struct {
	span
	*redlock.Lease
	of      *process
	over    bool // until says when
	excused bool // it may be lost
	forced  bool
	taken   time.Time // when it was forced
	mayLast bool      // it is kept for some seconds if the nemesis
	lasts   bool      // says so
	minHold time.Duration
	rests   [5]time.Time // until when each master has the lock rest
}

// process is a client until it is closed or killed.
type process struct {
	*member
	team string // its namespace
	ctx  context.Context
	end  func()
	dead atomic.Bool
}

func newEverything(t *testing.T, c *cluster, seed uint64, did map[string]int) *everything {
	w := &everything{t: t, c: c, rng: replay.RNG(seed), did: did, names: []string{"x", "y"}, callers: 2, strikes: 6, hasty: true, heals: healed}
	w.calmly = w.noStall
	return w
}

// wrong says what breaks a promise, and which checker says so.
func (w *everything) wrong(checker, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.hunted != nil {
		w.hunted(checker, text)
		return
	}
	w.t.Errorf("%s: %s", checker, text)
}

func (w *everything) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did[what]++
}

func (w *everything) run() {
	w.c.init(redlock.WithMaxTTL(longest))
	stop := make(chan struct{})
	w.start(w.rng.Uint64()) // one process lives: without any that saw the masters vote, they need Init when a majority lost its data
	for i := range w.slots {
		w.slots[i].Store(w.start(w.rng.Uint64()))
		for range w.callers {
			rng := replay.RNG(w.rng.Uint64())
			w.work.Go(func() {
				for !w.done.Load() {
					w.act(&w.slots[i], rng)
					pause := 400 * time.Millisecond
					if w.lively.Load() || w.calm.Load() && w.hasty {
						pause = 20 * time.Millisecond
					}
					time.Sleep(time.Duration(rng.Int64N(int64(pause))))
				}
			})
		}
	}
	rng := replay.RNG(w.rng.Uint64())
	w.work.Go(func() { // processes end, and others take their places
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rng.IntN(8000)) * time.Millisecond):
			}
			slot := &w.slots[rng.IntN(len(w.slots))]
			p := slot.Load()
			w.finish(p, rng)
			slot.Store(w.start(rng.Uint64()))
		}
	})
	for range w.strikes {
		w.strike()
	}
	time.Sleep(w.more)
	stop <- struct{}{}
	w.calm.Store(true)
	time.Sleep(w.heals)
	w.calmly()
	w.done.Store(true)
	w.work.Wait()
	w.atTheEnd()
	w.judge()
}

// start opens a client, as soon as the masters let it.
func (w *everything) start(seed uint64) *process {
	p := w.startFor("", seed)
	if w.began != nil {
		w.began(p, seed)
	}
	return p
}

// startFor is start in the namespace of a team.
func (w *everything) startFor(team string, seed uint64) *process {
	p := &process{team: team}
	p.ctx, p.end = context.WithCancel(w.t.Context())
	var mu sync.Mutex
	ids := rand.NewPCG(seed, 5)
	withRand := inside.WithRand(func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return ids.Uint64()
	})
	opts := []redlock.Option{redlock.WithMaxTTL(longest), redlock.WithTTL(longest), withRand}
	if team != "" {
		opts = append(opts, redlock.WithNamespace(team))
	}
	for {
		m, err := w.c.masters.Open(p.ctx, nil, opts...)
		if err == nil {
			p.member = &member{m}
			break
		}
		time.Sleep(time.Second)
	}
	for i, way := range p.Ways {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		far := anyOf(rng, time.Millisecond, 2*time.Millisecond, 2*time.Millisecond, 10*time.Millisecond)
		var mu sync.Mutex // a lane has two connections
		way.SetFault(func(cmd nodetest.Command) nodetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			return w.fault(p, i, cmd, far, rng)
		})
	}
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// ofTheDead is what happens on the way of a process that is dead: nothing that it says arrives any more, and it hears nothing.
func ofTheDead(cmd nodetest.Command) nodetest.Fault {
	switch cmd.Name {
	case "message":
		return nodetest.Fault{Lose: nodetest.LoseReply}
	case "dial":
		return nodetest.Fault{Cut: true}
	}
	return nodetest.Fault{Lose: nodetest.LoseCommand, Cut: true}
}

// fault is what happens on the way to master i.
func (w *everything) fault(p *process, i int, cmd nodetest.Command, far time.Duration, rng *rand.Rand) (f nodetest.Fault) {
	if w.sends != nil {
		w.sends(p, cmd)
	}
	if p.dead.Load() {
		return ofTheDead(cmd)
	}
	late := time.Duration(rng.Int64N(int64(far)))
	if w.rough[i].Load() && rng.IntN(10) == 0 {
		switch rng.IntN(4) {
		case 0:
			f.Lose = nodetest.LoseReply
		case 1:
			f.Lose = nodetest.LoseCommand
		case 2:
			f.Cut = true
		default:
			late += time.Duration(rng.IntN(1000)) * time.Millisecond
		}
	}
	if cmd.Name == "message" {
		f.ReplyDelay = late
	} else {
		f.Delay = late
	}
	return f
}

// finish ends a process: it is closed, shut down or killed.
func (w *everything) finish(p *process, rng *rand.Rand) {
	switch rng.IntN(4) {
	case 0:
		w.note("close")
		_ = p.Close()
	case 1:
		w.note("shutdown")
		ctx, cancel := context.WithTimeout(p.ctx, time.Duration(rng.IntN(2000))*time.Millisecond)
		_ = p.Shutdown(ctx)
		cancel()
	default:
		w.note("kill")
		w.mu.Lock()
		for _, g := range w.grants {
			if g.of == p && !g.over { // what it claimed stands
				g.over, g.until = true, g.ValidUntil()
			}
		}
		p.dead.Store(true)
		w.mu.Unlock()
		for _, way := range p.Ways {
			way.Cut()
		}
		_ = p.Close()
	}
	p.end()
}

// granted records a lease that the process p was granted. minHold is of a lease that was locked, ticket of one that was adopted.
func (w *everything) granted(p *process, l *redlock.Lease, renewed bool, minHold time.Duration, ticket int) *given {
	g := &given{span: span{from: time.Now(), token: l.Token(), voucher: ticket, who: l.Holder()}, Lease: l, of: p, minHold: minHold}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() { // nobody hears of it
		return g
	}
	g.excused = w.major || !renewed
	if minHold > 0 {
		for i, m := range w.c.masters {
			_ = m.Do(func(db *nodetest.DB) {
				if rest, _ := db.Get(protocol.NewLock(l.Name(), protocol.Plain).Rest); strings.Contains(rest, l.Holder()) {
					g.rests[i] = time.Now().Add(time.Duration(db.PTTL(protocol.NewLock(l.Name(), protocol.Plain).Rest)) * time.Millisecond)
				}
			})
		}
	}
	w.grants = append(w.grants, g)
	context.AfterFunc(l.Context(), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if cause := context.Cause(l.Context()); !g.over && !g.excused && !g.forced && errors.Is(cause, redlock.ErrLost) && w.spared(l) > 2 {
			w.wrong("kept", "%v: a lease of %v was lost with a minority of the masters struck: %v; the votes are of %q, before the strike %q, its holder is %q", time.Now(), time.Since(g.from), cause,
				w.holders(l.Name()), w.before[l.Name()], l.Holder())
		}
		if !g.over {
			g.over, g.until = true, time.Now()
			if until := l.ValidUntil(); until.Before(g.until) {
				g.until = until
			}
		}
	})
	return g
}

func anyOf[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// act has a caller in the process of a slot take a lock in some way, do something with it, and give it back.
func (w *everything) act(slot *atomic.Pointer[process], rng *rand.Rand) {
	p, calm := slot.Load(), w.calm.Load()
	opts := []redlock.LockOption{redlock.WithReentry()}
	renewed, minHold, ttl := true, time.Duration(0), longest
	if !calm {
		ttl = anyOf(rng, 2*time.Second, longest, longest)
		opts = append(opts, redlock.WithTTL(ttl))
		if renewed = rng.IntN(4) > 0; !renewed {
			opts = append(opts, redlock.WithoutRenewal())
		}
		if rng.IntN(4) == 0 {
			minHold = time.Duration(rng.IntN(5000)) * time.Millisecond
			opts = append(opts, redlock.WithMinHold(minHold))
		}
	}
	if rng.IntN(5) == 0 {
		opts = append(opts, redlock.WithoutFairness())
	}
	name := "x" // in the calm, so that somebody always waits for it
	if !calm {
		name = anyOf(rng, "x", "x", "x", "y")
	}
	m := p.Mutex(name, opts...)
	l, err := w.take(p, m, rng)
	if err != nil {
		return
	}
	g := w.granted(p, l, renewed, minHold, 0)
	if minHold > 0 {
		w.note("minhold")
	}
	if w.keep.Load() && renewed && ttl == longest && name == "x" {
		w.mu.Lock()
		g.mayLast = true
		w.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
		w.mu.Lock()
		lasts := g.lasts
		w.mu.Unlock()
		if lasts {
			select {
			case <-l.Context().Done():
			case <-time.After(3 * time.Second):
			}
		}
	}
	for range rng.IntN(3) {
		w.use(g, m, rng)
	}
	switch rng.IntN(8) {
	case 0, 1:
		if !w.calm.Load() { // held until something ends it
			select {
			case <-l.Context().Done():
			case <-time.After(time.Duration(rng.IntN(anyOf(rng, 2_000, 12_000))) * time.Millisecond):
			}
		}
	case 2:
		if !w.calm.Load() { // a connection that breaks may use a ticket up, and then the lock is free when its TTL is over
			w.handOff(g, rng)
		}
	}
	_ = l.Unlock(p.ctx)
}
