// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/election"
	"github.com/redlock-go/redlock/flight"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/replay"
	"github.com/redlock-go/redlock/multilock"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/semaphore"
)

// features is the world of everything, in which each process also stands for election, observes it, takes permits and several locks at once,
// runs a job once a period and loads what many want. An operator forces leaders, permits, members and jobs. A team locks the same names
// in a namespace of its own. What each has by its own account is in the book, which the checkers of features_judge_sim_test.go judge.
type features struct {
	*everything
	book
	over  context.Context // ends when all have done enough
	end   func()
	begun time.Time
	quiet bool              // the faults are over, and what they left is
	store map[string]string // what the flights load
	team  *process
	only  string // the parts that are played; empty: all
}

const (
	permitsInAll = 2
	period       = 3 * time.Second
	fresh        = time.Second // for how long what was loaded is good
)

// Whatever stands on the lock keeps its promises while all of it goes on at once, over masters and processes that fail.
func TestSim_features_keepTheirPromises(t *testing.T) {
	needs.Test(t)
	needs.NoRace(t, "the race detector leaves a tenth of the speed: the tests of each feature have it")
	n := 0
	if needs.InSoak(t) {
		n = 300
	}
	did := make(map[string]int)
	for seed := range replay.Many(t, n) {
		simulate(t, func(t *testing.T, c *cluster) { newFeatures(t, c, seed, did, "").run() })
	}
	t.Log(did)
	for _, what := range []string{"lead", "resign", "observe", "permit", "permit waited", "second permit", "multi", "multi refused", "every", "load", "loaded by another",
		"team", "force", "handoff", "adopt", "kill", "forced leader", "forced permit", "forced member"} {
		if replay.Listed() && did[what] == 0 {
			t.Errorf("nobody did %q: %v", what, did)
		}
	}
}

// newFeatures is a world with these parts alone and without faults of masters, or with everything.
func newFeatures(t *testing.T, c *cluster, seed uint64, did map[string]int, only string) *features {
	w := &features{everything: newEverything(t, c, seed, did), only: only, begun: time.Now(), store: make(map[string]string)}
	w.over, w.end = context.WithCancel(context.Background())
	w.names = []string{"x", "y", "e", "s:slot:1", "s:slot:2", "a", "b", "c", "j", "f"}
	w.callers, w.strikes, w.hasty = 1, 2, false
	if only != "" {
		w.strikes, w.more, w.heals = 0, 20*time.Second, 10*time.Second // what is held is given back by then
	}
	if !w.plays("lock") {
		w.callers = 0
	}
	w.began, w.calmly, w.sends = w.live, w.inCalm, w.watchKeys
	return w
}

func (w *features) plays(part string) bool { return w.only == "" || strings.Contains(w.only, part) }

func (w *features) run() {
	defer w.end()
	w.c.init(redlock.WithMaxTTL(longest), redlock.WithNamespace("team"))
	if w.team = w.startFor("team", w.rng.Uint64()); w.plays("team") {
		w.loop(w.team, replay.RNG(w.rng.Uint64()), 1500*time.Millisecond, w.teamwork)
		w.loop(w.team, replay.RNG(w.rng.Uint64()), 1500*time.Millisecond, w.teamwork)
	}
	if rng := replay.RNG(w.rng.Uint64()); w.plays("force") {
		w.work.Go(func() { w.operate(rng) })
	}
	w.everything.run()
	w.judgeBook()
}

// live has a process do what stands on the lock, until it ends.
func (w *features) live(p *process, seed uint64) {
	part := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	if w.plays("lead") {
		w.work.Go(func() { w.campaign(p, part(0)) })
		w.work.Go(func() { w.observe(p) })
	}
	if w.plays("permit") {
		s := semaphore.New(p.Client.Client, "s", permitsInAll, redlock.WithReentry())
		callers := uint64(2)
		if strings.Contains(w.only, "crowd") { // who is passed by, is passed by many
			callers = 8
		}
		for i := range callers {
			w.loop(p, part(1+i), 500*time.Millisecond, func(ctx context.Context, p *process, rng *rand.Rand) { w.permit(ctx, p, s, rng) })
		}
	}
	if w.plays("several") {
		w.loop(p, part(3), 1000*time.Millisecond, w.several)
	}
	if w.plays("job") {
		w.loop(p, part(4), 700*time.Millisecond, w.job)
	}
	if w.plays("load") {
		w.loop(p, part(5), fresh, w.load)
	}
}

