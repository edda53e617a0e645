// SPDX-License-Identifier: Apache-2.0

// Package driver carries out what package membership decides. A [Driver] reads the records
// of all masters, asks membership.Next what to do, and does that one thing. It decides
// nothing itself.
package driver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/cause"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Config is what a Driver works with. All fields but Target, URLs and the operator's words
// must be set.
type Config struct {
	Goal   membership.Goal
	Terms  *membership.Terms
	Target *membership.Terms // of a change
	// Nodes are the masters of Terms, and during a change those of Target too, each once. They are bound, and stay
	// the caller's to close. Old and New say for each whether it is in Terms and in Target.
	Nodes    []protocol.Node
	Old, New []bool
	Clock    clock.Clock
	Rand     func() uint64
	Timeout  func() time.Duration // for an answer of one master
	Who      string               // this process, for people
	URLs     string               // of both lists, without passwords, for people
	// Namespace of the records, for people.
	Namespace string

	NeverLocked, Abandon bool // see membership.View
	ReadOnly             bool // nothing is written
	// Probe says that node i has refused a write: each look then writes something to it that changes nothing, to
	// learn whether it writes again. It may be nil.
	Probe func(i int) bool
}

// Driver takes one process through the states of its masters. Its methods are for one goroutine at a time, but for
// Jumped.
type Driver struct {
	cfg      Config
	order    []int // indices into cfg.Nodes, by name, which is the order of a View
	memory   *membership.Memory
	learn    []int              // places in a View to be read with all counters next time
	known    []map[string]int64 // counters by place in the View, of the last look
	times    []time.Duration    // the masters' clocks by place in the View, of the last look; 0 where none was read
	mu       sync.Mutex
	jumps    []jump               // by place
	errs     []error              // by place: why a master's record cannot be used, or was not read
	compared int                  // clocks that their notes could be compared with, in the last look
	seen     membership.Judgement // of the last look
	asides   []aside              // by place
	refused  []error              // by place: why a master refused to write a step of a change, for which it is silent from then on
}

// New returns a Driver that has seen nothing.
func New(cfg Config) *Driver {
	d := &Driver{cfg: cfg, memory: membership.NewMemory()}
	for i := range cfg.Nodes {
		d.order = append(d.order, i)
	}
	slices.SortFunc(d.order, func(a, b int) int { return strings.Compare(cfg.Nodes[a].Name(), cfg.Nodes[b].Name()) })
	n := len(d.order)
	d.known, d.times = make([]map[string]int64, n), make([]time.Duration, n)
	d.jumps, d.errs, d.refused, d.asides = make([]jump, n), make([]error, n), make([]error, n), make([]aside, n)
	for k := range d.jumps {
		d.jumps[k].last = longAgo
	}
	return d
}

// Epoch is the epoch of Terms as this process knows it. Its number is 0 as long as the process has seen no quorum vote.
func (d *Driver) Epoch() membership.Epoch {
	return membership.Epoch{Number: d.memory.Number, ID: d.cfg.Terms.ID}
}

// Place is the index of node i in a View.
func (d *Driver) Place(i int) int { return slices.Index(d.order, i) }

// Step looks at all masters and carries out one decision. It returns after one read, or one read and one write, of each
// master, or when ctx ends.
func (d *Driver) Step(ctx context.Context) Outcome {
	v := d.look(ctx)
	out := Outcome{View: v, Clocks: d.seen, Errs: slices.Clone(d.errs)}
	out.OurClock, out.Pending = d.blame(v)
	if out.OurClock {
		d.memory, v.Memory = membership.NewMemory(), nil
		v.Memory = d.memory
	}
	d.standAside(v, out.OurClock)
	d.memory.Observe(v)
	out.Action = membership.Without(guardsOff()).Next(v)
	d.learn = nil
	if d.cfg.ReadOnly {
		return out
	}
	switch a := &out.Action; a.Kind {
	case membership.Learn:
		d.learn = a.Learn
	case membership.Swap:
		out.Unwritten = d.swap(ctx, v, a)
		if d.cfg.Goal == membership.Change || d.cfg.Goal == membership.Cancel {
			d.refused[a.Master] = out.Unwritten
		}
	case membership.Done:
		if d.cfg.Goal == membership.Change {
			out.Untold = d.writeOver(ctx, v)
			break
		}
		d.writeNotes(ctx, v)
	default:
		if a.Over {
			out.Untold = d.writeOver(ctx, v)
		}
		d.writeNotes(ctx, v)
	}
	return out
}

