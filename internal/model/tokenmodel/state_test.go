// SPDX-License-Identifier: Apache-2.0

package tokenmodel

import "slices"

// stage is how far an attempt has come. From released and abandoned on it grants nothing and its releases may arrive.
type stage uint8

const (
	idle stage = iota
	asking
	counted // the token is fixed
	granted
	released  // was granted, and let go or ran out of validity
	abandoned // gave up, or ran out of validity, before a grant
)

// phase is what a master is doing.
type phase uint8

const (
	voting phase = iota
	quarantined
	learning
)

// recoveries lists the phases a master passes after a crash; the last is always voting.
var recoveries = [...][]phase{
	QuarantineThenRelearn: {quarantined, learning, voting},
	VoteAtOnce:            {voting},
	QuarantineOnly:        {quarantined, voting},
	RelearnThenQuarantine: {learning, quarantined, voting},
	RelearnFromAnyone:     {quarantined, learning, voting},
}

// master is one master's data. Invariant: the counter falls only in a crash.
type master struct {
	counter uint8
	owners  uint8 // a bit for each attempt that has the vote
	phase   phase
	crash   uint8 // its last crash, counted from 1 over all masters; 0 for none
	readBy  uint8 // bit c: the recovery from crash c has read this counter
}

func (m *master) has(a int) bool { return m.owners>>a&1 == 1 }

// ask is what passed between one attempt and one master. There is no mark for an answer that has arrived: an answer not
// yet used is the same as one still on its way, and one that is lost the same as one never used.
type ask struct {
	vote   uint8 // the first answer; for CompareAndSet also the counter that a refusal told
	looked uint8 // what a claim told before the message of a handed vote was read, which is the first answer then; or refusal
	// joined says that the write-back succeeded. It never goes back while the token stands, whatever happens to the
	// master: the client cannot know.
	joined bool
	twice  bool // Resent, H10Incarnation: the vote was given a second time; the first answer stands
	lost   bool // Handed: the vote was given before the master's last crash
	stale  bool // and the wait after that crash is over: the vote has run out
}

// refusal is what ask.looked has if the acquire was refused. No claim tells so much.
const refusal = 63

// told is the master's first answer to the attempt if it is a vote that counts, else 0. Where masters hand their votes on,
// an answer counts only while its vote does (H18).
func (k *ask) told() uint8 {
	switch {
	case k.stale || k.looked == refusal:
		return 0
	case k.looked > 0:
		return k.looked
	}
	return k.vote
}

// supports reports whether the master stands for the token.
func (k *ask) supports(token uint8) bool { return k.joined && !k.stale || k.told() == token }

type attempt struct {
	stage stage
	floor uint8
	token uint8 // 0 until fixed
	after uint8 // the largest token granted before this attempt started, 0 for none
	asks  [maxMasters]ask
}

func (a *attempt) ended() bool      { return a.stage == released || a.stage == abandoned }
func (a *attempt) wasGranted() bool { return a.stage == granted || a.stage == released }

// state is one state of a Model: comparable, and copied freely.
type state struct {
	masters  [maxMasters]master
	attempts [maxAttempts]attempt
	crashes  uint8
	raises   uint8
}

func (m Model) start(counters []int64) state {
	var s state
	for n, c := range counters {
		s.masters[n].counter = uint8(c)
	}
	return s
}

func (s *state) largestGranted() uint8 {
	var most uint8
	for a := range s.attempts {
		if s.attempts[a].wasGranted() {
			most = max(most, s.attempts[a].token)
		}
	}
	return most
}

// countedOn reports whether an attempt that has not ended holds a vote master n gave. While n is not voting, that
// vote was given before its crash.
func (s *state) countedOn(n int) bool {
	for a := range s.attempts {
		if me := &s.attempts[a]; me.asks[n].told() > 0 && !me.ended() {
			return true
		}
	}
	return false
}

// key is a state in canonical form: the smallest encoding over all exchanges of masters and of attempts. Nothing in a
// state or a property depends on which is which, so one of each class is enough.
type key struct {
	attempts [maxAttempts]uint32
	masters  [maxMasters]uint64
	budget   uint16
}

// Key is the smallest encoding of s.
func (y *system) Key(s *state) key {
	var best key
	for i, order := range y.symmetries {
		k := key{budget: uint16(s.crashes)<<8 | uint16(s.raises)}
		for j, a := range order {
			me := &s.attempts[a]
			k.attempts[j] = uint32(me.token)<<24 | uint32(me.after)<<16 | uint32(me.floor)<<8 | uint32(me.stage)
		}
		first := slices.Compare(k.attempts[:], best.attempts[:])
		if i > 0 && first > 0 {
			continue // most orders end here, before the dearer half of the encoding
		}
		y.encodeMasters(s, order, &k)
		if i == 0 || first < 0 || slices.Compare(k.masters[:], best.masters[:]) < 0 {
			best = k
		}
	}
	return best
}

// encodeMasters packs each master, with what every attempt knows of it, into one word: sorting the words covers all
// exchanges of masters. A word is full: 13 bits of the master, and 17 of each attempt.
func (y *system) encodeMasters(s *state, order []int, k *key) {
	for n := range y.Masters {
		at := &s.masters[n]
		word := uint64(at.counter)<<7 | uint64(at.phase)<<5 | uint64(at.crash)<<3 | uint64(at.readBy)>>1 // bits 1 to maxAmnesia
		for _, a := range order {
			x := &s.attempts[a].asks[n]
			word = word<<17 | uint64(x.vote)<<11 | uint64(x.looked)<<5 | bit(x.joined)<<4 | bit(x.twice)<<3 | bit(x.lost)<<2 | bit(x.stale)<<1 | uint64(at.owners>>a&1)
		}
		k.masters[n] = word
	}
	slices.Sort(k.masters[:y.Masters])
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
