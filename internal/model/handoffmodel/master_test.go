// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
)

// tickOf is a tick of the world that the exact master is held against: a sign of life lasts two, a full TTL three.
const tickOf = Liveness / 2

// exact is an exact master in the terms of the follower.
type exact interface {
	Beat(now time.Duration, client string, sign Sign)
	Swap(now time.Duration, op Swap) (Reply, []Notice)
	Claim(now time.Duration, op ClaimOp) (Reply, []Notice)
	// look returns how long the holder's vote lasts, 0 if there is none, and whether it has a place.
	look(now time.Duration, holder string) (time.Duration, bool)
	// beats says that an op of a waiter is a sign of life.
	beats() bool
}

func (m *Master) look(now time.Duration, holder string) (left time.Duration, queued bool) {
	m.begin(now)
	if v := m.voteOf(holder); v != nil {
		left = v.until - now
	}
	return left, m.placeOf(m.State, holder) >= 0
}

func (m *Master) beats() bool { return false }

// shipped is the model of the scripts that ship, in the terms of the follower. They have no swap and no claim: a waiter
// leaves and asks again in one call, or takes a place only; the next caller of a process asks right behind the release;
// and who looks asks again.
type shipped struct{ m *votesmodel.Master }

// id makes an id of the product's form of a holder of the follower, as A2.
func (shipped) id(holder string) string {
	return fmt.Sprintf("%s:%s", votesmodel.Client(int(holder[0]-'A')), holder[1:])
}

func (shipped) holder(id string) string {
	client, number, _ := strings.Cut(id, ":")
	return fmt.Sprintf("%c%s", client[35]-'1'+'A', number)
}

var shippedLock = protocol.NewLock("lock", protocol.Plain)

func (s shipped) do(now time.Duration, ops ...protocol.Request) (r Reply, notices []Notice) {
	deaf := strings.HasPrefix(ops[len(ops)-1].Holder, votesmodel.Client(1))
	replies, said := s.m.Do(now, votesmodel.Call{State: "V", Deaf: deaf, Ops: ops})
	for i, got := range replies {
		switch {
		case ops[i].Kind == protocol.Release:
			r.Released = got.Outcome == protocol.Granted
		case got.Outcome == protocol.Granted:
			r.Answer = Answer{Standing: Voted, Vote: got.Token, TTL: ops[i].TTL}
		case got.Ticket != 0:
			r.Answer = Answer{Standing: Queued, Ahead: got.Ahead, Held: got.Remaining}
		default:
			r.Answer = Answer{Standing: Gone, Held: got.Remaining}
		}
	}
	for _, m := range said {
		if h, ok := protocol.ParseHand(m.Text); ok {
			holder := s.holder(h.Field)
			notices = append(notices, Notice{holder[:1], Hand{holder, h.Vote, h.Stamp, h.TTL}})
		}
	}
	return r, notices
}

func (s shipped) ask(p *Place, sent time.Duration, proposal int64, wait protocol.Wait) protocol.Request {
	wait.Ticket, wait.Liveness = p.Ticket+1, Liveness // 0 is none
	return protocol.Request{Kind: protocol.Acquire, Lock: shippedLock, Holder: s.id(p.Holder), TTL: p.TTL, Token: proposal, Start: sent, Wait: &wait}
}

func (s shipped) Swap(now time.Duration, op Swap) (Reply, []Notice) {
	var ops []protocol.Request
	how := op.Proposal % 3
	if op.Out != "" {
		out := protocol.Request{Kind: protocol.Release, Lock: shippedLock, Holder: s.id(op.Out), Hand: Liveness, Token: op.Proposal}
		if op.In != nil && how > 0 {
			out.Hand, out.Leaves = 0, true
		}
		ops = append(ops, out)
	}
	if op.In != nil {
		ops = append(ops, s.ask(op.In, op.Sign.Stamp, op.Proposal, protocol.Wait{Retry: how == 1, Only: how == 2}))
	}
	return s.do(now, ops...)
}

