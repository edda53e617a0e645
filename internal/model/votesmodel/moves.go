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
