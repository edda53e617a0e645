// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/unacked"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// clockEvery is how often the lane asks for TIME while there is work. A vote may miss a
// jump of the clock within the last few milliseconds. It may miss a jump right after a
// TIME in any case. The next pipeline notices it.
const clockEvery = 5 * time.Millisecond

// evictedEvery is how often the lane asks whether the master has evicted keys, while there is
// work. A vote may miss an eviction within that time. The answer costs a master 2 us, a fifth of
// an acquire, so the lane does not ask each time.
const evictedEvery = 10 * time.Millisecond

// slowBatch is how long a batch that asks for votes may be under way that asks nothing about the master, because a batch before it did. The lane
// asks behind a slower one before it answers for its votes, and a master that is half as far away is asked each time. So what a vote may miss
// is younger than clockEvery, or evictedEvery, and slowBatch together, however long the network or the master held the batch up.
const slowBatch = 10 * time.Millisecond

// batch is one pipeline: unacknowledged releases, and then ops for which callers wait.
type batch struct {
	at       time.Duration // when the lane took it
	idle     time.Duration // since the master last answered, whatever held the lane up meanwhile
	epoch    string
	refusal  error // why the master may be asked for no vote; nil: it may
	releases []*unacked.Entry
	ops      []*protocol.Op
	rights   bool // it looks at the user's rights too
}

// drops says why the lane does not send op, an op of b; nil: it does. The time of op may be over. Or the master may not be asked for a
// vote any more, although it might when op was queued: the answer to the batch before, or a new connection, has shown that its clock jumped.
func (b *batch) drops(op *protocol.Op) error {
	switch {
	case wire.Undoes(op.Request):
		return nil
	case b.at >= op.Deadline:
		return ErrLate
	case asksForVote(op):
		return b.refusal
	}
	return nil
}

// asksBehind says whether an acquire is sent behind the ith op, a release that is to wake nobody because of it: one of the same lock that
// wakes the next in the queue where it is not granted. The acquire may be too late to be sent, or was turned away.
func (b *batch) asksBehind(i int) bool {
	for _, op := range b.ops[i+1:] {
		if op.Kind == protocol.Acquire && op.Wait != nil && (op.Wait.Retry || op.Wait.Only) && !op.Wait.Again && op.Lock.Key == b.ops[i].Lock.Key && b.drops(op) == nil {
			return true
		}
	}
	return false
}

// aboutMaster is what a batch asks about the master itself, behind its ops. A field is nil
// if it was not asked for.
type aboutMaster struct {
	asked  bool // anything was sent: not all ops were dropped
	grants bool // requests for new votes are among it
	time   *redis.TimeCmd
	info   wire.Info // all of InfoSections for a read of the record, else stats alone
	rights *wire.Checked
	// sent and received are when it was asked and answered.
	sent, received time.Duration
}

// untimed returns why the master did not tell its time, if it was asked, or nil.
func (a *aboutMaster) untimed() error {
	if a.time == nil || a.time.Err() == nil {
		return nil
	}
	return wire.Explain(a.time.Err())
}

// exec sends b as one pipeline and answers its ops. It returns an error if the lane needs
// a new connection. What the master refuses is part of the replies.
func (r *redisNode) exec(conn *conn, b batch) error {
	r.takeEpoch(conn, b.epoch)
	conn.wire.MayHand, conn.wire.Deaf = b.refusal == nil || mutants.HandDoubted, !r.sub.hearsFrom(conn.ident.RunID)
	about := r.fill(conn, b)
	err := r.do(conn, b.at, &about)
	doubt, notServing := r.doubts(conn, &about)
	if doubt == nil {
		doubt = err // what came before the connection broke has nothing behind it that vouches for it
	}

	r.mu.Lock()
	r.busy = false
	for i, entry := range b.releases {
		b.releases[i] = nil
		var reply protocol.Reply
		r.pipe.Reply(i, &entry.Req, &reply)
		if mutants.KeepDebts {
			reply.Outcome = protocol.Unknown
		}
		r.unacked.Answered(entry, &reply, b.at)
	}
	replaced, denied := false, false
	for i, op := range b.ops {
		r.pipe.Reply(len(b.releases)+i, op.Request, &op.Reply)
		if op.Kind == protocol.ReadRecord && op.Reply.Outcome == protocol.Granted {
			if why := conn.completeRead(&op.Reply, about); why != nil {
				notServing = why
			}
		}
		if doubt != nil && (op.Kind == protocol.Acquire || op.Kind == protocol.Adopt) && op.Reply.Outcome == protocol.Granted {
			op.Reply = protocol.Reply{Err: doubt} // Unknown: the vote may be there, so the coordinator releases it
		}
		if why := op.Reply.Err; why != nil {
			if not := wire.NotServing(why); not != nil {
				notServing = not
			}
			denied = denied || deniedRight(op)
			replaced = replaced || conn.incarnationChanged(why)
		}
		r.keepUnacknowledgedLocked(op, b.at, err != nil)
	}
	r.mu.Unlock()

	r.heardOfWrites(b.ops)
	notServing = r.heardOfRights(&about, denied, notServing)
	r.deliver(b.ops)
	switch {
	case err != nil:
		return err
	case notServing != nil:
		return notServing // the next connect searches for the master
	case replaced:
		return conn.verify()
	}
	return nil
}