func (s shipped) Claim(now time.Duration, op ClaimOp) (Reply, []Notice) {
	return s.do(now, s.ask(&op.Place, now, op.Proposal, protocol.Wait{Again: true}))
}

func (s shipped) Beat(now time.Duration, client string, sign Sign) {
	s.do(now, protocol.Request{Kind: protocol.Heartbeat, Holder: votesmodel.Client(int(client[0] - 'A')), TTL: Liveness, Start: sign.Stamp})
}

func (s shipped) look(now time.Duration, holder string) (time.Duration, bool) {
	s.m.At(now)
	return s.m.Has(s.id(holder)), s.m.Queued(s.id(holder))
}

func (shipped) beats() bool { return true }

// follower runs an exact master and the world of one master in step. Whatever the master does must be a step of that
// world, and what a client counts by Attempt must be what it counts there.
type follower struct {
	t      *testing.T
	random *rand.Rand
	m      exact
	sys    *clockSystem
	s      clockState
	steps  []Step

	now      time.Duration
	attempts [maxIDs]*Attempt
	sent     [maxClients][]func() // ops on their way, by client: executed in order
	coming   []func()             // answers and messages on their way: read in any order, or never
	held     int
}

func newFollower(t *testing.T, seed uint64, m exact) *follower {
	w := Clocks{Masters: 1, Clients: 3, Attempts: 2, TTL: 3, Short: 2, Life: 2, Beats: true, Claims: true}
	f := &follower{t: t, random: rand.New(rand.NewPCG(seed, 3)), sys: newClockSystem(w), now: 100 * tickOf, m: m}
	f.s = f.sys.Starts()[0]
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
	moves := f.sys.Next(nil, &f.s)
	i := slices.IndexFunc(moves, func(m move) bool { return m.Step == step })
	if i < 0 {
		return false
	}
	if wrong := f.sys.Judge(&f.s, &moves[i]); wrong != "" {
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
		} else if r.Standing == Queued && f.m.beats() {
			f.try(Step{Kind: Beat, Attempt: f.sys.named(client * 2)}) // none when it changes nothing
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
	for id := range f.sys.ids() {
		holder := fmt.Sprint(f.sys.named(id))
		left, queued := f.m.look(f.now, holder)
		x := &f.s.at[id][0]
		// The world keeps places of clients without a sign of life: it is looser.
		if uint8(left/tickOf) != x.vote || queued && !x.flags.has(placed) {
			f.t.Fatalf("%v: the vote lasts %v and the world's %d ticks, queued %t and flags %b, after\n%v",
				holder, left, x.vote, queued, x.flags, Trace{Steps: f.steps})
		}
	}
}

// TestMaster_everyOp_isAStepOfTheWorld ties the exact masters to the worlds that are explored: the one by which the
// simulation runs, and the one that is replayed on the scripts that ship.
func TestMaster_everyOp_isAStepOfTheWorld(t *testing.T) {
	needs.NoRace(t, computes)
	for name, fresh := range map[string]func() exact{
		"of the specification": func() exact {
			return &Master{State: "V", Listens: map[string]bool{"A": true, "B": true, "C": true}}
		},
		"as shipped": func() exact {
			s := shipped{votesmodel.NewMaster("lock")}
			// A listens, B says that it is to be waited for, C is passed over.
			s.m.State, s.m.Hears[votesmodel.Client(0)] = "V", true
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			runs := often(t, 1000, 50_000)
			held, steps, gives := 0, 0, 0
			for seed := range replay.Many(t, runs) {
				f := newFollower(t, seed, fresh())
				for range 160 {
					f.act()
					f.compare()
				}
				held += f.held
				steps += len(f.steps)
				for _, s := range f.steps {
					gives += boolTo[int](s.Kind == Give)
				}
			}
			t.Logf("%d steps of the world, %d of them a vote that is handed, %d a vote that counts", steps, gives, held)
			if replay.Listed() && (held < runs/2 || gives < runs/2) { // of runs that are the same each time
				t.Errorf("only %d votes counted and %d were handed in %d runs", held, gives, runs)
			}
		})
	}
}
