// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// tickOf is a tick of the world that the exact master is held against: a sign of life lasts two, a full TTL three.
const tickOf = Liveness / 2

// follower runs an exact Master and the world of one master in step. Whatever the Master does must be a step of that
// world, and what a client counts by Attempt must be what it counts there.
type follower struct {
	t      *testing.T
	random *rand.Rand
	m      Master
	sys    *clockSystem
	s      clockState
	steps  []Step

	now      time.Duration
	attempts [maxIDs]*Attempt
	sent     [maxClients][]func() // ops on their way, by client: executed in order
	coming   []func()             // answers and messages on their way: read in any order, or never
	held     int
}

func newFollower(t *testing.T, seed uint64) *follower {
	w := Clocks{Masters: 1, Clients: 3, Attempts: 2, TTL: 3, Short: 2, Life: 2, Beats: true, Claims: true}
	f := &follower{t: t, random: rand.New(rand.NewPCG(seed, 3)), sys: newClockSystem(w), now: 100 * tickOf}
	f.s = f.sys.starts()[0]
	f.m.State, f.m.Listens = "V", map[string]bool{"A": true, "B": true, "C": true}
	return f
}

// step takes a step of the world, and fails if there is none.
func (f *follower) step(step Step) {
	f.t.Helper()
	if !f.try(step) {
		f.t.Fatalf("the world has no step %q after\n%v", step, Trace{Steps: f.steps})
	}
}

func (f *follower) try(step Step) bool {
	moves := f.sys.next(nil, &f.s)
	i := slices.IndexFunc(moves, func(m move[clockState]) bool { return m.Step == step })
	if i < 0 {
		return false
	}
	if wrong := f.sys.judge(&f.s, &moves[i]); wrong != "" {
		f.t.Fatal(wrong)
	}
	f.s, f.steps = moves[i].To, append(f.steps, step)
	return true
}

func (f *follower) client(i int) string { return string(rune('A' + i)) }

func (f *follower) place(id int) *Place {
	return &Place{
		Client: f.client(f.sys.client(id)), Holder: fmt.Sprint(f.sys.named(id)), Ticket: int64(f.random.IntN(3)), TTL: 3 * tickOf,
	}
}

// swap gives back attempt out and begins attempt in; -1 for none. The op is executed later.
func (f *follower) swap(client, out, in int) {
	op := Swap{State: "V", Hand: true, Proposal: int64(f.random.IntN(99))}
	if out >= 0 {
		f.step(Step{Kind: Over, Attempt: f.sys.named(out)})
		f.attempts[out].Over, op.Out = true, f.attempts[out].Holder
	}
	if in >= 0 {
		f.step(Step{Kind: Begin, Attempt: f.sys.named(in)})
		op.In = f.place(in)
		f.attempts[in] = &Attempt{Holder: op.In.Holder, Quorum: 1, Seen: make([]Seen, 1)}
	}
	f.sent[client] = append(f.sent[client], func() {
		op.Sign.Stamp = f.now
		r, notices := f.m.Swap(f.now, op)
		if out >= 0 {
			f.try(Step{Kind: Leave, Attempt: f.sys.named(out)}) // none when there is nothing to give back
		}
		if in >= 0 {
			f.step(Step{Kind: Enqueue, Attempt: f.sys.named(in), OK: r.Standing == Voted})
			f.answer(in, r, 0)
		}
		f.publish(notices)
	})
}

func (f *follower) claim(client, id int) {
	op := ClaimOp{State: "V", Place: *f.place(id)}
	f.sent[client] = append(f.sent[client], func() {
		had := f.s.at[id][0].vote > 0
		r, notices := f.m.Claim(f.now, op)
		if r.Standing == Voted {
			f.step(Step{Kind: Claim, Attempt: f.sys.named(id), OK: !had})
		}
		f.answer(id, r, 0)
		f.publish(notices)
	})
}

// answer has the client read r some time.
func (f *follower) answer(id int, r Reply, token int64) {
	sent := f.now
	f.coming = append(f.coming, func() {
		f.attempts[id].Take(0, r.Answer, sent, token)
		f.counts(id)
	})
}

func (f *follower) publish(notices []Notice) {
	for _, n := range notices {
		for id, a := range f.attempts {
			if a == nil || n.Hand.Holder != a.Holder {
				continue
			}
			f.step(Step{Kind: Give, Attempt: f.sys.named(id)})
			f.coming = append(f.coming, func() {
				a.Hear(0, n.Hand)
				f.counts(id)
			})
		}
	}
}

// counts compares what the attempt counts with the world, which keeps of several answers on their way the one by which
// the vote counts longest.
func (f *follower) counts(id int) {
	ticks := max(int64((f.attempts[id].Seen[0].Until-f.now)/tickOf), 0)
	if f.attempts[id].Over {
		ticks = 0
	}
	if x := &f.s.at[id][0]; ticks > int64(x.counts) {
		f.step(Step{Kind: Hear, Attempt: f.sys.named(id), Value: max(ticks, int64(x.told))})
		f.held++
	}
}

// act does something at random.
func (f *follower) act() {
	client := f.random.IntN(3)
	id := client * 2 // the attempt under way, or else the next
	if f.s.stages[id] == over {
		id++
	}
	switch what := f.random.IntN(20); {
	case what < 4 && f.s.stages[id] == idle:
		f.swap(client, -1, id)
	case what < 6 && f.s.stages[id] == active:
		in := -1
		if id%2 == 0 && f.random.IntN(2) == 0 {
			in = id + 1
		}
		f.swap(client, id, in)
	case what < 8 && f.s.stages[id] == active:
		f.claim(client, id)
	case what < 14 && len(f.sent[client]) > 0:
		f.sent[client][0]()
		f.sent[client] = f.sent[client][1:]
	case what < 17 && len(f.coming) > 0:
		f.coming[f.random.IntN(len(f.coming))]()
	case what < 18:
		f.m.Beat(f.now, f.client(client), Sign{Stamp: f.now})
		f.try(Step{Kind: Beat, Attempt: f.sys.named(client * 2)}) // none when it changes nothing
	case what < 19:
		f.now += tickOf
		f.step(Step{Kind: Tick})
	}
}

// compare holds the votes and places of the master against the world's.
func (f *follower) compare() {
	f.m.begin(f.now)
	for id := range f.sys.ids() {
		holder := fmt.Sprint(f.sys.named(id))
		ticks := uint8(0)
		if v := f.m.voteOf(holder); v != nil {
			ticks = uint8((v.until - f.now) / tickOf)
		}
		x := &f.s.at[id][0]
		// The world keeps places of clients without a sign of life: it is looser.
		if ticks != x.vote || f.m.placeOf("V", holder) >= 0 && !x.flags.has(placed) {
			f.t.Fatalf("%v: the vote has %d ticks and the world's %d, place %d and flags %b, after\n%v",
				holder, ticks, x.vote, f.m.placeOf("V", holder), x.flags, Trace{Steps: f.steps})
		}
	}
}

// TestMaster_everyOp_isAStepOfTheWorld ties the exact master, by which paths and simulation run, to the worlds that are
// explored.
func TestMaster_everyOp_isAStepOfTheWorld(t *testing.T) {
	runs := often(1000, 50_000)
	first, held, steps := seed(t), 0, 0
	for i := range runs {
		f := newFollower(t, first+uint64(i))
		for range 160 {
			f.act()
			f.compare()
		}
		held += f.held
		steps += len(f.steps)
	}
	t.Logf("%d steps of the world, %d of them a vote that counts", steps, held)
	if held < runs {
		t.Errorf("only %d votes counted in %d runs", held, runs)
	}
}
