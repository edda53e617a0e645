// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
)

// World is what runs are made of: three clients, one lock, and one master's record.
type World struct {
	Lock        string
	Readers     bool   // the lock is a read-write lock; else it is plain
	Incarnation string // of the master
}

// TTLs of a run. They are long, because no time passes in a run: what expires is deleted.
const (
	Liveness = time.Hour        // of a sign of life and of a handed vote
	fullTTL  = 2 * time.Hour    // of the votes, as a rule
	restTTL  = 4 * time.Hour    // of a rest
	briefTTL = 30 * time.Minute // of some: shorter than a handed vote, so their places are not handed the lock
)

// clients is how many there are, and maxMade how many attempts each makes at most.
const clients, maxMade = 3, 9

// Voting is the record state of a master that votes in epoch 1 or 2.
func (w World) Voting(epoch int) membership.RecordState {
	return membership.RecordState{Epoch: membership.Epoch{Number: int64(epoch), ID: 1}, Incarnation: w.Incarnation, Phase: membership.Voting}
}

// recovering is the record state of a master that waits in epoch 1.
func (w World) recovering() string {
	rs := w.Voting(1)
	rs.Phase, rs.Nonce = membership.Quarantined, 1
	return rs.String()
}

// attempt is one holder.
type attempt struct {
	holder  string
	mode    protocol.Mode
	ticket  int64
	ttl     time.Duration
	waits   bool
	joins   string            // a reader: the write vote that it may join
	adopts  *protocol.Request // how it came by its vote, if by adopting one
	retried bool
}

// player makes the next steps of a run. Without random it makes the same few from the same state.
type player struct {
	w      World
	m      *Master
	now    [clients]attempt // under way; no holder for none
	old    []attempt        // over, the last one last
	made   [clients]int
	stamp  time.Duration
	random *rand.Rand
}

func newPlayer(w World, random *rand.Rand) *player {
	p := &player{w: w, m: NewMaster(w.Lock), random: random}
	p.m.Whole, p.m.Extender = w.recovering(), w.Voting(1).String()
	return p
}

func (p *player) clone() *player {
	c := *p
	c.m, c.old = p.m.Clone(), slices.Clone(p.old)
	return &c
}

// any is a random number below n, or otherwise.
func (p *player) any(n, otherwise int) int {
	if p.random == nil {
		return otherwise
	}
	return p.random.IntN(n)
}

func (p *player) chance(percent int) bool { return p.random != nil && p.random.IntN(100) < percent }

func (p *player) lock(mode protocol.Mode) *protocol.Lock { return protocol.NewLock(p.w.Lock, mode) }

// modeOf is the mode of the next attempt of client i. Without random client 1 writes, 2 reads, and 3 does what its
// number says.
func (p *player) modeOf(i int) protocol.Mode {
	modes := []protocol.Mode{protocol.Write, protocol.Read}
	switch {
	case !p.w.Readers:
		return protocol.Plain
	case i < 2:
		return modes[p.any(5, 3*i)/3]
	}
	return modes[p.any(5, 3*(p.made[i]%2))/3]
}

// fresh is a new attempt of client i: with a place, and with the same ticket as the one before if there is one.
func (p *player) fresh(i int, before attempt) attempt {
	p.made[i]++
	a := attempt{
		holder: fmt.Sprintf("%s:%d", Client(i), p.made[i]), mode: p.modeOf(i), ttl: fullTTL, waits: true,
		ticket: int64(1 + p.any(6, []int{20, 10, 10}[i])),
	}
	if p.random == nil && i == 2 && p.made[i]%2 == 0 || p.chance(15) {
		a.ttl = briefTTL
	}
	if before.holder != "" {
		a.mode, a.ticket, a.retried = before.mode, before.ticket, true
	}
	return a
}

func (p *player) proposal(i int) int64 {
	if p.chance(3) {
		return tooFar + 1
	}
	return int64(p.any(40, 7*i))
}

func (p *player) ask(a attempt, change ...func(*protocol.Wait)) protocol.Request {
	p.stamp++
	r := protocol.Request{
		Kind: protocol.Acquire, Lock: p.lock(a.mode), Holder: a.holder, TTL: a.ttl, Token: p.proposal(int(a.holder[35] - '1')), Start: p.stamp, JoinWrite: a.joins,
	}
	if a.waits {
		r.Wait = &protocol.Wait{Ticket: a.ticket, Liveness: Liveness, Retry: a.retried}
		for _, f := range change {
			f(r.Wait)
		}
	}
	return r
}

func (p *player) giveBack(a attempt, hand bool) protocol.Request {
	r := protocol.Request{Kind: protocol.Release, Lock: p.lock(a.mode), Holder: a.holder, Token: p.proposal(1)}
	if hand {
		r.Hand = Liveness
	}
	return r
}

func leaves(r protocol.Request) protocol.Request {
	r.Leaves, r.Hand = true, 0
	return r
}

// move is a step and its weight in a random run. It changes the player when it is made.
type move struct {
	weight int
	make   func(p *player) Step
}

