// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Event names what happens at a master in a Path.
type Event uint8

const (
	Swapped      Event = iota // the master executes Swap
	Claimed                   // the master executes Claim
	Beaten                    // the master takes Sign of Client
	Expired                   // the vote of Holder runs out
	Lapsed                    // the sign of life of Client runs out
	Listening                 // Client subscribes (On) or unsubscribes its channel
	JavaWaits                 // a Redisson client subscribes (On) or unsubscribes the lock's channel
	JavaHolds                 // a Redisson client takes (On) or releases the lock, if it can: Done
	StateBecomes              // the record's state becomes State; the queue stays in the data set
)

// PathStep is one event with what the master answers and publishes. Fields that its Event does not use are zero.
type PathStep struct {
	Event  Event
	Swap   Swap
	Claim  ClaimOp
	Client string
	Holder string
	State  string
	Sign   Sign
	On     bool

	Done    bool     // JavaHolds: it could
	Reply   Reply    // Swapped and Claimed
	Notices []Notice // Swapped and Claimed: in no order between channels
}

// String tells the step as one sentence of a story.
func (s PathStep) String() string {
	switch s.Event {
	case Swapped:
		in := "nobody"
		if s.Swap.In != nil {
			in = fmt.Sprintf("%s with ticket %d%s%s", name(s.Swap.In.Holder), s.Swap.In.Ticket, mark(s.Swap.In.Read, " to read"), mark(s.Swap.Try, " to try"))
		}
		return fmt.Sprintf("swap out %q%s, in %s, state %s, proposal %d: %v", name(s.Swap.Out), mark(s.Swap.Hand, " with a hand"), in, s.Swap.State, s.Swap.Proposal, s.answer())
	case Claimed:
		return fmt.Sprintf("claim of %s, token %d, state %s: %v", name(s.Claim.Place.Holder), s.Claim.Token, s.Claim.State, s.answer())
	case Beaten:
		return fmt.Sprintf("sign of life of %s, stamp %d%s", name(s.Client), s.Sign.Stamp, mark(s.Sign.Deaf, ", deaf"))
	case Expired:
		return fmt.Sprintf("the vote of %s runs out", name(s.Holder))
	case Lapsed:
		return fmt.Sprintf("the sign of life of %s runs out", name(s.Client))
	case Listening:
		return fmt.Sprintf("%s %s", name(s.Client), pick(s.On, "subscribes", "unsubscribes"))
	case JavaWaits:
		return "a Redisson client " + pick(s.On, "subscribes", "unsubscribes")
	case JavaHolds:
		return fmt.Sprintf("a Redisson client %s the lock: %t", pick(s.On, "takes", "releases"), s.Done)
	case StateBecomes:
		return "the record state becomes " + s.State
	}
	return fmt.Sprintf("event of unknown kind %d", s.Event)
}

func (s PathStep) answer() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s%v %d, TTL %v, %d ahead, held %v%s", mark(s.Reply.Refused, "refused "), mark(s.Reply.Released, "released "),
		mark(s.Reply.Left, "left "), s.Reply.Standing, s.Reply.Vote, s.Reply.TTL, s.Reply.Ahead, s.Reply.Held, mark(s.Reply.Stranger, " by Redisson"))
	for _, n := range s.Notices {
		if n.Hand.Holder == "" {
			fmt.Fprintf(&b, "; wakes %s", name(n.Client))
		} else {
			fmt.Fprintf(&b, "; hands vote %d to %s, stamp %d, TTL %v", n.Hand.Vote, name(n.Hand.Holder), n.Hand.Stamp, n.Hand.TTL)
		}
	}
	return b.String()
}

func mark(yes bool, text string) string { return pick(yes, text, "") }

// name shortens an id of PathClient to its end.
func name(id string) string {
	if i := strings.LastIndexByte(id, '-'); i >= 0 {
		return strings.TrimLeft(id[i+1:], "0")
	}
	return id
}

// String says what an attempt has.
func (s Standing) String() string {
	return [...]string{"silent", "queued", "voted", "gone"}[s]
}

// Path is a run of one lock on one master: a sequence of ops and events, with what the master answers.
type Path []PathStep

// String tells the path as a story, one line a step.
func (p Path) String() string {
	var b strings.Builder
	for i, step := range p {
		fmt.Fprintf(&b, "%3d. %v\n", i+1, step)
	}
	return b.String()
}

// PathClient is the id of client i of a path, in the form of the product's: 36 bytes, a UUID of version 8. Ids order as
// their numbers do. An attempt's id has a colon and a number from 1 to 9 behind it.
func PathClient(i int) string { return fmt.Sprintf("00000000-0000-8000-8000-%012d", i+1) }

// PathTTL is the TTL of a place of a path: longer than Liveness, so that a handed vote has a shorter one.
const PathTTL = time.Minute

// The states of a path. A master begins with the first; ops name any of them.
var states = [...]string{"V1", "R1", "V2"}

// Paths returns n random runs of the exact Master, for Replay; run i is that of seed+i. Its clients do what those of
// README.md may do, and what late, lost and repeated ops make of that. No time passes: votes and signs of life run
// out by an event. In every second path there are readers.
func Paths(seed uint64, n int) []Path {
	var paths []Path
	for i := range n {
		g := newPathMaker(seed + uint64(i))
		for range pathSteps {
			g.step()
		}
		paths = append(paths, g.path)
	}
	return paths
}