// loop has a process do something again and again until it ends.
func (w *features) loop(p *process, rng *rand.Rand, pause time.Duration, do func(context.Context, *process, *rand.Rand)) {
	w.work.Go(func() {
		ctx, cancel := w.of(p)
		defer cancel()
		for ctx.Err() == nil {
			sleepFor(ctx, time.Duration(rng.Int64N(int64(pause))))
			do(ctx, p, rng)
		}
	})
}

// of is a context that ends with the process, and when all have done enough.
func (w *features) of(p *process) (context.Context, func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	stop := context.AfterFunc(w.over, cancel)
	return ctx, func() { stop(); cancel() }
}

func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// campaign has the process stand for election e.
func (w *features) campaign(p *process, rng *rand.Rand) {
	ctx, cancel := w.of(p)
	defer cancel()
	value := fmt.Sprintf("%x", rng.Uint64())
	e := election.New(p.Client.Client, "e", election.WithValue(value), election.WithPause(300*time.Millisecond))
	for ctx.Err() == nil {
		_ = e.Run(ctx, func(ctx context.Context, now *election.Term) error {
			lease := redlock.LeaseFrom(ctx)
			t := &turn{given: w.granted(p, lease, true, 0, 0), value: value}
			w.begins(&w.terms, t)
			defer w.ends(t, ctx)
			w.note("lead")
			switch rng.IntN(3) {
			case 0:
				if !w.calm.Load() {
					time.AfterFunc(time.Duration(rng.IntN(2000))*time.Millisecond, func() {
						w.note("resign")
						short, cancel := context.WithTimeout(p.ctx, time.Second)
						defer cancel()
						_ = e.Resign(short)
					})
				}
			case 1:
				if !w.calm.Load() {
					sleepFor(ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
					return nil
				}
			}
			<-ctx.Done()
			return nil
		})
		sleepFor(ctx, time.Second) // the client was closed
	}
}

// observe keeps what the process sees of the election.
func (w *features) observe(p *process) {
	ctx, cancel := w.of(p)
	defer cancel()
	for ctx.Err() == nil {
		for leader, err := range election.New(p.Client.Client, "e").Observe(ctx) {
			w.note("observe")
			w.sees(p, leader.Token, leader.Value, err)
		}
		sleepFor(ctx, time.Second)
	}
}

// permit takes a permit, and sometimes another beside it.
func (w *features) permit(ctx context.Context, p *process, s *semaphore.Semaphore, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(2000+rng.IntN(8000))*time.Millisecond)
	defer cancel()
	take, waits := s.Acquire, true
	if rng.IntN(6) == 0 {
		take, waits = s.TryAcquire, false
	}
	c := w.calls(waits)
	permit, err := take(ctx)
	if w.served(c, err); err != nil {
		return
	}
	defer func() { _ = permit.Release(p.ctx) }()
	w.note("permit")
	if time.Since(c.from) > 50*time.Millisecond {
		w.note("permit waited")
	}
	t := w.holds(p, permit)
	defer w.ends(t, permit.Context())
	if rng.IntN(5) == 0 {
		short, cancel := context.WithTimeout(permit.Context(), 300*time.Millisecond)
		second, err := s.Acquire(short)
		cancel()
		if err == nil {
			w.note("second permit")
			t := w.holds(p, second)
			sleepFor(second.Context(), time.Duration(rng.IntN(50))*time.Millisecond)
			w.ends(t, second.Context())
			_ = second.Release(p.ctx)
		}
	}
	most := 300
	if !w.calm.Load() {
		most = anyOf(rng, 300, 300, 8000)
	}
	sleepFor(permit.Context(), time.Duration(rng.IntN(most))*time.Millisecond)
}

func (w *features) holds(p *process, permit *semaphore.Permit) *turn {
	t := &turn{given: w.granted(p, redlock.LeaseFrom(permit.Context()), true, 0, 0), slot: permit.Slot()}
	w.begins(&w.permits, t)
	return t
}

