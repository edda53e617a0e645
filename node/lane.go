// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/unacked"
)

// maxPipeline bounds one pipeline, so that the last op of a burst is not sent
// long after its time was checked.
const maxPipeline = 512

// probeMin and probeMax bound the pause between two probes of a master that is
// down; it doubles in between.
const probeMin, probeMax = 10 * time.Millisecond, 250 * time.Millisecond

// watchEvery is how often TIME is asked while there is work. A jump within the
// last few milliseconds may go unseen by a vote then, as it may in any case when
// it happens behind the TIME; the next pipeline sees it.
const watchEvery = 5 * time.Millisecond

// idleAfter is how long a connection may be idle before the lane looks, ahead of the
// next op, whether the master has closed it. It is shorter than any restart takes (a
// redis-server without data is back in 5 ms), so a client that was idle while its master
// restarted finds a new connection and not an error.
const idleAfter = time.Millisecond

// trustFor is how long a master behind failover is taken for the master after it last
// answered: longer than a waiting client is silent. One that was frozen meanwhile may not
// know yet that it is none.
const trustFor = 1500 * time.Millisecond

// errStale: the connection was idle, and is closed or trusted no longer; nothing is on it.
var errStale = errors.New("node: connection idle for too long")

// run is the lane: one goroutine, one connection at a time, one pipeline on the
// way at a time. That is what makes "sent later is executed later" true.
func (r *redisNode) run() {
	defer close(r.done)
	probe := probeMin
	for {
		conn, err := r.connect()
		r.connected(err)
		if err == nil {
			probe = probeMin
			err = r.serve(conn)
			if r.lost.id == 0 || r.lost.runID != conn.ident.RunID { // else fence failed, and nothing was sent
				r.lost = lostConn{conn.id, conn.ident.RunID}
			}
			conn.close()
			if errors.Is(err, errStale) {
				continue // what is queued was not sent: it goes out on the next connection
			}
		}
		if !r.failed(err) {
			return
		}
		select {
		case <-r.quit:
		case <-time.After(probe/2 + r.cfg.jitter(probe/2)):
		}
		probe = min(2*probe, probeMax)
	}
}

// serve sends what is queued until the connection breaks or the node is closed
// and its queue empty (nil).
func (r *redisNode) serve(conn *conn) error {
	if err := r.fence(conn); err != nil {
		return err
	}
	for {
		batch, ok := r.take()
		if !ok {
			return nil
		}
		if batch.idle > idleAfter && (hungUp(conn.wire) || batch.idle > r.trust) {
			r.putBack(batch)
			return errStale
		}
		if err := r.exec(conn, batch); err != nil {
			return err
		}
		if len(batch.ops) > 1 {
			// Those who were answered may have more for this master soon. It goes along with
			// what is queued when they run first; else it would be one system call more.
			runtime.Gosched()
		}
	}
}

