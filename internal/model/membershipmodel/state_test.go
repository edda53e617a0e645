// SPDX-License-Identifier: Apache-2.0

package membershipmodel

import (
	"cmp"

	"github.com/redlock-go/redlock/internal/membership"
)

// Bounds of a World. A state is a value of fixed size without pointers, so that it is comparable, is copied without an
// allocation and is hashed as memory.
const (
	maxMasters  = 10
	maxProcs    = 4
	maxAttempts = 3
	maxPlans    = 10
	maxMessages = 2
	maxEpochs   = 250
)

// state is one state of a World. Every field is a byte, zero where it is not used. What fills a gap has a name: a field without one is not compared, and so
// the compiler hashes and compares each field apart, which was a sixth of an exploration.
type state struct {
	masters  [maxMasters]master
	plans    [maxPlans]plan // those that something refers to, by round
	procs    [maxProcs]proc
	attempts [maxAttempts]attempt
	messages [maxMessages]message
	looking  looking
	left     budget
	leaps    uint8 // how often counters were taken from a clock
	granted  uint8 // the largest token that was granted
}

// budget is what may still go wrong.
type budget struct{ losses, restarts, downs, kills, ownJumps, jumps, blind, posts uint8 }

// recordState is a membership.RecordState with numbers for its texts.
type recordState struct {
	phase membership.Phase
	epoch uint8 // index in World.epochs, plus 1
	nonce uint8
	plan  uint8 // of a retired one: index in state.plans, plus 1
	whole bool
	stale bool // its incarnation is not the one that the master has now
}

// record is what a master keeps.
type record struct {
	state   recordState
	intent  uint8 // index in state.plans, plus 1
	plan    uint8 // likewise
	counter uint8
	unused  bool // of a quarantined one: Init set it on the word that nothing was ever locked, which was believed
	note    note
	// The stamp of a quarantined one: how many ticks ago it was made, the masters whose clocks it has, and those of them
	// whose clocks have jumped since.
	stampAge       uint8
	stamped, leapt uint16
}

type master struct {
	record
	down   bool
	owner  uint8 // attempt that has the vote, plus 1
	left   uint8 // ticks until the vote expires
	jumped uint8 // by how many jumps its clock is ahead
}

// note is a clock note: the offset in jumps, and its age in ticks.
type note struct{ frame, offset, age uint8 }

// plan is a membership.Plan. Two plans of one index are one plan.
type plan struct {
	round        uint8
	from, target uint8             // epochs, plus 1; target 0 cancels
	begin        [maxMasters]uint8 // nonces, by master
}

// sight is a membership.Sight. age is how long ago the record state was seen first, up to the wait of the proc's terms:
// then it is that wait, and one more if the sight is vouched for.
type sight struct {
	state recordState
	age   uint8
}

type proc struct {
	doubted uint16 // masters whose clocks it saw doubted
	number  uint8  // of the epoch it knows
	left    uint8  // epoch that began from it, plus 1
	whole   uint8  // how long ago it saw a quorum vote, up to wait plus maximum TTL
	doubt   uint8  // how long ago its doubt about clocks began, plus 1; 0 for no doubt
	dead    bool
	Gap     bool // so that a state has no gaps
	sights  [maxMasters]sight
}

// message is a compare-and-set that was decided and has not arrived.
type message struct {
	master  uint8 // plus 1; 0 for none
	from    recordState
	pledged uint8 // the intent before
	to      record
	setPlan bool
	setNote bool
	leap    bool
	Gap     bool // so that a state has no gaps
}

type phase uint8

const (
	idle phase = iota
	asking
	holding
	over
)

// attempt is one attempt to take the lock, and the lease that comes of it.
type attempt struct {
	voted    uint16 // masters that gave it their vote
	support  uint16 // masters that stand for the token
	extended uint16 // masters that confirmed in the round of extension under way
	mended   uint16 // masters that it put its vote back on since that round began
	phase    phase
	epoch    uint8 // plus 1, from its first vote on
	age      uint8 // ticks since its validity began
	token    uint8
	after    uint8 // the largest token that was granted before it began
	extends  uint8 // how many rounds of extension it has begun
	extAge   uint8 // ticks since the round under way began, plus 1; 0 for none
	won      bool  // the token was granted
}

// looking is a look that takes its reads one by one: what was read, and how long ago.
type looking struct {
	read    uint16
	learned uint16
	want    uint16 // to be read before the decision
	reads   [maxMasters]read
	proc    uint8 // plus 1; 0 for none
	Gap     uint8 // so that a state has no gaps
}

type read struct {
	record record
	age    uint8
	Gap    uint8 // so that a state has no gaps
}

// tidy renames what only has a name: nonces are numbered in the order in which the state mentions them, plans by
// round, and what can never matter again is forgotten. Two states that differ only in names become equal.
func (w *World) tidy(s *state) {
	n := len(w.masters)
	for p := range w.Procs {
		for i := range n {
			if v := &s.procs[p].sights[i]; v.state.phase != 0 && v.state != s.masters[i].state && !w.remembers(v.state) {
				*v = sight{}
			}
		}
	}
	for k := range s.messages {
		if w.dead(s, &s.messages[k]) {
			s.messages[k] = message{}
		}
	}
	if s.messages[0].master == 0 && s.messages[1].master != 0 {
		s.messages[0], s.messages[1] = s.messages[1], message{}
	}
	var refs references
	if s.plans[0].round != 0 {
		refs.plans(w, s)
		s.tidyPlans(&refs, w.Nonces)
	}
	refs.nonces(w, s)
	s.tidyNonces(&refs, n)
	if w.Jumps > 0 {
		w.tidyFrames(s)
	}
	if m := &s.messages; m[1].master != 0 && compareMessages(&m[0], &m[1]) > 0 {
		m[0], m[1] = m[1], m[0]
	}
}

