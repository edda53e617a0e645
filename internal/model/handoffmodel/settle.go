// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"slices"
	"time"
)

// compatible reports whether the votes that are there let p have one.
func (m *Master) compatible(p *Place) bool {
	return len(m.votes) == 0 || p.Read && m.votes[0].read
}

// maxPassed bounds how many places one op passes over.
const maxPassed = 16

// waits reports whether p is waited for. A process that PUBLISH does not reach has died, as a rule: its sign of life
// lasts for seconds still, and nobody need wait for that. A client that has said that it does not hear is waited for,
// because it asks by itself.
func (m *Master) waits(now time.Duration, p *Place) bool {
	return m.alive(now, p.Client) && (m.Listens[p.Client] || m.signs[p.Client].Deaf)
}

// next is the first place that is waited for, the caller's among them, or else the first that is alive.
func (m *Master) next(now time.Duration, caller *Place) *Place {
	first := m.head(now)
	line := m.line()
	for i := range line[:min(len(line), maxPassed)] {
		p := &line[i]
		if caller != nil && p.Holder == caller.Holder || m.waits(now, p) {
			return p
		}
	}
	return first
}

// turn reports whether nobody who is waited for goes before p: no smaller ticket or, for a reader, no writer's.
func (m *Master) turn(now time.Duration, p *Place) bool {
	line := m.line()
	for i := range line {
		q := &line[i]
		if q.compare(p) >= 0 {
			break
		}
		if (!p.Read || !q.Read) && (i >= maxPassed || m.waits(now, q)) {
			return false
		}
	}
	return true
}

// settle gives a lock that is free to the next in the queue. The caller has its vote in the answer. Anybody else has it
// by message, but only if the op itself set the lock free by a give-back that may hand on (rules H16 and H17). A lock
// that it finds free it leaves, and wakes the next: that client's own claim then gets the vote in a reply, which TIME
// goes with. Readers are woken.
func (m *Master) settle(now time.Duration, caller *Place, proposal int64, hand bool) Answer {
	p := m.next(now, caller)
	if caller != nil && m.compatible(caller) && m.turn(now, caller) {
		return m.grant(now, caller, proposal)
	}
	if p == nil || !m.compatible(p) {
		return Answer{}
	}
	switch {
	case p.Read:
		m.wakeReaders(now, caller)
	case hand && !m.Java:
		to, ttl := *p, ShortTTL(p.TTL)
		if m.drop == H12 {
			ttl = p.TTL
		}
		number := m.give(now, &to, ttl, proposal)
		m.leave(m.State, to.Holder)
		m.notices = append(m.notices, Notice{to.Client, Hand{to.Holder, number, m.signs[to.Client].Stamp, ttl}})
	default:
		m.notices = append(m.notices, Notice{Client: p.Client})
	}
	return Answer{}
}

// maxWoken bounds how many clients of readers one op wakes.
const maxWoken = 64

// wakeReaders wakes the clients of the readers that come before the first writer.
func (m *Master) wakeReaders(now time.Duration, caller *Place) {
	line := m.line()
	for i := range line {
		p := &line[i]
		if !p.Read && m.waits(now, p) || len(m.notices) == maxWoken {
			return
		}
		woken := slices.ContainsFunc(m.notices, func(n Notice) bool { return n.Client == p.Client })
		if p.Read && !woken && m.alive(now, p.Client) && (caller == nil || p.Holder != caller.Holder) {
			m.notices = append(m.notices, Notice{Client: p.Client})
		}
	}
}

// Claim executes op.
func (m *Master) Claim(now time.Duration, op ClaimOp) (Reply, []Notice) {
	m.begin(now)
	if op.State != m.State {
		return Reply{Refused: true}, nil
	}
	p := op.Place
	m.head(now)
	if v := m.voteOf(p.Holder); v != nil {
		v.until = now + p.TTL
		if op.Token > m.Counter {
			// A reader joins only where it raised the counter itself: another may have its number else.
			m.Counter, v.number = op.Token, op.Token
		}
		return Reply{Answer: Answer{Standing: Voted, TTL: p.TTL, Ahead: m.ahead(&p), Vote: m.told(v)}}, nil
	}
	if m.placeOf(m.State, p.Holder) < 0 {
		return Reply{Answer: Answer{Standing: Gone, Held: m.held(now), Stranger: m.strange()}}, nil
	}
	return Reply{Answer: m.settled(now, &p, op.Proposal, false)}, m.notices
}

// Stranger has a Redisson client take the lock for ttl if nobody has it, or release it with ttl 0. It does not look at
// the queue, and its release does not settle. Stranger reports whether it did so.
func (m *Master) Stranger(now, ttl time.Duration) bool {
	m.begin(now)
	if ttl == 0 {
		had := m.voteOf(stranger) != nil
		m.remove(stranger)
		return had
	}
	if len(m.votes) > 0 {
		return false
	}
	m.votes = append(m.votes, vote{holder: stranger, until: now + ttl})
	return true
}

// stranger is the holder of Redisson's votes.
const stranger = "java"

func (m *Master) strange() bool { return m.voteOf(stranger) != nil }
