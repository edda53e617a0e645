// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"slices"

	"github.com/redlock-go/redlock/internal/protocol"
)

// moves are all moves that are possible.
func (p *player) moves() (all []move) {
	for i := range clients {
		all = append(all, p.calls(i)...)
	}
	return slices.Concat(all, p.late(), p.events())
}

// play makes the step: the model executes it, and its answers are in the step that is returned.
func (p *player) play(s Step) Step {
	m := p.m
	switch s.Event {
	case Called:
		s.Replies, s.Said = m.Do(0, s.Call)
	case Expired:
		m.Empty()
		clear(m.timeouts)
	case TimedOut:
		m.TimeOut(s.Holder)
	case Rested:
		m.EndRest()
	case Lapsed:
		m.Lapse(s.Client)
	case RedissonListens:
		m.Listens = s.On
	case ClientListens:
		m.Hears[s.Client] = s.On
	case RedissonTakes:
		mode := protocol.Plain
		if p.w.Readers {
			mode = protocol.Write
		}
		m.Take(mode, fullTTL)
	case StateBecomes:
		m.State = s.State
	}
	s.Keys = m.Keys()
	return s
}

// adoptions are the moves by which client i adopts the vote of another, which is over with that.
func (p *player) adoptions(i int) (all []move) {
	for j := range clients {
		from := p.now[j]
		if from.holder == "" {
			continue
		}
		all = append(all, move{2, func(p *player) Step {
			p.old, p.now[j] = append(p.old, from), attempt{}
			p.now[i] = p.fresh(i, attempt{})
			p.now[i].adopts = &protocol.Request{Kind: protocol.Adopt, Lock: p.lock(protocol.Plain), Holder: p.now[i].holder, From: from.holder,
				Voted: p.state(i), Passed: p.chance(40), TTL: p.now[i].ttl, Token: p.proposal(i)}
			return Step{Event: Called, Call: p.call(i, *p.now[i].adopts)}
		}})
	}
	return all
}
