// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	waitplace "github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/replay"
)

// tickOf is a tick of the world that the exact master is held against: a sign of life lasts two, a full TTL three.
const tickOf = waitplace.Liveness / 2

// exact is the model of the scripts that ship, with one lock.
type exact struct{ m *votesmodel.Master }

// id makes an id of the product's form of a holder of the follower, as A2.
func (exact) id(holder string) string {
	return fmt.Sprintf("%s:%s", votesmodel.Client(int(holder[0]-'A')), holder[1:])
}

func (exact) holder(id string) string {
	client, number, _ := strings.Cut(id, ":")
	return fmt.Sprintf("%c%s", client[35]-'1'+'A', number)
}

var lock = protocol.NewLock("lock", protocol.Plain)

// do executes ops in one call, and returns the reply to the last one and the votes that were handed.
func (x exact) do(now time.Duration, ops ...protocol.Request) (r protocol.Reply, hands []protocol.Hand) {
	deaf := strings.HasPrefix(ops[len(ops)-1].Holder, votesmodel.Client(1))
	replies, said := x.m.Do(now, votesmodel.Call{State: "V", Deaf: deaf, Ops: ops})
	for _, m := range said {
		if h, ok := protocol.ParseHand(m.Text); ok {
			hands = append(hands, h)
		}
	}
	return replies[len(replies)-1], hands
}

func (x exact) ask(holder string, ticket, proposal int64, now time.Duration, wait protocol.Wait) protocol.Request {
	wait.Ticket, wait.Liveness = ticket+1, waitplace.Liveness // 0 is none
	return protocol.Request{Kind: protocol.Acquire, Lock: lock, Holder: x.id(holder), TTL: 3 * tickOf, Token: proposal, Start: now, Wait: &wait}
}

// look returns how long the holder's vote lasts, 0 if there is none, and whether it has a place.
func (x exact) look(now time.Duration, holder string) (time.Duration, bool) {
	x.m.At(now)
	return x.m.Has(x.id(holder)), x.m.Queued(x.id(holder))
}

// known is what a client knows of one attempt.
type known struct {
	holder string
	over   bool // its give-back is sent: nothing counts any more
	gone   bool // the master has said that it has neither vote nor place
	voted  bool
	until  time.Duration // the vote counts
}

// hear takes a vote in a message, which counts from its stamp.
func (k *known) hear(h protocol.Hand) {
	if !k.over && !k.gone {
		k.voted, k.until = true, max(k.until, h.Stamp+h.TTL)
	}
}

// take takes the reply to an op of the attempt that was sent at the time sent. A vote counts from there. A reply that knows of less is older.
func (k *known) take(r protocol.Reply, sent time.Duration) {
	switch {
	case k.over || k.gone:
	case r.Outcome == protocol.Granted:
		k.voted, k.until = true, max(k.until, sent+3*tickOf)
	case r.Ticket == 0:
		k.gone, k.until = true, 0
	case !k.voted:
		k.until = 0
	}
}

// follower runs an exact master and the world of one master in step. Whatever the master does must be a step of that
// world, and what a client counts must be what it counts there.
type follower struct {
	t      *testing.T
	random *rand.Rand
	x      exact
	sys    *clockSystem
	s      clockState
	steps  []Step

	now      time.Duration
	attempts [maxIDs]*known
	sent     [maxClients][]func() // ops on their way, by client: executed in order
	coming   []func()             // answers and messages on their way: read in any order, or never
	held     int
}