const (
	pathSteps   = 60
	pathClients = 4
)

// pathMaker makes one path.
type pathMaker struct {
	random  *rand.Rand
	m       Master
	path    Path
	readers bool
	numbers [pathClients]int   // of the last attempt
	current [pathClients]Place // the attempt under way; no holder for none
	old     []Place            // attempts that are over
	stamp   time.Duration
}

func newPathMaker(seed uint64) *pathMaker {
	g := &pathMaker{random: rand.New(rand.NewPCG(seed, 2)), readers: seed%2 == 1, old: []Place{pathPlace(0, 0)}}
	g.m.State, g.m.Listens = states[0], map[string]bool{}
	for i := range pathClients {
		g.m.Listens[PathClient(i)] = true
		g.add(PathStep{Event: Listening, Client: PathClient(i), On: true})
	}
	g.add(PathStep{Event: StateBecomes, State: g.m.State})
	return g
}

func (g *pathMaker) add(s PathStep) { g.path = append(g.path, s) }

func (g *pathMaker) chance(percent int) bool { return g.random.IntN(100) < percent }

// step adds one step.
func (g *pathMaker) step() {
	i := g.random.IntN(pathClients)
	client := PathClient(i)
	switch what := g.random.IntN(100); {
	case what < 55:
		g.swap(i)
	case what < 80:
		g.claim(i)
	case what < 85:
		g.stamp++
		s := PathStep{Event: Beaten, Client: client, Sign: Sign{g.stamp, g.chance(20)}}
		g.m.Beat(0, client, s.Sign)
		g.add(s)
	case what < 89:
		if len(g.m.votes) > 0 && g.m.votes[0].holder != stranger {
			s := PathStep{Event: Expired, Holder: g.m.votes[g.random.IntN(len(g.m.votes))].holder}
			g.m.remove(s.Holder)
			g.add(s)
		}
	case what < 91:
		delete(g.m.signs, client)
		g.add(PathStep{Event: Lapsed, Client: client})
	case what < 95:
		g.m.Listens[client] = !g.m.Listens[client]
		g.add(PathStep{Event: Listening, Client: client, On: g.m.Listens[client]})
	case what < 96:
		g.m.Java = !g.m.Java
		g.add(PathStep{Event: JavaWaits, On: g.m.Java})
	case what < 98:
		s := PathStep{Event: JavaHolds, On: !g.m.strange()}
		s.Done = g.m.Stranger(0, time.Duration(boolTo[int](s.On))*PathTTL)
		g.add(s)
	case g.chance(50):
		g.m.State = states[g.random.IntN(len(states))]
		g.add(PathStep{Event: StateBecomes, State: g.m.State})
	}
}

// state is the record state that a client's op names: nearly always the master's.
func (g *pathMaker) state() string {
	if g.chance(4) {
		return states[g.random.IntN(len(states))]
	}
	return g.m.State
}

// swap adds an op of client i that gives back, queues, or both.
func (g *pathMaker) swap(i int) {
	g.stamp++
	s := PathStep{Event: Swapped, Swap: Swap{
		State: g.state(), Hand: g.chance(80), Sign: Sign{g.stamp, g.chance(10)}, Proposal: int64(g.random.IntN(40)),
	}}
	cur := &g.current[i]
	switch {
	case cur.Holder != "" && g.chance(8): // the enqueue once more
		p := *cur
		s.Swap.In = &p
	case g.chance(6): // a give-back once more, or late
		g.out(&s.Swap, g.someOld())
	default:
		if cur.Holder != "" {
			g.out(&s.Swap, *cur)
			g.old = append(g.old, *cur)
			*cur = Place{}
		}
		if g.numbers[i] < 9 && (s.Swap.Out == "" || g.chance(50)) {
			g.numbers[i]++
			*cur = pathPlace(i, g.numbers[i])
			cur.Read, cur.Ticket = g.readers && g.chance(50), int64(g.random.IntN(6))
			p := *cur
			s.Swap.In, s.Swap.Try = &p, g.chance(10)
		} else if s.Swap.Out == "" {
			g.out(&s.Swap, g.someOld())
		}
	}
	s.Reply, s.Notices = g.m.Swap(0, s.Swap)
	g.answered(s)
}

func (g *pathMaker) out(op *Swap, p Place) { op.Out, op.OutRead = p.Holder, p.Read }

func (g *pathMaker) someOld() Place { return g.old[g.random.IntN(len(g.old))] }

func pathPlace(i, number int) Place {
	return Place{Client: PathClient(i), Holder: fmt.Sprintf("%s:%d", PathClient(i), number), TTL: PathTTL}
}

// answered adds a step without the messages that reach nobody.
func (g *pathMaker) answered(s PathStep) {
	s.Notices = slices.DeleteFunc(s.Notices, func(n Notice) bool { return !g.m.Listens[n.Client] })
	g.add(s)
}

// claim adds a claim of the attempt of client i, or of one that is over.
func (g *pathMaker) claim(i int) {
	p := g.current[i]
	if p.Holder == "" || g.chance(10) {
		p = g.someOld()
	}
	s := PathStep{Event: Claimed, Claim: ClaimOp{State: g.state(), Place: p, Proposal: int64(g.random.IntN(40))}}
	if g.chance(40) {
		s.Claim.Token = max(g.m.Counter+int64(g.random.IntN(5))-2, 1)
	}
	s.Reply, s.Notices = g.m.Claim(0, s.Claim)
	g.answered(s)
}