// guardsOff are the guards that the mutants of package mutants are without.
func guardsOff() (off membership.Guard) {
	if mutants.NoQuarantine {
		off |= membership.GuardWaitQuarantined
	}
	if mutants.RelearnFirst {
		off |= membership.GuardLearnAfterWait
	}
	if mutants.NoSight {
		off |= membership.GuardSight
	}
	if mutants.NoChangeWait {
		off |= membership.GuardWaitRetired
	}
	return off
}

// fields are what a look reads of a record, without the counters.
var fields = []string{membership.FieldState, membership.FieldIntent, membership.FieldPlan, membership.FieldTerms,
	membership.FieldClock, membership.FieldTarget, membership.FieldURLs, membership.FieldOver, membership.FieldBefore, membership.FieldUnused, membership.FieldSince}

// look reads all records at once.
func (d *Driver) look(ctx context.Context) *membership.View {
	v := &membership.View{
		Goal: d.cfg.Goal, Terms: d.cfg.Terms, Target: d.cfg.Target,
		Masters: make([]membership.Master, len(d.order)),
		Nonce:   d.nonce(), Who: d.cfg.Who, ReadOnly: d.cfg.ReadOnly, Namespace: d.cfg.Namespace, Memory: d.memory, First: int(d.cfg.Rand() % uint64(len(d.order))),
		NeverLocked: d.cfg.NeverLocked, Abandon: d.cfg.Abandon,
	}
	reqs := make([]*protocol.Request, len(d.order))
	for k := range reqs {
		reqs[k] = &protocol.Request{Kind: protocol.ReadRecord, Fields: fields}
		if slices.Contains(d.learn, k) {
			reqs[k].Fields = nil // all
		}
	}
	readings := make([]membership.Reading, len(d.order))
	for k, reply := range d.callEach(ctx, reqs) {
		// A change needs a quorum of its masters to take its steps. One that takes none is no better than one that is down.
		if err := d.refused[k]; err != nil {
			reply = protocol.Reply{Err: err}
		}
		at := &v.Masters[k]
		i := d.order[k]
		at.Name, at.Old, at.New = d.cfg.Nodes[i].Name(), d.cfg.Old[i], d.cfg.New[i]
		at.Learned = reqs[k].Fields == nil
		readings[k] = d.read(k, at, &reply)
		if why := cause.Of(d.errs[k]); !at.Answered {
			at.Silence = membership.Silence{Text: why.Text, Remedy: why.Remedy}
		}
	}
	v.Now, v.Wall = d.cfg.Clock.Elapsed(), d.cfg.Clock.Wall()
	d.judge(v, readings)
	return v
}

// read takes a master's answer into the View.
func (d *Driver) read(k int, at *membership.Master, reply *protocol.Reply) (r membership.Reading) {
	d.errs[k], d.known[k], d.times[k] = reply.Err, nil, 0
	if reply.Outcome != protocol.Granted {
		if d.errs[k] == nil {
			d.errs[k] = protocol.ErrStalled
		}
		if errors.Is(d.errs[k], protocol.ErrRecord) {
			d.errs[k] = d.unreadable(at, d.errs[k], nil)
		}
		return r
	}
	rec, err := membership.ParseRecord(reply.Record)
	if err != nil {
		d.errs[k] = d.unreadable(at, err, reply.Record)
		return r
	}
	at.Answered, at.Record, at.Incarnation = true, rec, reply.Seen.Incarnation
	at.Sent, at.Received, at.Time = reply.Seen.Sent, reply.Seen.Received, reply.Seen.Time
	d.times[k] = reply.Seen.Time
	if at.Learned {
		d.known[k] = counters(reply.Record)
	}
	// The clock note of a master that belongs to another list is not this process's to compare or to replace.
	live := d.ours(rec.State.Epoch) && rec.State.Incarnation == at.Incarnation && (rec.State.Phase == membership.Voting || rec.State.Phase == membership.Quarantined)
	return membership.Reading{Sent: at.Sent, Received: at.Received, Time: reply.Seen.Time, Live: live, Note: rec.Clock}
}