// of is a move that is ops of client i: a step with nothing but its call.
func (*player) of(i, weight int, make func(p *player) []protocol.Request) move {
	return move{weight, func(p *player) Step { return Step{Event: Called, Call: p.call(i, make(p)...)} }}
}

// end ends what client i has under way.
func (p *player) end(i int) attempt {
	a := p.now[i]
	p.old, p.now[i] = append(p.old, a), attempt{}
	return a
}

// calls are the moves that are ops of client i.
func (p *player) calls(i int) (all []move) {
	a := p.now[i]
	switch {
	case a.holder == "" && p.made[i] < maxMade:
		return p.begins(i)
	case a.holder == "":
		return nil
	case p.made[i] >= maxMade:
		return p.goesOn(i, a)
	}
	return append(p.goesOn(i, a), p.asksAgain(i, a)...)
}

// begins are the ways to begin an attempt.
func (p *player) begins(i int) (all []move) {
	add := func(weight int, make func(p *player) []protocol.Request) { all = append(all, p.of(i, weight, make)) }
	begin := func(change func(a *attempt), how ...func(*protocol.Wait)) func(p *player) []protocol.Request {
		return func(p *player) []protocol.Request {
			p.now[i] = p.fresh(i, attempt{})
			change(&p.now[i])
			return []protocol.Request{p.ask(p.now[i], how...)}
		}
	}
	add(12, begin(func(*attempt) {}))
	add(2, begin(func(a *attempt) { a.waits = false }))
	add(1, begin(func(*attempt) {}, func(w *protocol.Wait) { w.Unfair = true }))
	add(1, begin(func(a *attempt) { a.retried = true }))
	if !p.w.Readers {
		all = append(all, p.adoptions(i)...)
	}
	return all
}

// goesOn are what becomes of an attempt, without another one.
func (p *player) goesOn(i int, a attempt) (all []move) {
	add := func(weight int, make func(p *player) []protocol.Request) { all = append(all, p.of(i, weight, make)) }
	add(6, func(p *player) []protocol.Request { return []protocol.Request{p.giveBack(p.end(i), true)} })
	add(2, func(p *player) []protocol.Request { return []protocol.Request{p.giveBack(p.end(i), false)} })
	add(1, func(p *player) []protocol.Request { return []protocol.Request{p.ask(a)} }) // once more, as when the script was lost
	add(4, func(p *player) []protocol.Request {
		return []protocol.Request{{Kind: protocol.Extend, TTL: fullTTL, Items: []protocol.Item{{Lock: p.lock(a.mode), Holder: a.holder}}}}
	})
	add(3, func(p *player) []protocol.Request {
		token := p.m.Counter + int64(p.any(4, 3)) - 1
		return []protocol.Request{{Kind: protocol.Confirm, Lock: p.lock(a.mode), Holder: a.holder, Token: max(token, 1)}}
	})
	if a.mode == protocol.Plain {
		add(3, func(p *player) []protocol.Request {
			return []protocol.Request{{Kind: protocol.Confirm, Lock: p.lock(a.mode), Holder: a.holder, Token: max(p.m.Counter, 1), Rest: restTTL}}
		})
		add(2, func(p *player) []protocol.Request {
			r := p.giveBack(p.end(i), p.chance(50))
			r.Lift = a.holder
			return []protocol.Request{r}
		})
	}
	extends := func(weight int, holder string) { // a write lease, to less than it may have
		add(weight, func(p *player) []protocol.Request {
			return []protocol.Request{{Kind: protocol.Extend, TTL: briefTTL, Items: []protocol.Item{{Lock: p.lock(protocol.Write), Holder: holder}}}}
		})
	}
	if a.mode == protocol.Write {
		extends(1, a.holder)
	}
	if writer, joined := strings.CutSuffix(a.joins, ":write"); joined {
		extends(3, writer)
		add(8, func(p *player) []protocol.Request {
			return []protocol.Request{p.giveBack(attempt{holder: writer, mode: protocol.Write}, true)}
		})
	}
	if a.adopts != nil { // once more, as when the answer was lost
		for _, ttl := range []time.Duration{fullTTL, briefTTL} {
			add(3, func(*player) []protocol.Request {
				again := *a.adopts
				again.TTL = ttl
				return []protocol.Request{again}
			})
		}
	}
	if a.waits {
		add(4, func(p *player) []protocol.Request {
			return []protocol.Request{p.ask(a, func(w *protocol.Wait) { w.Again = true })}
		})
	}
	return all
}

