// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import "github.com/redlock-go/redlock/internal/membership"

// remembers: with some guards out, a process keeps the sight of a record state that is gone.
func (w *World) remembers(rs recordState) bool {
	return rs.phase == membership.Retired && w.Off&(membership.GuardLookAgain|membership.GuardRetiredNonce) != 0
}

// sort exchanges masters of the same lists, so that states which differ only in which master is which become equal.
// Masters are ordered by a signature that does not depend on names. Where two signatures are equal the order is left
// as it is: then two equal states may stay apart, which costs states and loses none.
func (w *World) sort(s *state) {
	n := len(w.masters)
	var signs [maxMasters]uint64
	var order [maxMasters]int
	for i := range n {
		signs[i], order[i] = w.signature(s, i), i
	}
	sorted := true
	for i := 1; i < n; i++ {
		for j := i; j > 0 && less(w, &signs, order[j], order[j-1]); j-- {
			order[j], order[j-1] = order[j-1], order[j]
			sorted = false
		}
	}
	if !sorted {
		w.exchange(s, &order)
	}
}

// exchange puts master order[k] at place k.
func (w *World) exchange(s *state, order *[maxMasters]int) {
	n := len(w.masters)
	var to [maxMasters]int // where each master goes
	for k, i := range order[:n] {
		to[i] = k
	}
	c := *s
	for k, i := range order[:n] {
		s.masters[k] = c.masters[i]
		for p := range w.Procs {
			s.procs[p].sights[k] = c.procs[p].sights[i]
		}
		for p := range s.plans {
			s.plans[p].begin[k] = c.plans[p].begin[i]
		}
		s.looking.reads[k] = c.looking.reads[i]
	}
	mask := func(m *uint16) {
		old := *m
		*m = 0
		for i := range n {
			if old&(1<<i) != 0 {
				*m |= 1 << to[i]
			}
		}
	}
	for k := range n {
		mask(&s.masters[k].stamped)
		mask(&s.masters[k].leapt)
		mask(&s.looking.reads[k].record.stamped)
		mask(&s.looking.reads[k].record.leapt)
	}
	for k := range s.messages {
		mask(&s.messages[k].to.stamped)
		mask(&s.messages[k].to.leapt)
	}
	for a := range w.Attempts {
		mask(&s.attempts[a].voted)
		mask(&s.attempts[a].support)
		mask(&s.attempts[a].extended)
		mask(&s.attempts[a].mended)
	}
	for p := range w.Procs {
		mask(&s.procs[p].doubted)
	}
	mask(&s.looking.read)
	mask(&s.looking.learned)
	mask(&s.looking.want)
	for k := range s.messages {
		if m := &s.messages[k]; m.master != 0 {
			m.master = uint8(to[m.master-1] + 1)
		}
	}
	w.tidy(s)
}

// less orders masters of one group. Masters of different groups stay where they are: groups are contiguous.
func less(w *World, signs *[maxMasters]uint64, i, j int) bool {
	return w.groups[i] == w.groups[j] && signs[i] < signs[j]
}

// sign gathers what tells a master apart.
type sign uint64

func (h *sign) add(words ...uint64) {
	for _, w := range words {
		x := (uint64(*h) ^ w) * 0x9E3779B97F4A7C15
		*h = sign(x ^ x>>29)
	}
}

// shape is all of a record state but its nonce.
func (rs *recordState) shape() uint64 {
	return uint64(rs.phase) | uint64(rs.epoch)<<8 | uint64(rs.plan)<<16 | bit(rs.whole)<<24 | bit(rs.stale)<<25
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (r *record) shape() uint64 {
	return r.state.shape() | bit(r.unused)<<26 | uint64(r.intent)<<32 | uint64(r.plan)<<40 | uint64(r.counter)<<48
}

// stampsOf tells apart what stamps say of master i, and its own stamp.
func (w *World) stampsOf(s *state, i int) uint64 {
	r := &s.masters[i].record
	of, leapt := uint64(0), uint64(0)
	for k := range w.masters {
		of += uint64(s.masters[k].stamped >> i & 1)
		leapt += uint64(s.masters[k].leapt >> i & 1)
	}
	return uint64(r.stampAge) | uint64(count(r.stamped))<<8 | uint64(count(r.leapt))<<16 | of<<24 | leapt<<32
}

// signature tells masters apart by all that a state says of them, but not by name.
func (w *World) signature(s *state, i int) uint64 {
	h := sign(1)
	at := &s.masters[i]
	h.add(at.shape(), uint64(at.note.frame)|uint64(at.note.offset)<<8|uint64(at.note.age)<<16|bit(at.down)<<24|
		uint64(at.owner)<<32|uint64(at.left)<<40|uint64(at.jumped)<<48)
	if w.Stamps {
		h.add(w.stampsOf(s, i))
	}
	for p := range w.Procs {
		if v := &s.procs[p].sights[i]; v.state.phase != 0 || s.procs[p].doubted != 0 {
			h.add(v.state.shape()|bit(s.procs[p].doubted>>i&1 != 0)<<32|bit(v.state.nonce == at.state.nonce)<<33|uint64(v.age)<<40, uint64(p))
		}
	}
	for p := range s.plans {
		if b := s.plans[p].begin[i]; b != 0 {
			h.add(uint64(p)<<1 | bit(b == at.state.nonce))
		}
	}
	for a := range w.Attempts {
		if me := &s.attempts[a]; me.phase == asking || me.phase == holding {
			h.add(uint64(a)<<8 | uint64(me.voted>>i&1) | uint64(me.support>>i&1)<<1 | uint64(me.extended>>i&1)<<2 | uint64(me.mended>>i&1)<<3)
		}
	}
	for k := range s.messages {
		if m := &s.messages[k]; m.master == uint8(i+1) {
			h.add(m.from.shape()|uint64(m.pledged)<<32|bit(m.from.nonce == at.state.nonce)<<40, m.to.shape())
		}
	}
	if s.looking.proc != 0 {
		r := &s.looking.reads[i]
		h.add(r.record.shape(), bit(r.record.state.nonce == at.state.nonce)|uint64(r.age)<<8|
			uint64(s.looking.read>>i&1)<<16|uint64(s.looking.learned>>i&1)<<17|uint64(s.looking.want>>i&1)<<18)
	}
	return uint64(h)
}