// do sends the pipeline that was begun at the time at. Behind a slow one that asked for new votes it asks what that did not ask
// about the master. An extend of votes does not wait for that: it counts only what was there before.
func (r *redisNode) do(conn *conn, at time.Duration, about *aboutMaster) error {
	err := r.pipe.Do()
	about.sent, about.received = at, r.clock.Elapsed()
	took := about.received - at
	if err == nil && about.asked {
		r.answered = about.received
		r.trip.Store(int64(protocol.NextTrip(time.Duration(r.trip.Load()), took)))
	}
	if err != nil || !about.grants || about.time != nil && about.info != nil || took <= slowBatch {
		return err
	}
	pipe := conn.Pipeline()
	about.info, about.time = wire.NewInfo("stats").AddTo(background, pipe), pipe.Time(background)
	about.sent = r.clock.Elapsed()
	r.mu.Lock()
	r.busySince = about.sent // the master has answered
	r.mu.Unlock()
	_, err = pipe.Exec(background)
	about.received = r.clock.Elapsed()
	r.answered, r.evictedReadAt, r.clockReadAt = about.received, about.sent, about.sent
	if wire.IsReply(err) {
		return nil
	}
	return err
}

// takeEpoch makes epoch the one with which scripts compare the record.
func (r *redisNode) takeEpoch(conn *conn, epoch string) {
	if conn.epoch == epoch {
		return
	}
	conn.epoch = epoch
	conn.wire.Voting, conn.wire.Quarantined = r.recordStates(conn.ident.Incarnation(), epoch)
	r.mu.Lock()
	r.votingState = conn.wire.Voting
	r.mu.Unlock()
}

// doubts reads what the master said about itself behind the ops of a batch. It returns why the
// votes of the batch do not count, and why the lane needs a new connection. What was asked and not
// answered is a doubt too: of a batch that is sent again in part, the votes of the other part stand when the connection breaks.
func (r *redisNode) doubts(conn *conn, about *aboutMaster) (doubt, notServing error) {
	doubt = about.untimed()
	notServing = doubt
	if r.observeClock(about.sent, about.received, about.time) && !mutants.NoClockWatch {
		doubt = ErrClock
	}
	if about.info != nil {
		if err := conn.checkEvicted(about.info); err != nil {
			return err, err
		}
	}
	return doubt, notServing
}

// fill puts b into the lane's pipeline, and behind it what the lane wants to know about
// the master.
func (r *redisNode) fill(conn *conn, b batch) (about aboutMaster) {
	pipe := &r.pipe
	pipe.Reset(&conn.wire)
	// A release is sent even after its deadline: its acquire may have lain unread in a
	// frozen master that executed it only now.
	for _, entry := range b.releases {
		if entry.Denied {
			pipe.AddAlone(&entry.Req)
		} else {
			pipe.Add(&entry.Req)
		}
	}
	about.asked = len(b.releases) > 0 || b.rights
	votes, reads := false, false
	for i, op := range b.ops {
		req := op.Request
		why := r.withholds(&b, op)
		switch {
		case why != nil:
			pipe.Skip(why)
			continue
		case op.Leaves && op.More && !b.asksBehind(i):
			wakes := *req // a copy: the submitter may have sent the request to other masters too
			wakes.Leaves, req = false, &wakes
		}
		pipe.Add(req)
		about.asked = true
		about.grants = about.grants || op.Kind == protocol.Acquire || op.Kind == protocol.Adopt
		votes = votes || about.grants || op.Kind == protocol.Extend
		reads = reads || op.Kind == protocol.ReadRecord
	}
	if len(b.ops) < maxPipeline { // nothing is queued behind them
		clear(r.unsent)
	}
	// TIME comes after all votes of the pipeline. If the clock jumped before the master gave
	// them, the lane notices before the coordinator counts them. A coordinator that reads
	// the record needs identity and clock of the same moment. The number of evicted keys comes
	// there for the same reason.
	far := time.Duration(r.trip.Load()) > slowBatch/2
	switch {
	case reads:
		about.info = pipe.Info(protocol.InfoSections...)
	case b.rights || votes && (far || b.at-r.evictedReadAt >= evictedEvery):
		about.info = pipe.Info("stats")
	}
	if about.info != nil {
		r.evictedReadAt = b.at
	}
	if reads || b.rights || votes && (far || b.at-r.clockReadAt >= clockEvery) {
		r.clockReadAt = b.at
		about.time = pipe.Time()
	}
	if b.rights {
		about.rights = pipe.Check()
	}
	return about
}