// asksAgain are the moves by which another attempt takes the place of one.
func (p *player) asksAgain(i int, a attempt) (all []move) {
	add := func(weight int, make func(p *player) []protocol.Request) { all = append(all, p.of(i, weight, make)) }
	next := func(how ...func(*protocol.Wait)) func(p *player) []protocol.Request {
		return func(p *player) []protocol.Request {
			p.now[i] = p.fresh(i, p.end(i))
			return []protocol.Request{leaves(p.giveBack(a, false)), p.ask(p.now[i], how...)}
		}
	}
	add(5, next())
	add(3, next(func(w *protocol.Wait) { w.Only = true }))
	add(1, next(func(w *protocol.Wait) { w.Unfair = true }))
	add(1, next(func(w *protocol.Wait) { w.Oust = true }))
	add(3, func(p *player) []protocol.Request { // the next caller of the process
		p.now[i] = p.fresh(i, attempt{})
		p.now[i].ticket += 5
		p.old = append(p.old, a)
		return []protocol.Request{p.giveBack(a, true), p.ask(p.now[i])}
	})
	if a.mode == protocol.Write { // a downgrade: the writer reads too, and then gives back the write vote
		add(3, func(p *player) []protocol.Request {
			reader := p.fresh(i, attempt{})
			reader.mode, reader.waits, reader.joins = protocol.Read, false, p.lock(a.mode).Field(a.holder)
			p.old = append(p.old, a)
			p.now[i] = reader
			return []protocol.Request{p.ask(reader)}
		})
	}
	return all
}

// late are give-backs that come late, or once more, and what clients do about places that they gave up.
func (p *player) late() (all []move) {
	if len(p.old) == 0 {
		return nil
	}
	lifts := func(r protocol.Request) protocol.Request { // of the rest that is there, mostly
		if r.Lift = r.Holder; p.chance(60) {
			r.Lift = p.m.rest.holder
		}
		return r
	}
	some := func(p *player) attempt { return p.old[len(p.old)-1-p.any(min(len(p.old), 3), 0)] }
	return []move{
		{3, func(p *player) Step { return Step{Event: Called, Call: p.call(0, p.giveBack(some(p), !p.chance(30)))} }},
		{2, func(p *player) Step {
			return Step{Event: Called, Call: p.call(0, lifts(p.giveBack(some(p), p.chance(30))))}
		}},
		{1, func(p *player) Step {
			a := some(p)
			return p.dequeue(fmt.Sprintf("%s/%c/%s", p.lock(a.mode).Field(a.holder), a.mode, p.m.State))
		}},
	}
}

// dequeue takes a place out of the queue, as a client does that has given it up and is woken for it.
func (p *player) dequeue(place string) Step {
	return Step{Event: Called, Call: p.call(0, protocol.Request{Kind: protocol.Dequeue, Lock: p.lock(protocol.Plain), Place: place})}
}

// call has client i send the ops. Without random client 2 hears nothing and says so. The others do not say so.
func (p *player) call(i int, ops ...protocol.Request) Call {
	return Call{State: p.state(i), Deaf: p.any(3, i) == 1, Ops: ops}
}

// state is what client i takes the record's state for: mostly what it is.
func (p *player) state(i int) string {
	first, second := p.w.Voting(1).String(), p.w.Voting(2).String()
	switch {
	case p.random == nil && i == 2, p.m.State != second && !p.chance(4):
		return first
	case p.m.State == second && p.chance(4):
		return first
	}
	return second
}

// events are the moves that are no ops.
func (p *player) events() (all []move) {
	add := func(weight int, s Step) { all = append(all, move{weight, func(*player) Step { return s }}) }
	if len(p.m.fields) > 0 {
		add(5, Step{Event: Expired})
	}
	for _, f := range p.m.fields {
		if _, timed := p.m.timeouts[f]; timed {
			add(1, Step{Event: TimedOut, Holder: f})
		}
	}
	for i := range clients {
		if _, lives := p.m.signs[Client(i)]; lives {
			add(1, Step{Event: Lapsed, Client: Client(i)})
			all = append(all, move{1, func(p *player) Step {
				p.stamp++
				return Step{Event: Called, Call: p.call(i, protocol.Request{Kind: protocol.Heartbeat, Holder: Client(i), TTL: Liveness, Start: p.stamp})}
			}})
		}
		add(1, Step{Event: ClientListens, Client: Client(i), On: !p.m.Hears[Client(i)]})
	}
	for _, q := range p.m.queue {
		all = append(all, move{1, func(p *player) Step { return p.dequeue(q.member) }})
	}
	if p.m.rest.until > 0 {
		add(4, Step{Event: Rested})
	}
	add(1, Step{Event: RedissonListens, On: !p.m.Listens})
	switch {
	case p.m.foreign():
		add(6, Step{Event: Expired})
	case !p.m.held():
		add(1, Step{Event: RedissonTakes})
	}
	for _, state := range []string{p.w.Voting(1).String(), p.w.Voting(2).String(), p.w.recovering()} {
		switch {
		case state == p.m.State:
		case p.m.State == p.w.Voting(1).String():
			weight := 1
			if p.m.rest.until > 0 { // which ends with its epoch
				weight = 4
			}
			add(weight, Step{Event: StateBecomes, State: state})
		default: // and soon back: nothing much can be done elsewhere
			add(5, Step{Event: StateBecomes, State: state})
		}
	}
	return all
}