// fence makes sure that nothing sent on the connection before this one can be
// executed any more: the master may have its bytes still unread, or a network
// may deliver them late. Unacknowledged releases go out after it, so a release cannot
// be overtaken by its own acquire here either (docs/safety.md A13). Best effort:
// without the right to CLIENT KILL, the acquire's vote may live for its TTL. Not
// after a restart: that ended the connection, and its id may be another's now.
func (r *redisNode) fence(conn *conn) error {
	if r.lost.id != 0 && r.lost.runID == conn.ident.RunID && !mutants.NoFence {
		err := conn.ClientKillByFilter(background, "ID", strconv.FormatInt(r.lost.id, 10)).Err()
		if err != nil && !isReply(err) {
			return err
		}
		r.lost = lostConn{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unacked.Connected(r.clock.Elapsed())
	return nil
}

// lostConn names a connection that broke, in the words of the master.
type lostConn struct {
	id    int64 // 0: none, or unknown
	runID string
}

// take waits for work: queued ops, and ahead of them a piece of what the master has
// not acknowledged, which is older than all that is queued.
func (r *redisNode) take() (batch, bool) {
	for began := time.Duration(-1); ; {
		now := r.clock.Elapsed()
		if began < 0 {
			began = now
		}
		r.mu.Lock()
		n := min(len(r.queue), maxPipeline)
		b := batch{at: now, idle: now - began, epoch: r.epoch, ops: r.spare[:0], undo: r.spareUndo[:0]}
		b.ops = append(b.ops, r.queue[:n]...)
		rest := copy(r.queue, r.queue[n:])
		clear(r.queue[rest:])
		r.queue = r.queue[:rest]
		b.undo = r.unacked.Take(now, b.ops, b.undo)
		closed, owing := r.closed, r.unacked.Len() > 0
		r.busy, r.busySince = len(b.ops)+len(b.undo) > 0, now
		busy := r.busy
		r.mu.Unlock()
		r.spare, r.spareUndo = b.ops, b.undo

		if busy {
			return b, true
		}
		if closed {
			return batch{}, false
		}
		var retry <-chan time.Time
		if owing {
			retry = time.After(unacked.Pause)
		}
		select {
		case <-r.wake:
		case <-retry:
		}
	}
}

// putBack undoes take.
func (r *redisNode) putBack(b batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(b.ops, r.queue...) // b.ops is not used again: see take
	r.spare = nil
	r.unacked.PutBack(b.undo)
	r.busy = false
}

// batch is one pipeline: releases that were not acknowledged before, and then ops
// that somebody waits for.
type batch struct {
	at    time.Duration // when it was taken
	idle  time.Duration // how long there was none
	epoch string
	undo  []*unacked.Entry
	ops   []*protocol.Op
}

// exec sends b as one pipeline and answers its ops. The error is the
// connection's; refusals by the master are replies.
func (r *redisNode) exec(conn *conn, b batch) error {
	now := b.at
	pipe := &r.pipe
	pipe.reset()
	if conn.epoch != b.epoch {
		conn.epoch = b.epoch
		conn.gate, conn.gateMending = r.gates(conn.ident.Incarnation(), b.epoch)
	}
	// An entry is sent even when its time is over: its acquire may have sat unread in a
	// frozen master and been executed only now.
	for _, entry := range b.undo {
		pipe.add(conn, &entry.Req)
	}
	watched, look := false, false
	for _, op := range b.ops {
		if now >= op.Deadline && !undoes(op.Request) {
			pipe.skip() // dropped unsent
			continue
		}
		pipe.add(conn, op.Request)
		watched = watched || op.Kind == protocol.Acquire || op.Kind == protocol.Extend
		look = look || op.Kind == protocol.ReadRecord
	}
	// The master's TIME, after all votes in the pipeline: a clock that jumped before
	// they were given is seen before they are counted. Whoever reads the record wants to
	// know what the master is worth now.
	var masterTime *redis.TimeCmd
	var server, replication *redis.StringCmd
	if look {
		server, replication = pipe.info(conn)
	}
	if look || watched && now-r.watched >= watchEvery {
		r.watched = now
		masterTime = pipe.time(conn)
	}
	err := pipe.do(conn)
	received := r.clock.Elapsed()
	jumped := r.watch(now, received, masterTime)

	r.mu.Lock()
	r.busy = false
	for i, entry := range b.undo {
		b.undo[i] = nil
		var reply protocol.Reply
		pipe.reply(i, &entry.Req, &reply)
		r.unacked.Answered(entry, &reply, now)
	}
	moved, away := false, error(nil)
	replaced := func(record map[string]string) error {
		if server.Err() != nil || replication.Err() != nil {
			return nil
		}
		return conn.same(protocol.ReadIdentity(server.Val()+replication.Val(), record[membership.FieldGate]))
	}
	for i, op := range b.ops {
		pipe.reply(len(b.undo)+i, op.Request, &op.Reply)
		switch {
		case jumped && op.Kind == protocol.Acquire && op.Reply.Outcome == protocol.Granted && !mutants.NoClockWatch:
			op.Reply = protocol.Reply{Err: ErrClock} // the vote may be there: it is to be released
		case op.Kind == protocol.ReadRecord && op.Reply.Outcome == protocol.Granted && replaced(op.Reply.Record) != nil:
			away = replaced(op.Reply.Record)
			op.Reply = protocol.Reply{Err: away} // the next connection knows whose record it is
		case op.Kind == protocol.ReadRecord && op.Reply.Outcome == protocol.Granted:
			op.Reply.Seen = protocol.Seen{Sent: now, Received: received, Incarnation: conn.ident.Incarnation()}
			if masterTime != nil && masterTime.Err() == nil {
				op.Reply.Seen.Time = time.Duration(masterTime.Val().UnixNano())
			}
		}
		if why := op.Reply.Err; why != nil {
			if not := elsewhere(why); not != nil {
				away = not
			}
			moved = moved || conn.moved(why)
		}
		r.unacked.PlaceTaken(op)
		if err != nil && op.Reply.Outcome == protocol.Unknown {
			r.unacked.Broke(op.Request)
		}
		if undoes(op.Request) && (op.Reply.Outcome == protocol.Unknown || op.Reply.Outcome == protocol.Refused) {
			r.unacked.Add(op.Request)
			r.unacked.PauseFrom(now)
		}
	}
	r.mu.Unlock()

	for i, op := range b.ops {
		b.ops[i] = nil
		if op.Reply.Err != nil {
			r.report(op.Reply.Err)
			op.Reply.Err = &Error{Node: r.name, Err: op.Reply.Err}
		}
		op.To.Receive(op)
	}
	switch {
	case err != nil:
		return err
	case away != nil:
		return away // it became a replica, say: look for the master again
	case moved:
		return conn.verify()
	}
	return nil
}

// watch holds the master's clock against ours, and reports whether it jumped. Then no
// vote is asked for until the coordinator has looked whose clock it was: see Enter.
func (r *redisNode) watch(sent, received time.Duration, t *redis.TimeCmd) (jumped bool) {
	if t == nil || t.Err() != nil {
		return false
	}
	master := time.Duration(t.Val().UnixNano())
	if r.clockWatch.Observe(sent, received, master, r.bound.Drift) == 0 {
		return false
	}
	if !mutants.NoClockWatch {
		r.mu.Lock()
		r.doubtLocked(ErrClock)
		r.mu.Unlock()
	}
	r.report(ErrClock)
	return true
}

func (r *redisNode) report(err error) {
	var gate *protocol.RecordStateError
	if r.bound.Trouble != nil && (errors.Is(err, ErrClock) || errors.As(err, &gate) || wrongType(err)) {
		r.bound.Trouble(err)
	}
}

// connected notes the outcome of a dial for Submit and Ready.
func (r *redisNode) connected(err error) {
	r.mu.Lock()
	if r.down = err != nil; r.down {
		r.downErr = down(err)
	}
	r.mu.Unlock()
	r.dialled.Do(func() { close(r.first) })
	if err == nil && r.bound.Up != nil {
		r.bound.Up()
	}
}

// failed opens the breaker after err: everything queued is answered, and releases
// wait for the next connection. It reports whether the lane should go on.
func (r *redisNode) failed(err error) bool {
	r.mu.Lock()
	if err == nil {
		err = ErrClosed
	}
	r.down, r.downErr, r.busy = true, down(err), false
	ops := r.queue
	r.queue = nil
	unsent := make(map[unacked.Key]bool) // votes that were never asked for: there is nothing to release
	for _, op := range ops {
		vote := unacked.VoteKey(op.Request)
		switch {
		case op.Kind == protocol.Acquire:
			unsent[vote] = true
		case undoes(op.Request) && !(op.Kind == protocol.Release && unsent[vote]):
			r.unacked.Add(op.Request)
		}
	}
	r.unacked.Expire(r.clock.Elapsed())
	goOn := !r.closed
	r.mu.Unlock()
	for _, op := range ops {
		op.Reply = r.notSent(op, err)
		op.To.Receive(op)
	}
	return goOn
}

// down says why a master cannot be used, in the words of err.
func down(err error) error { return fmt.Errorf("%w: %w", ErrDown, err) }

// notSent is the reply to an op that the lane did not send: it has no effect, but
// that a Release or Leave is sent later.
func (r *redisNode) notSent(op *protocol.Op, err error) protocol.Reply {
	reply := protocol.Reply{Outcome: protocol.NotSent, Err: &Error{Node: r.name, Err: err}}
	if undoes(op.Request) {
		reply.Outcome = protocol.Unknown
	}
	return reply
}

// isReply tells an error that the master answered from one that the connection
// made.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func wrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }
