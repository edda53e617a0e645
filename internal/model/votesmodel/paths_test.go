// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Event names what happens in a step.
type Event uint8

const (
	Called          Event = iota // the master executes Call
	Expired                      // the lock's hash and its readers' timeout keys expire
	TimedOut                     // the timeout key of reader Holder expires
	Lapsed                       // the sign of life of Client expires
	RedissonListens              // a client of Redisson's subscribes (On) or unsubscribes its channels of the lock
	RedissonTakes                // a client of Redisson's takes the lock
	StateBecomes                 // the record's state becomes State
	Rested                       // the rest of the lock expires
	ClientListens                // somebody subscribes (On) or unsubscribes the channel of Client
)

// Step is what happens, and what the model makes of it.
type Step struct {
	Event  Event
	Call   Call
	Holder string
	Client string
	State  string
	On     bool

	Replies []protocol.Reply // Called
	Said    []Message        // Called
	Keys    Keys             // afterwards
}

// Path is a run of one lock on one master.
type Path []Step

// String tells the path as a story, and lists the keys at its end.
func (p Path) String() string {
	if len(p) == 0 {
		return ""
	}
	return fmt.Sprintf("%s     then the model has\n%v", explore.Told(p), p[len(p)-1].Keys)
}

// String tells the step as a sentence.
func (s Step) String() string {
	switch s.Event {
	case Called:
		var b strings.Builder
		fmt.Fprintf(&b, "with state %s", s.Call.State)
		if s.Call.Deaf {
			b.WriteString(", deaf")
		}
		b.WriteByte(':')
		for i := range s.Call.Ops {
			fmt.Fprintf(&b, " %s", opText(&s.Call.Ops[i]))
			if i < len(s.Replies) {
				fmt.Fprintf(&b, ": %s;", replyText(&s.Replies[i]))
			}
		}
		for _, m := range s.Said {
			fmt.Fprintf(&b, " tells %s %q", m.Channel, m.Text)
		}
		return b.String()
	case Expired:
		return "the lock's key expires"
	case TimedOut:
		return "the vote of reader " + short(s.Holder) + " expires"
	case Rested:
		return "the lock's rest is over"
	case Lapsed:
		return "the sign of life of " + short(s.Client) + " expires"
	case RedissonListens:
		return fmt.Sprintf("a client of Redisson's listens: %t", s.On)
	case RedissonTakes:
		return "a client of Redisson's takes the lock"
	case StateBecomes:
		return "the record's state becomes " + s.State
	case ClientListens:
		return fmt.Sprintf("client %s listens: %t", short(s.Client), s.On)
	}
	return fmt.Sprintf("event of unknown kind %d", s.Event)
}

// short is the end of a holder's or client's id.
func short(id string) string { return strings.TrimLeft(id[min(24, len(id)):], "0") }

func opText(op *protocol.Request) string {
	text := fmt.Sprintf("%v of %s", op.Kind, short(op.Holder))
	switch {
	case op.Place != "":
		text = fmt.Sprintf("%v of %s", op.Kind, op.Place)
	case op.Lock != nil:
		text += fmt.Sprintf(" (%c), token %d", op.Lock.Mode, op.Token)
	}
	if op.From != "" {
		text += fmt.Sprintf(", from %s in %s, passed %t", short(op.From), op.Voted, op.Passed)
	}
	if op.Lift != "" {
		text += ", lifts that of " + short(op.Lift)
	}
	if op.Wait != nil {
		text += fmt.Sprintf(", ticket %d", op.Wait.Ticket)
	}
	w := op.Wait
	for _, mark := range []struct {
		text string
		on   bool
	}{
		{"unfair", w != nil && w.Unfair}, {"retry", w != nil && w.Retry}, {"only", w != nil && w.Only}, {"again", w != nil && w.Again},
		{"ousts", w != nil && w.Oust}, {"hands", op.Hand != 0}, {"leaves", op.Leaves}, {"joins", op.JoinWrite != ""}, {"rests", op.Rest > 0},
		{"brief", op.Kind == protocol.Acquire && op.TTL == briefTTL},
	} {
		if mark.on {
			text += ", " + mark.text
		}
	}
	return text
}

