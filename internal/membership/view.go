// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"math"
	"slices"
	"time"
)

// Goal is what a process wants of the masters.
type Goal uint8

const (
	Serve  Goal = iota // lock with the masters of Terms, and recover those that need it
	Init               // let the masters of Terms begin, on the operator's word that this list is the right one
	Change             // move from Terms to Target
	Cancel             // give up an unfinished change from Terms
)

// Master is what one look saw of one master.
type Master struct {
	Name        string
	Old, New    bool          // listed in Terms; listed in Target
	Answered    bool          // the rest is read
	Sent        time.Duration // when the request was sent and...
	Received    time.Duration // ...answered, on the client's elapsed clock
	Incarnation string        // what the master is now
	Record      Record
	Aside       bool          // another server has voted in its place since it did: its record is as good as lost
	Time        time.Duration // of the master's clock, since 1970; 0 if it was not read
	Learned     bool          // the driver read all counters with the record, and keeps them
	Moved       bool          // its clock moved: see Judge, or the watch of the connection
	Note        Note          // what its clock note is to be when it is quarantined: see Judge
	Silence     Silence       // why it did not answer, for people
}

// Silence is what the driver knows of a master that did not answer. Only words rest on it.
type Silence struct{ Text, Remedy string }

// View is all that a decision rests on: what one look saw, what the client remembers, and what is wanted. The driver makes
// a new one for each look.
type View struct {
	Goal    Goal
	Terms   *Terms
	Target  *Terms   // of Change
	Masters []Master // of both lists, sorted by name
	First   int      // where this client begins to look for work, so that clients do not all choose the same master
	Now     time.Duration
	Wall    time.Time
	Doubt   uint64 // about the clocks: see Judge
	Nonce   Nonce  // fresh for every View
	Who     string // this process, for people
	// ReadOnly: this process only looks, and lets no master vote. Only words rest on it.
	ReadOnly bool
	// Namespace of the masters' records. Only words rest on it.
	Namespace string
	Memory    *Memory

	// The operator's words. NeverLocked: nothing was ever locked with these masters. Abandon: an unfinished change is
	// given up for the list that Init begins.
	NeverLocked, Abandon bool
}

// Never is the time of what was not seen.
const Never = time.Duration(math.MinInt64)

// Memory is what a client remembers between two looks with one goal, at the masters of one or two lists. NewMemory makes
// it; Observe keeps it; Next reads it. When the client's own clock jumps, the driver takes a new one: every time in the
// old one was measured wrong.
type Memory struct {
	// Number of the epoch of Terms that this client knows, 0 for none. A client learns it from a quorum that votes.
	Number int64
	// Whole is when this client last saw a quorum vote in that epoch: when the first of the requests was sent. A
	// client vouches for an epoch that it saw whole less than a maximum TTL before.
	Whole time.Duration
	// Left is an epoch that began with a change from this client's epoch.
	Left Epoch
	// Doubt is the doubt about the clocks that this client saw last, and Since the time from when on.
	Doubt uint64
	Since time.Duration
	// Sights has the record state with a nonce that each master of the View was last seen with.
	Sights []Sight
	at     time.Duration // the View that was observed last
}

// Sight says from when to when a client has seen one record state. It stood from First to Last without a break. Since is
// First, or earlier if the stamp of the record state proves that: then it stood from Since on.
type Sight struct {
	State              RecordState
	First, Last, Since time.Duration
}

// NewMemory is that of a client that has seen nothing.
func NewMemory() *Memory { return &Memory{Whole: Never, at: Never} }

// Observe takes in what v saw. It is called once for each View, before Next.
func (m *Memory) Observe(v *View) { shipped.Observe(m, v) }

// Observe is [Memory.Observe] by these rules.
func (r *Rules) Observe(m *Memory, v *View) {
	m.at = v.Now
	if len(m.Sights) != len(v.Masters) {
		m.Sights = make([]Sight, len(v.Masters))
	}
	for i := range v.Masters {
		at, s := &v.Masters[i], &m.Sights[i]
		if !at.Answered {
			continue
		}
		state := at.state()
		switch {
		case state.Nonce == 0 || !timed(v, state):
			if r.ended(s) {
				*s = Sight{}
			}
		case s.State == state:
			s.Last = max(s.Last, at.Sent)
		case r.ended(s):
			*s = Sight{State: state, First: at.Received, Last: at.Sent}
		}
		s.Since = s.First
		if d, ok := r.standing(v, i); ok && s.State == state {
			s.Since = min(s.First, v.Now-d)
		}
	}
	if m.Doubt != v.Doubt {
		m.Doubt, m.Since = v.Doubt, v.Now
	}
	m.count(v)
}

// Overdue: this doubt about the clocks, of a reading that was sent at this time, has stood for W. See Judge.
func (m *Memory) Overdue(t *Terms, doubt uint64, sent time.Duration) bool {
	return doubt != 0 && m.Doubt == doubt && sent-m.Since >= t.Wait()
}