// dead: the compare-and-set can only be refused. A record state with a nonce never stands again, and the intent beside
// one record state only grows.
func (w *World) dead(s *state, m *message) bool {
	if m.master == 0 {
		return true
	}
	if w.Follow {
		return false
	}
	at := &s.masters[m.master-1]
	return m.from.nonce != 0 && (m.from != at.state || m.pledged != at.intent)
}

// references are the places in a state that name plans, or nonces. Places that name none are left out.
type references struct {
	at [4*maxMasters + maxProcs*maxMasters + 5*maxMessages + 3*maxMasters]*uint8
	n  int
}

func (r *references) add(b *uint8) {
	if *b != 0 {
		r.at[r.n] = b
		r.n++
	}
}

func (r *references) record(rec *record) {
	r.add(&rec.state.plan)
	r.add(&rec.intent)
	r.add(&rec.plan)
}

func (r *references) plans(w *World, s *state) {
	r.n = 0
	n := len(w.masters)
	for i := range n {
		r.record(&s.masters[i].record)
	}
	for k := range s.messages {
		if m := &s.messages[k]; m.master != 0 {
			r.add(&m.from.plan)
			r.add(&m.pledged)
			r.record(&m.to)
		}
	}
	for p := range w.Procs {
		for i := range n {
			r.add(&s.procs[p].sights[i].state.plan)
		}
	}
	if s.looking.proc != 0 {
		for i := range n {
			r.record(&s.looking.reads[i].record)
		}
	}
}

func (r *references) nonces(w *World, s *state) {
	r.n = 0
	n := len(w.masters)
	for i := range n {
		r.add(&s.masters[i].state.nonce)
	}
	for k := range s.messages {
		if m := &s.messages[k]; m.master != 0 {
			r.add(&m.from.nonce)
			r.add(&m.to.state.nonce)
		}
	}
	for p := range w.Procs {
		for i := range n {
			r.add(&s.procs[p].sights[i].state.nonce)
		}
	}
	if s.looking.proc != 0 {
		for i := range n {
			r.add(&s.looking.reads[i].record.state.nonce)
		}
	}
}

func (s *state) tidyPlans(refs *references, nonces int) {
	var order [maxPlans]uint8 // by first mention, plus 1
	var used [maxPlans + 1]bool
	n := 0
	for _, p := range refs.at[:refs.n] {
		if !used[*p] {
			used[*p] = true
			order[n] = *p
			n++
		}
	}
	before := func(a, b uint8) bool {
		return s.plans[a-1].round < s.plans[b-1].round || nonces != 0 && s.plans[a-1].round == s.plans[b-1].round && a < b
	}
	for i := 1; i < n; i++ {
		for j := i; j > 0 && before(order[j], order[j-1]); j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
	var to [maxPlans + 1]uint8
	var plans [maxPlans]plan
	round := uint8(0)
	for k := range n {
		plans[k] = s.plans[order[k]-1]
		to[order[k]] = uint8(k + 1)
		if k == 0 || s.plans[order[k]-1].round != s.plans[order[k-1]-1].round {
			round++
		}
		plans[k].round = round
	}
	s.plans = plans
	for _, p := range refs.at[:refs.n] {
		*p = to[*p]
	}
}

// gone is the name of every nonce that only plans still mention: the master can no longer begin with it.
const gone = 255

func (s *state) tidyNonces(refs *references, masters int) {
	var to [256]uint8
	next := uint8(1)
	for _, n := range refs.at[:refs.n] {
		if to[*n] == 0 {
			to[*n] = next
			next++
		}
		*n = to[*n]
	}
	for k := range s.plans {
		if s.plans[k].round == 0 {
			return
		}
		for i := range masters {
			if n := &s.plans[k].begin[i]; *n != 0 {
				if *n = to[*n]; *n == 0 {
					*n = gone
				}
			}
		}
	}
}

// fresh is a nonce that s does not mention.
func (s *state) fresh() uint8 {
	most := uint8(0)
	for i := range s.masters {
		most = max(most, s.masters[i].state.nonce)
	}
	for k := range s.messages {
		most = max(most, s.messages[k].from.nonce, s.messages[k].to.state.nonce)
	}
	for p := range s.procs {
		for i := range s.procs[p].sights {
			most = max(most, s.procs[p].sights[i].state.nonce)
		}
	}
	for i := range s.looking.reads {
		most = max(most, s.looking.reads[i].record.state.nonce)
	}
	return most + 1
}

func compareMessages(a, b *message) int {
	return cmp.Or(cmp.Compare(a.master, b.master), compareRecordStates(&a.to.state, &b.to.state), compareRecordStates(&a.from, &b.from),
		cmp.Compare(a.pledged, b.pledged), cmp.Compare(a.to.intent, b.to.intent), cmp.Compare(a.to.counter, b.to.counter), cmp.Compare(bit(a.to.unused), bit(b.to.unused)),
		cmp.Compare(a.to.stampAge, b.to.stampAge))
}

func compareRecordStates(a, b *recordState) int {
	return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.plan, b.plan), cmp.Compare(a.nonce, b.nonce))
}
