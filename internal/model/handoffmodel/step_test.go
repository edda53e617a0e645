// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// Kind names a step of a model.
type Kind uint8

const (
	Begin     Kind = iota // the attempt begins: it enqueues everywhere
	Enqueue               // a master executes the enqueue: OK if its reply gives the vote
	Give                  // a master gives its vote to a place; the message is on its way
	Hear                  // the client reads an answer or a message: Value is for how long the vote counts
	Claim                 // a master executes a claim: OK if its reply gives the vote, or renews it
	Heartbeat             // a master answers "you hold it" and renews nothing
	Over                  // the attempt is over: its give-back goes everywhere
	Leave                 // a master executes a give-back: OK if it hands the vote on, to Next
	GiveOne               // H5: the attempt gives one vote back, and goes on
	Again                 // H6: the attempt leaves and queues again under its id
	Requeue               // H6: a master executes both
	Beat                  // a master executes a sign of life
	Tick                  // time passes
	Restart               // the master restarts and has lost its votes
	Rejoin                // the master's wait is over: it votes
	Stranger              // a Redisson client takes (OK) or releases the lock here
	Jump                  // the master's clock jumps forward
	Noticed               // a client notices: the master recovers
	Retire                // the first master leaves the old epoch
	Found                 // all masters vote in the new epoch
	kinds
)

// Step is one step with its parameters and, where a master executes something, the reply. Fields that its Kind does not
// use are zero. Master counts from 0.
type Step struct {
	Kind    Kind
	Attempt Attempted
	Next    Attempted
	Master  int
	Value   int64
	OK      bool
}

// Attempted names an attempt of a story: client A, B or C, and which of its attempts.
type Attempted struct{ Client, Number int }

// String is the client's letter and the number of the attempt, as in A1.
func (a Attempted) String() string { return fmt.Sprintf("%c%d", 'A'+a.Client, a.Number+1) }

// String tells the step as one sentence of a story.
func (s Step) String() string {
	who, master := s.Attempt, s.Master+1
	switch s.Kind {
	case Begin:
		return fmt.Sprintf("%v begins and sends its enqueue to every master", who)
	case Enqueue:
		return fmt.Sprintf("master %d executes the enqueue of %v and %s", master, who, explore.Pick(s.OK, "votes at once", "gives it a place"))
	case Give:
		return fmt.Sprintf("master %d hands its vote to %v; the message is on its way", master, who)
	case Hear:
		return fmt.Sprintf("%v reads what master %d says and counts its vote for %d ticks", who, master, s.Value)
	case Claim:
		return fmt.Sprintf("master %d executes a claim of %v and %s", master, who, explore.Pick(s.OK, "votes", "renews the vote"))
	case Heartbeat:
		return fmt.Sprintf("master %d answers %v \"you hold it\" and renews nothing", master, who)
	case Over:
		return fmt.Sprintf("%v is over: it sends its give-back to every master", who)
	case Leave:
		return s.leave()
	case GiveOne:
		return fmt.Sprintf("%v gives the vote of master %d back, and goes on", who, master)
	case Again:
		return fmt.Sprintf("%v leaves every master and queues again under the same id", who)
	case Requeue:
		return fmt.Sprintf("master %d puts %v into its queue again", master, who)
	case Beat:
		return fmt.Sprintf("master %d takes a sign of life of client %c, sent %d ticks ago", master, 'A'+who.Client, s.Value)
	case Tick:
		return "one tick passes"
	}
	return s.clients()
}

// leave tells what a give-back found.
func (s Step) leave() string {
	text := fmt.Sprintf("master %d executes the give-back of %v", s.Master+1, s.Attempt)
	if s.OK {
		return text + fmt.Sprintf(" and hands its vote on to %v; the message is on its way", s.Next)
	}
	return text
}

// clients tells what is left of String: what happens to masters.
func (s Step) clients() string {
	master := s.Master + 1
	switch s.Kind {
	case Restart:
		return fmt.Sprintf("master %d restarts without its votes", master)
	case Rejoin:
		return fmt.Sprintf("the wait of master %d is over", master)
	case Stranger:
		return fmt.Sprintf("a Redisson client %s the lock on master %d", explore.Pick(s.OK, "takes", "releases"), master)
	case Jump:
		return fmt.Sprintf("the clock of master %d jumps forward: its votes are gone", master)
	case Noticed:
		return fmt.Sprintf("a client notices that the clock of master %d jumped: the master recovers", master)
	case Retire:
		return fmt.Sprintf("master %d leaves the old epoch and waits", master)
	case Found:
		return "the new epoch begins: all masters vote in it"
	}
	return fmt.Sprintf("step of unknown kind %d", s.Kind)
}

// weights make a random walk meet contended holds. A uniform choice would end most attempts before they hold anything.
var weights = [kinds]int{
	Begin: 8, Enqueue: 16, Give: 16, Hear: 16, Claim: 4, Heartbeat: 4, Over: 2, Leave: 12, GiveOne: 1, Again: 1, Requeue: 8, Beat: 4,
	Tick: 4, Restart: 1, Rejoin: 8, Stranger: 1, Jump: 1, Noticed: 4, Retire: 1, Found: 8,
}

func (s *Step) weight() int { return weights[s.Kind] }
