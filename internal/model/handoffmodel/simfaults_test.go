// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"slices"
	"time"
)

// broken ends the connection: what is on it is unknown, no vote, and owes a give-back that does not hand (rule H17).
func (l *lane) broken() {
	l.life++
	old := append(l.flight, l.queue...)
	l.flight, l.queue = nil, nil
	for _, o := range old {
		if o.swap != nil && o.swap.Out != "" {
			l.queue = append(l.queue, op{swap: &Swap{Out: o.swap.Out}})
		}
	}
	for _, o := range old {
		if o.taken != nil && !l.c.dead {
			o.taken(Reply{Refused: true})
		}
	}
	l.flush()
}

// restart has master n lose everything. It votes again after the longest TTL, with the largest of the others' counters.
func (s *sim) restart(n int) {
	m := s.masters[n]
	m.states++
	m.Master = Master{State: "recovering", drop: m.drop, Listens: m.Listens}
	state := fmt.Sprint(m.states)
	s.tell("master %d restarts without its data", n+1)
	for _, c := range s.clients {
		c.lanes[n].broken()
	}
	s.plan(s.after(s.ttl), func() {
		if fmt.Sprint(m.states) != state {
			return // it restarted again
		}
		for _, other := range s.masters {
			m.Counter = max(m.Counter, other.Counter)
		}
		m.State = state
	})
}

// kill ends client i without a word; its connections are closed.
func (s *sim) kill(i int) {
	s.tell("%s dies", s.clients[i].id)
	s.clients[i].dead = true
	s.deafen(i, true)
}

// killWaiter ends the client that waits behind the next one. If it dies silently its connections stay open.
func (s *sim) killWaiter(silent bool) {
	var waiting []*simClient
	for _, c := range s.clients {
		if c.attempt != nil {
			waiting = append(waiting, c)
		}
	}
	slices.SortFunc(waiting, func(a, b *simClient) int { return int(a.ticket - b.ticket) })
	second := waiting[1]
	s.kill(second.index)
	for _, m := range s.masters {
		m.Listens[second.id] = m.Listens[second.id] || silent
	}
}

// deafen has the subscriptions of client i down, or up again. The client notices a little later, and says so.
func (s *sim) deafen(i int, down bool) {
	c := s.clients[i]
	for _, m := range s.masters {
		m.Listens[c.id] = !down || s.drop == H19
		m.reaches[c.id] = !down
	}
	s.plan(s.after(10*time.Millisecond), func() { c.noticed(down) })
}

// stop has master n answer nobody for d.
func (s *sim) stop(n int, d time.Duration) {
	m := s.masters[n]
	m.down = true
	for _, c := range s.clients {
		c.lanes[n].broken()
	}
	s.plan(s.after(d), func() {
		m.down = false
		for _, c := range s.clients {
			c.lanes[n].flush()
		}
	})
}