func newFollower(t *testing.T, seed uint64) *follower {
	w := Clocks{Masters: 1, Clients: 3, Attempts: 2, TTL: 3, Short: 2, Life: 2, Beats: true, Claims: true}
	f := &follower{t: t, random: rand.New(rand.NewPCG(seed, 3)), sys: newClockSystem(w), now: 100 * tickOf, x: exact{votesmodel.NewMaster("lock")}}
	// A listens, B says that it is to be waited for, C is passed over.
	f.x.m.State, f.x.m.Hears[votesmodel.Client(0)] = "V", true
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

// swap gives back attempt out and begins attempt in; -1 for none. Both are executed later, in one call. A give-back alone may hand the
// vote on, and one with the next caller's acquire behind it. A retry is behind a leave, and so is an acquire that takes a place only.
func (f *follower) swap(client, out, in int) {
	proposal, ticket := int64(f.random.IntN(99)), int64(0)
	how := proposal % 3
	if out >= 0 {
		f.step(Step{Kind: Over, Attempt: f.sys.named(out)})
		f.attempts[out].over = true
	}
	if in >= 0 {
		f.step(Step{Kind: Begin, Attempt: f.sys.named(in)})
		ticket = int64(f.random.IntN(3))
		f.attempts[in] = &known{holder: fmt.Sprint(f.sys.named(in))}
	}
	f.sent[client] = append(f.sent[client], func() {
		var ops []protocol.Request
		if out >= 0 {
			back := protocol.Request{Kind: protocol.Release, Lock: lock, Holder: f.x.id(f.attempts[out].holder), Hand: waitplace.Liveness, Token: proposal}
			if in >= 0 && how > 0 {
				back.Hand, back.Leaves = 0, true
			}
			ops = append(ops, back)
		}
		if in >= 0 {
			ops = append(ops, f.x.ask(f.attempts[in].holder, ticket, proposal, f.now, protocol.Wait{Retry: how == 1, Only: how == 2}))
		}
		r, hands := f.x.do(f.now, ops...)
		if out >= 0 {
			f.try(Step{Kind: Leave, Attempt: f.sys.named(out)}) // none when there is nothing to give back
		}
		if in >= 0 {
			f.step(Step{Kind: Enqueue, Attempt: f.sys.named(in), OK: r.Outcome == protocol.Granted})
			f.answer(in, r)
		}
		f.publish(hands)
	})
}

// claim asks again, later.
func (f *follower) claim(client, id int) {
	ticket := int64(f.random.IntN(3))
	f.sent[client] = append(f.sent[client], func() {
		had := f.s.at[id][0].vote > 0
		r, hands := f.x.do(f.now, f.x.ask(f.attempts[id].holder, ticket, 0, f.now, protocol.Wait{Again: true}))
		if r.Outcome == protocol.Granted {
			f.step(Step{Kind: Claim, Attempt: f.sys.named(id), OK: !had})
		} else if r.Ticket != 0 {
			f.try(Step{Kind: Beat, Attempt: f.sys.named(client * 2)}) // none when it changes nothing
		}
		f.answer(id, r)
		f.publish(hands)
	})
}

// answer has the client read r some time.
func (f *follower) answer(id int, r protocol.Reply) {
	sent := f.now
	f.coming = append(f.coming, func() {
		f.attempts[id].take(r, sent)
		f.counts(id)
	})
}

func (f *follower) publish(hands []protocol.Hand) {
	for _, h := range hands {
		for id, k := range f.attempts {
			if k == nil || f.x.holder(h.Field) != k.holder {
				continue
			}
			f.step(Step{Kind: Give, Attempt: f.sys.named(id)})
			f.coming = append(f.coming, func() {
				k.hear(h)
				f.counts(id)
			})
		}
	}
}

// counts compares what the attempt counts with the world, which keeps of several answers on their way the one by which
// the vote counts longest.
func (f *follower) counts(id int) {
	k := f.attempts[id]
	ticks := max(int64((k.until-f.now)/tickOf), 0)
	if k.over {
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
		f.x.do(f.now, protocol.Request{Kind: protocol.Heartbeat, Holder: votesmodel.Client(client), TTL: waitplace.Liveness, Start: f.now})
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
		left, queued := f.x.look(f.now, holder)
		x := &f.s.at[id][0]
		// The world keeps places of clients without a sign of life: it is looser.
		if uint8(left/tickOf) != x.vote || queued && !x.flags.has(placed) {
			f.t.Fatalf("%v: the vote lasts %v and the world's %d ticks, queued %t and flags %b, after\n%v",
				holder, left, x.vote, queued, x.flags, Trace{Steps: f.steps})
		}
	}
}

// TestMaster_everyOp_isAStepOfTheWorld ties the exact master, which is replayed on the scripts that ship, to the worlds that are explored.
func TestMaster_everyOp_isAStepOfTheWorld(t *testing.T) {
	needs.NoRace(t, computes)
	runs := often(t, 1000, 50_000)
	held, steps, gives := 0, 0, 0
	for seed := range replay.Many(t, runs) {
		f := newFollower(t, seed)
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
}
