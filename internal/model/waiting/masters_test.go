// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"slices"

	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/protocol"
)

// fault makes a step of time, or one that concerns a whole process or master.
func (m *Model) fault(w *world, s Step) {
	p := &w.procs[s.P]
	switch s.Kind {
	case Ticks:
		w.used[ticks]++
		w.now += tick
		for i := range masters {
			w.masters[i] = w.masters[i].Clone()
			w.masters[i].At(w.now + w.ahead[i])
		}
	case Lives:
		for i := range masters {
			w.masters[i] = w.masters[i].Clone()
			w.masters[i].Do(w.now+w.ahead[i], votesmodel.Call{State: state, Ops: []protocol.Request{
				{Kind: protocol.Heartbeat, Holder: m.clients[s.P], TTL: waiting.Liveness, Start: w.now}}})
		}
		p.signed = w.now
	case Jumps:
		w.used[jumps]++
		w.hurt = true
		w.ahead[s.I] += ttl
		w.masters[s.I] = w.masters[s.I].Clone()
		w.masters[s.I].At(w.now + w.ahead[s.I])
		for k := range m.Lines {
			w.procs[k].doubts |= 1 << s.I
		}
	case Dies:
		w.used[crashes]++
		w.hurt = true
		for i := range masters {
			w.masters[i] = w.masters[i].Clone()
			w.masters[i].Hears[m.clients[s.P]] = m.Drop == PassedBy
		}
		*p = process{machine: waiting.NewMachine(all), dead: true, death: death{w.now, m.votesOf(w, int(s.P)), p.waits()}, gen: p.gen}
	}
}

// executes has master i execute what process k sent it: an op, with a release right ahead of it that belongs to it. If the reply is lost,
// an acquire may have been executed, and a release is sent again, without a hand.
func (m *Model) executes(w *world, k, i int, replyLost bool) {
	p := &w.procs[k]
	n := 1
	for n < len(p.lanes[i]) && p.lanes[i][n-1].req.More {
		n++
	}
	group := p.lanes[i][:n]
	c := votesmodel.Call{State: state}
	bit := uint64(1) << i
	for _, o := range group {
		if (p.doubts|p.barred)&bit != 0 && m.Drop != Believed {
			o.req.Hand = 0
		}
		if p.barred&bit != 0 {
			o.req.Leaves = false // the acquire behind it is not sent
		}
		if p.barred&bit == 0 || !asksForVote(o.req.Kind) {
			c.Ops = append(c.Ops, o.req)
		}
	}
	w.masters[i] = w.masters[i].Clone()
	replies, said := w.masters[i].Do(w.now+w.ahead[i], c)
	p.lanes[i] = p.lanes[i][n:]
	if replyLost {
		m.unheard(w, k, i, group)
	} else {
		for _, o := range group {
			reply := protocol.Reply{Outcome: protocol.NotSent}
			if p.barred&bit == 0 || !asksForVote(o.req.Kind) {
				reply, replies = replies[0], replies[1:]
			}
			if asksForVote(o.req.Kind) && p.doubts&bit != 0 { // TIME, behind the vote, tells
				p.barred |= bit
				if reply.Outcome == protocol.Granted {
					reply = protocol.Reply{}
				}
			}
			if o.wants {
				p.back[i] = append(slices.Clip(p.back[i]), answer{o.gen, o.req.Kind, reply, o.release})
			}
		}
		p.doubts &^= p.barred & bit
	}
	for _, s := range said {
		for to := range m.Lines {
			if q := &w.procs[to]; s.Channel == protocol.Wake(m.clients[to]) && !q.dead {
				q.told[i] = append(slices.Clip(q.told[i]), s.Text)
			}
		}
	}
}

// asksForVote says whether an op of that kind may get a vote, which a master whose clock jumped is not asked for.
func asksForVote(k protocol.Kind) bool { return k == protocol.Acquire || k == protocol.Adopt }

// breaks loses an op on its way to the master.
func (m *Model) breaks(w *world, k, i int) {
	p := &w.procs[k]
	n := 1
	for n < len(p.lanes[i]) && p.lanes[i][n-1].req.More {
		n++
	}
	group := p.lanes[i][:n]
	p.lanes[i] = p.lanes[i][n:]
	m.unheard(w, k, i, group)
}

// unheard is what becomes of ops of which no reply came.
func (m *Model) unheard(w *world, k, i int, group []op) {
	p := &w.procs[k]
	w.used[cuts]++
	w.hurt = true
	var kept []op
	for _, o := range group {
		switch {
		case o.req.Kind == protocol.Release:
			o.req.Hand, o.req.More, o.req.Leaves = 0, false, false
			kept = append(kept, o)
		case o.wants:
			p.back[i] = append(slices.Clip(p.back[i]), answer{o.gen, o.req.Kind, protocol.Reply{}, o.release})
		}
	}
	p.lanes[i] = append(kept, p.lanes[i]...)
}