// completeRead adds to the reply of a ReadRecord when the record was read, and on which
// master. If the master is no longer the one of the greeting, or does not tell its time, the
// reply becomes Unknown, because only the next connection knows whose record it is, or which
// right is missing. completeRead returns why.
func (c *conn) completeRead(reply *protocol.Reply, about aboutMaster) error {
	why := c.checkSame(about.info, reply.Record[membership.FieldState])
	if why == nil {
		why = about.untimed()
	}
	if why != nil {
		*reply = protocol.Reply{Err: why}
		return why
	}
	reply.Seen = protocol.Seen{Sent: about.sent, Received: about.received, Incarnation: c.ident.Incarnation(), Time: time.Duration(about.time.Val().UnixNano())}
	return nil
}

// keepUnacknowledgedLocked records what the reply to op means for the unacknowledged
// releases. broke says whether the connection broke.
func (r *redisNode) keepUnacknowledgedLocked(op *protocol.Op, now time.Duration, broke bool) {
	if broke && op.Reply.Outcome == protocol.Unknown && !mutants.NoUnread {
		r.unacked.Broke(op.Request)
	}
	if wire.Undoes(op.Request) && op.Reply.Outcome == protocol.NotSent {
		op.Reply = protocol.Reply{Outcome: protocol.Absent} // see withholds
	}
	if wire.Undoes(op.Request) && (op.Reply.Outcome == protocol.Unknown || op.Reply.Outcome == protocol.Refused) {
		r.unacked.Add(op.Request).Denied = errors.Is(op.Reply.Err, ErrDenied)
		r.unacked.PauseFrom(now)
	}
}

// heardOfWrites looks whether the master has refused a write of these ops, or done one.
func (r *redisNode) heardOfWrites(ops []*protocol.Op) {
	wrote := false
	for _, op := range ops {
		if op.Reply.Err != nil {
			if no := wire.NoWrites(op.Reply.Err); no != nil {
				r.noteWrites(no)
				return
			}
		}
		// The other kinds write nothing, or need no memory for it.
		switch op.Kind {
		case protocol.Acquire, protocol.TopUp, protocol.CompareAndSetRecord, protocol.Heartbeat, protocol.Introduce:
			wrote = wrote || op.Reply.Outcome == protocol.Granted
		}
	}
	if wrote {
		r.noteWrites(nil)
	}
}

// deliver hands each op with its reply to its Receiver. It forgets the ops, which the
// Receivers may use again.
func (r *redisNode) deliver(ops []*protocol.Op) {
	for i, op := range ops {
		ops[i] = nil
		if op.Reply.Err != nil {
			if op.Reply.Outcome != protocol.NotSent { // else it is told already
				r.reportTrouble(op.Reply.Err)
			}
			op.Reply.Err = &Error{Node: r.name, Err: op.Reply.Err}
		}
		op.To.Receive(op)
	}
}

// observeClock compares the master's clock with the client's, and reports whether it
// jumped. After a jump the node asks for no vote until the coordinator has found out which
// clock jumped, and has called Enter.
func (r *redisNode) observeClock(sent, received time.Duration, t *redis.TimeCmd) (jumped bool) {
	if t == nil || t.Err() != nil {
		return false
	}
	master := time.Duration(t.Val().UnixNano())
	off := r.clockMonitor.Observe(sent, received, master, r.binding.Drift)
	offset, _ := r.clockMonitor.Offset()
	r.clockOffset.Store(int64(offset))
	r.clockRead.Store(true)
	if off == 0 {
		return false
	}
	if !mutants.NoClockWatch {
		r.mu.Lock()
		r.doubtLocked(ErrClock)
		r.mu.Unlock()
	}
	r.reportTrouble(ErrClock)
	return true
}

// reportTrouble calls Binding.Trouble if err is one of the errors that it documents.
func (r *redisNode) reportTrouble(err error) {
	var state *protocol.RecordStateError
	if r.binding.Trouble != nil && (errors.Is(err, ErrClock) || errors.As(err, &state) || wire.IsWrongType(err)) {
		r.binding.Trouble(err)
	}
}