// timed: a client with this goal waits while such a record state stands.
func timed(v *View, rs RecordState) bool {
	return rs.Epoch.ID == v.Terms.ID && (rs.Phase == Retired) == (v.Goal == Change)
}

// count learns the number of the epoch, and when the epoch was whole.
func (m *Memory) count(v *View) {
	for i := range v.Masters {
		rs, r := v.Masters[i].state(), &v.Masters[i].Record
		if v.Masters[i].Old && rs.Epoch.ID == v.Terms.ID && rs.Epoch.Number >= m.Number && r.Finished() && r.Plan.Target.Number > m.Left.Number {
			m.Left = r.Plan.Target
		}
		if !v.Masters[i].Old || rs.Phase != Voting {
			continue
		}
		// It votes in the new list. One that votes in the old one again, because the change was cancelled, has the plan too.
		if p := r.Plan; rs.Epoch.ID == p.Target.ID && p.From.ID == v.Terms.ID && p.Target.ID != v.Terms.ID && p.From.Number >= m.Number && p.Target.Number > m.Left.Number {
			m.Left = p.Target
		}
		// A quorum with a smaller number than this client knows lost its records and was begun anew by an Init whose
		// time of day was behind. All locks of before are over then.
		if rs.Epoch.ID != v.Terms.ID || rs.Epoch.Number < m.Number && m.Left != (Epoch{}) {
			continue
		}
		votes, sent := 0, v.Masters[i].Sent
		for j := range v.Masters {
			if at := &v.Masters[j]; at.Old && at.state().Epoch == rs.Epoch && at.state().Phase == Voting {
				votes, sent = votes+1, min(sent, at.Sent)
			}
		}
		if votes >= v.Terms.Quorum() && (rs.Epoch.Number != m.Number || sent > m.Whole) {
			m.Number, m.Whole = rs.Epoch.Number, sent
			if m.Left.Number < m.Number {
				m.Left = Epoch{}
			}
		}
	}
}

// Finished: the master is retired, and the change for which it was has let the new list begin. Only refusals
// and their words rest on it.
func (r *Record) Finished() bool {
	return r.State.Phase == Retired && r.Over != "" && r.Over == r.State.Ballot.String() && r.Plan.Ballot == r.State.Ballot
}

// last is the largest number of an epoch of Terms in any record, whatever the master is now. What a change back prepared does not count.
func (v *View) last() (n int64) {
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.State.Epoch.ID == v.Terms.ID && (r.State.Phase != Quarantined || r.Target != v.Terms.String()) {
			n = max(n, r.State.Epoch.Number)
		}
	}
	return n
}

// finished is a master that tells that the change to the list for which this one was left is finished, or -1. What is finished stays so: the
// record counts whatever the master is now, unless another one tells that this list was begun again since.
func (v *View) finished() int {
	last := v.last()
	return slices.IndexFunc(v.Masters, func(at Master) bool {
		rs, p := at.Record.State, &at.Record.Plan
		return at.Record.Finished() && (v.Memory.Left != (Epoch{}) && p.Target == v.Memory.Left || at.Old && rs.Epoch.ID == v.Terms.ID && rs.Epoch.Number == last)
	})
}

// finishedTo is the epoch of the target with which the change from this epoch has finished, as a master of Terms tells, or none. The masters
// of the target may have forgotten it, or have left it.
func (v *View) finishedTo(from Epoch) (e Epoch) {
	left := Epoch{max(from.Number, v.last()), v.Terms.ID}
	for i := range v.Masters {
		if r := &v.Masters[i].Record; r.Finished() && r.State.Epoch == left && r.Plan.Target.ID == v.Target.ID {
			e = r.Plan.Target
		}
	}
	return e
}

// voted: a master with this record state has voted in its epoch, in whatever incarnation.
func (rs *RecordState) voted() bool { return rs.Phase == Voting || rs.Phase == Retired }

// targetBegan: a record tells that the change to e is finished, or that a master of the target has voted in e or later, whatever the master is now.
func (v *View) targetBegan(e Epoch) bool {
	return slices.ContainsFunc(v.Masters, func(at Master) bool {
		rs := &at.Record.State
		return at.Record.Finished() && at.Record.Plan.Target == e || at.New && rs.voted() && rs.Epoch.ID == e.ID && rs.Epoch.Number >= e.Number
	})
}

// prepared is the list from which a change prepared master i for v.Terms, if neither the masters nor this process tell that it began with
// them; else nil. What an Init or a client claimed since is not prepared any more. An Init that gives up the change asks for none.
func (v *View) prepared(i int) *Terms {
	r := &v.Masters[i].Record
	e := r.State.Epoch
	if v.Abandon || r.Before == nil || r.State.Phase != Quarantined || e.ID != v.Terms.ID || v.Memory.Number >= e.Number || r.Target != v.Terms.String() {
		return nil
	}
	for j := range v.Masters { // in an incarnation before, too
		if rs := &v.Masters[j].Record.State; rs.voted() && rs.Epoch.ID == e.ID && rs.Epoch.Number >= e.Number {
			return nil
		}
	}
	return r.Before
}