func replyText(r *protocol.Reply) string {
	text := fmt.Sprintf("%v %d, ticket %d, %d ahead, left %v, holder %q %v", r.Outcome, r.Token, r.Ticket, r.Ahead, r.Remaining, short(r.Holder), r.Intact)
	if r.Foreign {
		text += " Redisson's"
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// begin has every run begin with a record state.
func (p *player) begin() Path {
	return Path{p.play(Step{Event: StateBecomes, State: p.w.Voting(1).String()})}
}

// Paths returns n random paths of so many steps. Path i is the same for the same seed + i.
func Paths(w World, seed uint64, n, steps int) []Path {
	paths := make([]Path, n)
	for i := range paths {
		paths[i] = randomPath(w, seed+uint64(i), steps)
	}
	return paths
}

// FirstOnly is the path of a first caller that asks for a place alone, of a lock that is free and that nobody waits for. Random callers ask so when they have been
// refused, and nearly always find somebody.
func FirstOnly(w World) Path {
	p := newPlayer(w, rand.New(rand.NewPCG(1, 4)))
	path := p.begin()
	p.now[0] = p.fresh(0, attempt{})
	ask := p.ask(p.now[0], func(w *protocol.Wait) { w.Only = true })
	return append(path, p.play(Step{Event: Called, Call: Call{State: p.m.State, Ops: []protocol.Request{ask}}}))
}

func randomPath(w World, seed uint64, steps int) Path {
	p := newPlayer(w, rand.New(rand.NewPCG(seed, 4)))
	path := p.begin()
	for len(path) < steps {
		path = append(path, p.play(p.draw()))
	}
	return path
}

// draw draws a step: sometimes the ops of several clients in one call.
func (p *player) draw() Step {
	s := p.choose(p.moves()).make(p)
	for s.Event == Called && p.chance(25) {
		more := p.choose(p.calls(p.random.IntN(clients)))
		if more == nil {
			break
		}
		other := p.clone()
		joined := more.make(other)
		if ops := append(slices.Clone(s.Call.Ops), joined.Call.Ops...); oneCall(ops) {
			*p = *other
			s.Call.Ops = ops
		}
	}
	return s
}

// oneCall says whether the ops are one call of votes.lua.
func oneCall(ops []protocol.Request) bool {
	acquires := 0
	for i := range ops {
		switch ops[i].Kind {
		case protocol.Acquire:
			acquires++
		case protocol.Release:
		default:
			return false
		}
	}
	return acquires <= 1
}

func (p *player) choose(moves []move) *move {
	at := explore.Draw(p.random, len(moves), func(i int) int { return moves[i].weight })
	if at < 0 {
		return nil
	}
	return &moves[at]
}

// digest is a short name of the keys, to tell states apart.
func (m *Master) digest() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, m.Keys(), m.fields, m.Listens, m.Hears)
	return h.Sum64()
}

// reached is a player in a state, and how it came there.
type reached struct {
	p    *player
	path Path
}

// within makes runs of so many steps at most, without random, a system for the explorer.
type within struct {
	World
	steps int
}

func (w within) Starts() []*reached {
	p := newPlayer(w.World, nil)
	return []*reached{&reached{p, p.begin()}}
}

func (w within) Next(dst []explore.Move[*reached, Step], at **reached) []explore.Move[*reached, Step] {
	if len((*at).path) > w.steps {
		return dst
	}
	for _, m := range (*at).p.moves() {
		next := (*at).p.clone()
		step := next.play(m.make(next))
		dst = append(dst, explore.Move[*reached, Step]{Step: step, To: &reached{next, append(slices.Clip((*at).path), step)}})
	}
	return dst
}

// Key tells states of a player apart.
func (within) Key(at **reached) uint64 {
	p, h := (*at).p, fnv.New64a()
	fmt.Fprint(h, p.m.digest(), p.now, p.made)
	if len(p.old) > 0 {
		fmt.Fprint(h, p.old[len(p.old)-1])
	}
	return h.Sum64()
}

func (within) Judge(**reached, *explore.Move[*reached, Step]) string    { return "" }
func (within) Holders(**reached) int                                    { return 0 }
func (within) Path(at **reached, _ []explore.Move[*reached, Step]) Path { return (*at).path }

// Short returns a shortest path to each step that is possible within that many steps, from each state that is reached
// first, nearest states first. A path that is the beginning of another is not among them.
func Short(w World, steps int) (paths []Path) {
	x := explore.Explorer[*reached, Step, uint64, Path]{System: within{w, steps}, Most: math.MaxInt}
	x.Crossed = func(_ **reached, m *explore.Move[*reached, Step], first bool) {
		if !first || len(m.To.path) > steps {
			paths = append(paths, m.To.path)
		}
	}
	_, _ = x.Run() // nothing is judged, and Most is never reached
	return paths
}