// unreadable is err of the record of a master, with the lists that it names, as people write them.
func (d *Driver) unreadable(at *membership.Master, err error, record map[string]string) error {
	err = membership.Beside(err, record, d.cfg.Terms)
	if e, ok := err.(*membership.RecordError); ok {
		e.Ours, e.Theirs = membership.Names(e.Ours), membership.Names(e.Theirs)
	}
	return &protocol.Error{Node: at.Name, Err: err}
}

// ours says whether the epoch is of a list that this process works for.
func (d *Driver) ours(e membership.Epoch) bool {
	return e.ID == d.cfg.Terms.ID || d.cfg.Target != nil && e.ID == d.cfg.Target.ID
}

// standAside has the masters stand aside in whose place another server has voted. Where our own clock jumped, nobody was seen without a break.
func (d *Driver) standAside(v *membership.View, ourClock bool) {
	for k := range v.Masters {
		at, a := &v.Masters[k], &d.asides[k]
		rs := &at.Record.State
		if own := at.Answered && rs.Incarnation == at.Incarnation && d.ours(rs.Epoch); ourClock || !own {
			a.left()
		} else {
			at.Aside = a.stoodAside(at.Incarnation, rs, at.Received, d.cfg.Terms.Wait())
		}
	}
}

// judge compares the clocks with their notes.
func (d *Driver) judge(v *membership.View, readings []membership.Reading) {
	sent := v.Now
	for k := range readings {
		if v.Masters[k].Answered {
			sent = min(sent, readings[k].Sent)
		}
	}
	d.seen = membership.Judge(d.cfg.Terms, readings, v.Nonce, false)
	if d.memory.Overdue(d.cfg.Terms, d.seen.Doubt, sent) {
		d.seen = membership.Judge(d.cfg.Terms, readings, v.Nonce, true)
	}
	v.Doubt, d.compared = d.seen.Doubt, 0
	for k := range v.Masters {
		if readings[k].Live && d.seen.Doubt == 0 && readings[k].Note.Frame != 0 && readings[k].Note.Frame == d.seen.Notes[k].Frame {
			d.compared++
		}
		v.Masters[k].Moved, v.Masters[k].Note = d.seen.Moved[k] && !mutants.NoClockNote, d.seen.Notes[k]
	}
}

// swap carries out a compare-and-set. What comes of it is seen by the next look, but for an error if the master refuses
// all writes, or the user lacks a right for this one.
func (d *Driver) swap(ctx context.Context, v *membership.View, a *membership.Action) error {
	set := append([]string{membership.FieldState, a.To.State.String(), membership.FieldIntent, a.To.Intent.String()}, a.Fields(v, d.cfg.URLs)...)
	if a.Counters != membership.KeepCounters {
		set = appendCounters(set, d.largest(a.Counters == membership.RaiseCountersToFloor))
	}
	reqs := make([]*protocol.Request, len(d.order))
	reqs[a.Master] = &protocol.Request{Kind: protocol.CompareAndSetRecord, CompareAndSet: &protocol.CompareAndSet{
		If:  []string{membership.FieldState, a.From.State.String(), membership.FieldIntent, a.From.Intent.String()},
		Set: set,
	}}
	err := d.callEach(ctx, reqs)[a.Master].Err
	if errors.Is(err, protocol.ErrNoWrites) || errors.Is(err, protocol.ErrDenied) { // else the next look would decide the same at once
		return err
	}
	return nil
}