// state is the master's record state in the incarnation that the master has now. A master without one is lost, and so is one that stood aside.
func (at *Master) state() RecordState {
	if !at.Answered || at.Aside || at.Record.State.Incarnation != at.Incarnation {
		return RecordState{}
	}
	return at.Record.State
}

// Kind says what an Action is.
type Kind uint8

const (
	Look   Kind = iota // read the masters again: the View has no nonce, or Observe has not seen it
	Learn              // read all counters of the masters in Learn, then Observe and ask again
	Swap               // compare-and-set the head of Master from From to To, and write Fields
	Wait               // look again after For
	Refuse             // nothing can be done until something changes; Explain says what
	Done               // the goal is reached; if For is not 0, more is to do then
)

// Counters says which counters a Swap writes. A compare-and-set only ever raises a counter.
type Counters uint8

const (
	KeepCounters         Counters = iota
	RaiseCounters                 // to the largest of those that were learned with this View
	RaiseCountersToFloor          // likewise, and at least to Floor
)

// Floor is above every token that masters can have given whose counters are lost: a script takes no proposal that is
// more than a minute ahead of its master's clock.
func Floor(wall time.Time) int64 { return wall.Add(time.Minute).UnixMicro() }

// Action is the one thing to do now. After it the driver looks again, whatever came of it. A compare-and-set that was
// refused is never sent again to the head that stands there instead.
type Action struct {
	Kind     Kind
	Master   int // of Swap
	From, To Head
	Plan     *Plan // to be set beside the head; nil leaves it as it is
	Counters Counters
	Stamp    *Stamp // to be set beside the head, which stays; nil leaves it as it is
	Unused   bool   // the record state is set on the word that nothing was ever locked: see Record
	Over     bool   // of Refuse: the retired masters of Terms may be told that the target took their place
	Learn    []int
	For      time.Duration
	Why      Why
}

// givesUp: the master votes without a change that a quorum has cancelled. It was retired for that, or Cancel finds it promised.
func (a *Action) givesUp(v *View) bool {
	from, to := &a.From, &a.To
	return to.State.Phase == Voting && to.State.Epoch == from.State.Epoch && to.Intent.Target == (Epoch{}) &&
		(from.State.Phase == Retired || v.Goal == Cancel && to.Intent.Ballot == from.Intent.Ballot)
}

// Fields are the fields and values that a Swap sets beside state and intent, without the counters. urls are both lists
// of URLs without passwords.
func (a *Action) Fields(v *View, urls string) []string {
	var f []string
	if a.Stamp != nil && a.Stamp.Nonce == a.From.State.Nonce {
		return []string{FieldSince, a.Stamp.String()}
	}
	if a.Plan != nil {
		f = append(f, FieldPlan, a.Plan.String())
	}
	switch to := a.To.State; {
	case to.Epoch == a.From.State.Epoch && a.From.State.Phase != None:
	case v.Target != nil && to.Epoch.ID == v.Target.ID:
		f = append(f, FieldTerms, v.Target.String())
	default:
		f = append(f, FieldTerms, v.Terms.String())
	}
	switch {
	case a.To.Intent.Target != (Epoch{}) && v.Target != nil && a.To.Intent.Target.ID == v.Target.ID,
		a.To.State.Phase == Quarantined && v.Goal == Change:
		f = append(f, FieldTarget, v.Target.String(), FieldURLs, urls)
	case a.To.Intent.Ballot == (Ballot{}), v.Masters[a.Master].Record.Target == v.Terms.String(), // the latter is what a preparation left
		a.givesUp(v): // a quorum that votes has promised it
		f = append(f, FieldTarget, "", FieldURLs, "")
	}
	if a.To.State.Phase == Quarantined {
		// Its clock may have been ahead when it last asked for its TIME.
		f = append(f, FieldClock, v.Masters[a.Master].Note.String(), FieldLatest, "")
	}
	if a.Unused {
		f = append(f, FieldUnused, a.To.State.Nonce.String())
	}
	// An Init that gives up a change waits for the locks of both lists, also when it is called again.
	switch longest := v.longest(); {
	case a.To.State.Phase == Quarantined && v.Goal == Change:
		f = append(f, FieldBefore, v.Terms.String())
	case a.To.State.Phase == Quarantined && v.Goal == Init && longest != nil:
		f = append(f, FieldBefore, longest.String())
	case a.To.State.Phase == Voting && v.Masters[a.Master].Record.Before != nil:
		f = append(f, FieldBefore, "")
	}
	return f
}