// several takes two or three locks at once.
func (w *features) several(ctx context.Context, p *process, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(500+rng.IntN(5000))*time.Millisecond)
	defer cancel()
	var members []redlock.Locker
	for _, i := range rng.Perm(3)[:2+rng.IntN(2)] {
		members = append(members, p.Mutex(string(rune('a'+i))))
	}
	l := multilock.New(members...)
	take := anyOf(rng, l.Lock, l.TryLock)
	lease, err := take(ctx)
	if err != nil {
		w.note("multi refused")
		w.keepsNothing(ctx, p)
		return
	}
	w.note("multi")
	m := &bundle{began: time.Now()}
	for _, l := range lease.Members() {
		m.members = append(m.members, w.granted(p, l, true, 0, 0))
	}
	w.mu.Lock()
	w.multis = append(w.multis, m)
	w.mu.Unlock()
	most := 200
	if !w.calm.Load() {
		most = anyOf(rng, 200, 200, 9000)
	}
	sleepFor(lease.Context(), time.Duration(rng.IntN(most))*time.Millisecond)
	w.mu.Lock()
	m.ended = time.Now()
	w.mu.Unlock()
	_ = lease.Unlock(p.ctx)
}

// job runs j, if it is time.
func (w *features) job(ctx context.Context, p *process, rng *rand.Rand) {
	called := time.Now()
	_, _ = p.Every("j", period).Do(ctx, func(ctx context.Context, l *redlock.Lease) error {
		w.note("every")
		g := w.granted(p, l, true, period, 0)
		w.mu.Lock()
		if !p.dead.Load() {
			w.jobs = append(w.jobs, &job{called: called, began: time.Now(), given: g})
		}
		w.mu.Unlock()
		sleepFor(ctx, time.Duration(rng.IntN(anyOf(rng, 200, 200, 5000)))*time.Millisecond)
		return nil
	})
}

// load wants what f loads, which is old after a while.
func (w *features) load(ctx context.Context, p *process, rng *rand.Rand) {
	key := fmt.Sprint(int(time.Since(w.begun) / fresh))
	read := func(ctx context.Context) (string, bool, error) {
		w.mu.Lock()
		v, found := w.store[key]
		w.mu.Unlock()
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond) // the answer is on its way
		return v, found, nil
	}
	mine := false
	_, err := flight.Do(ctx, p.Client.Client, "f", read, func(ctx context.Context) (string, error) {
		mine = true
		w.note("load")
		g := w.granted(p, redlock.LeaseFrom(ctx), true, 0, 0)
		w.mu.Lock()
		l := &load{key: key, began: time.Now(), again: w.store[key] != "", given: g}
		if !p.dead.Load() {
			w.loads = append(w.loads, l)
		}
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			l.ended = time.Now()
		}()
		sleepFor(ctx, time.Duration(rng.IntN(anyOf(rng, 20, 20, 200)))*time.Millisecond)
		if ctx.Err() != nil || p.dead.Load() {
			return "", errors.New("too late")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.store[key] = "loaded"
		return key, nil
	})
	if err == nil && !mine {
		w.note("loaded by another")
	}
}

// teamwork locks what the others lock, in the namespace of the team, where nobody else is.
func (w *features) teamwork(ctx context.Context, p *process, rng *rand.Rand) {
	m := p.Mutex(anyOf(rng, "x", "e", "s:slot:1", "a", "j"))
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	l, err := m.Lock(short)
	switch {
	case err == nil:
		w.note("team")
		sleepFor(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
		_ = l.Unlock(p.ctx)
	case w.isQuiet() && ctx.Err() == nil:
		w.wrong("namespaces", "%q is not free in a namespace of its own: %v", m.Name(), err)
	}
}

// operate has an operator force whoever holds something.
func (w *features) operate(rng *rand.Rand) {
	for !w.calm.Load() {
		sleepFor(w.over, time.Duration(rng.IntN(2000))*time.Millisecond)
		if g := w.someones(rng); g != nil && !w.calm.Load() {
			kind := map[byte]string{'e': "leader", 's': "permit", 'j': "job", 'f': "loader"}[g.Name()[0]]
			w.note("forced " + cmp.Or(kind, "member"))
			w.force(g, w.slots[rng.IntN(3)].Load())
		}
	}
}

// someones is a lease that stands under a feature and is held.
func (w *features) someones(rng *rand.Rand) *given {
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := []string{"e", "s:", "a", "b", "c", "j", "f"}
	for _, k := range rng.Perm(len(kinds)) {
		for i := len(w.grants) - 1; i >= max(0, len(w.grants)-30); i-- {
			if g := w.grants[i]; !g.over && strings.HasPrefix(g.Name(), kinds[k]) {
				return g
			}
		}
	}
	return nil
}