// writeOver tells the masters that only the old list has that the change is finished, or that its target took their place in another way. It reports whether one that this process saw retired
// was not told.
func (d *Driver) writeOver(ctx context.Context, v *membership.View) (untold bool) {
	reqs, some := make([]*protocol.Request, len(d.order)), false
	for k := range v.Masters {
		at := &v.Masters[k]
		rs := &at.Record.State
		untold = untold || !at.Answered && !at.New && v.Memory.Sights[k].State.Phase == membership.Retired
		if !at.Answered || at.New || rs.Phase != membership.Retired || at.Record.Plan.Target.ID != d.cfg.Target.ID || at.Record.Finished() {
			continue
		}
		some = true
		reqs[k] = &protocol.Request{Kind: protocol.CompareAndSetRecord, CompareAndSet: &protocol.CompareAndSet{
			If:  []string{membership.FieldState, rs.String()},
			Set: []string{membership.FieldOver, rs.Ballot.String()},
		}}
	}
	if some {
		for k, reply := range d.callEach(ctx, reqs) {
			untold = untold || reqs[k] != nil && reply.Outcome != protocol.Granted
		}
	}
	return untold
}

// writeNotes replaces clock notes that are old. To a master that has refused a write, and whose note is not old, it writes
// the record state that is there.
func (d *Driver) writeNotes(ctx context.Context, v *membership.View) {
	reqs, some := make([]*protocol.Request, len(d.order)), false
	for k := range v.Masters {
		r := &v.Masters[k].Record
		if !v.Masters[k].Answered {
			continue
		}
		if !d.seen.Due[k] {
			if d.cfg.Probe != nil && r.State.Phase != membership.None && d.cfg.Probe(d.order[k]) {
				same := []string{membership.FieldState, r.State.String()}
				some, reqs[k] = true, &protocol.Request{Kind: protocol.CompareAndSetRecord, CompareAndSet: &protocol.CompareAndSet{If: same, Set: same}}
			}
			continue
		}
		some = true
		reqs[k] = &protocol.Request{Kind: protocol.CompareAndSetRecord, CompareAndSet: &protocol.CompareAndSet{
			If:  []string{membership.FieldState, r.State.String(), membership.FieldClock, r.Clock.String()},
			Set: []string{membership.FieldClock, d.seen.Notes[k].String()},
		}}
	}
	if some {
		d.callEach(ctx, reqs)
	}
}

// nonce is 47 random bits, not 0.
func (d *Driver) nonce() membership.Nonce { return membership.Nonce(d.cfg.Rand()&(1<<48-1) | 1) }

// callEach puts a request to each master that has one and waits for the answers, for the time of one answer. The replies of
// the others are empty.
func (d *Driver) callEach(ctx context.Context, reqs []*protocol.Request) []protocol.Reply {
	replies, open := make([]protocol.Reply, len(reqs)), 0
	got := make(answers, len(reqs))
	start, timeout := d.cfg.Clock.Elapsed(), d.cfg.Timeout()
	for k, req := range reqs {
		if req == nil {
			continue
		}
		req.Start, req.Deadline = start, start+timeout
		op := &protocol.Op{Request: req, To: got, Index: k}
		if d.cfg.Nodes[d.order[k]].Submit(op) {
			open++
		} else {
			replies[k] = op.Reply
		}
	}
	limit, timer := protocol.NewLimit(timeout), time.NewTimer(timeout)
	defer timer.Stop()
	for open > 0 {
		select {
		case a := <-got:
			replies[a.index] = a.reply
			open--
		case <-timer.C:
			if limit.Over(time.Now()) {
				return replies
			}
			timer.Reset(time.Until(limit.At))
		case <-ctx.Done():
			return replies
		}
	}
	return replies
}

// answers receives replies with the place they belong to.
type answers chan answer

type answer struct {
	index int
	reply protocol.Reply
}

func (a answers) Receive(op *protocol.Op) { a <- answer{op.Index, op.Reply} }
