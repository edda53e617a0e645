// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/unacked"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// maxPipeline bounds one pipeline, so that the last op of a burst is sent soon after the
// lane has checked its deadline.
const maxPipeline = 512

// probeMin and probeMax bound the pause between two attempts to connect to a master that
// is down. The pause doubles in between.
const probeMin, probeMax = 10 * time.Millisecond, 250 * time.Millisecond

// idleAfter is how long a connection may be idle before the lane checks, ahead of the next
// op, whether the master has closed it. A redis-server without data restarts in 5 ms, so
// idleAfter is shorter than any restart. A client that was idle while its master restarted
// gets a new connection instead of an error.
const idleAfter = time.Millisecond

// errStale: the connection was idle and the master closed it, or it was idle for longer
// than Locator.MaxIdle. No op is on it.
var errStale = errors.New("node: connection idle for too long")

// run is the lane: one goroutine, with at most one connection, and one pipeline on its way.
// That is why the master executes ops in the order in which they are sent.
func (r *redisNode) run() {
	defer close(r.done)
	probe := probeMin
	for {
		conn, err := r.connect()
		r.answered = r.clock.Elapsed() // who hears of the connection by dialEnded may have the master restart before serve has begun
		r.dialEnded(err)
		if err == nil {
			probe = probeMin
			r.sub.follow(conn.ident.RunID)
			err = r.serve(conn)
			r.sub.follow("")
			// If broken still names a connection to this process, killPrevious failed and
			// nothing was sent on conn: then the older connection must be killed.
			if r.broken.id == 0 || r.broken.runID != conn.ident.RunID {
				r.broken = brokenConn{conn.id, conn.ident.RunID}
			}
			conn.close()
			if errors.Is(err, errStale) {
				continue // the queue was not sent: the lane sends it on the next connection
			}
		}
		if !r.connectionFailed(err) {
			return
		}
		select {
		case <-r.quit:
		case <-time.After(probe/2 + r.cfg.jitter(probe/2)):
		}
		probe = min(2*probe, probeMax)
	}
}

// serve sends what is queued until the connection breaks, or until the node is closed and
// its queue is empty. In the second case it returns nil.
func (r *redisNode) serve(conn *conn) error {
	if err := r.killPrevious(conn); err != nil {
		return err
	}
	for {
		batch, ok := r.nextBatch()
		if !ok {
			return nil
		}
		if batch.idle > idleAfter && (hungUp(conn.socket) || batch.idle > r.locator.MaxIdle()) {
			r.putBack(batch)
			return errStale
		}
		patience := r.stallAfter() // before the answer to this batch changes it
		if err := r.exec(conn, batch); err != nil {
			return err
		}
		if r.binding.Back != nil && r.answered-batch.at > patience {
			r.binding.Back()
		}
		if len(batch.ops) > 1 {
			// The callers that just got answers may submit more ops at once. Letting them
			// run first puts these ops into the next pipeline, which saves a system call.
			runtime.Gosched()
		}
	}
}

// brokenConn names a connection that broke, by the ids that the master gave.
type brokenConn struct {
	id    int64 // 0: there is none, or its id is unknown
	runID string
}

// killPrevious kills the connection before conn on the master, so that the master can no
// longer execute anything that was sent on it: bytes that it has not read, or that the
// network still delivers. The lane sends unacknowledged releases after that, so that no
// release overtakes its own acquire (docs/safety.md A13).
//
// It is best effort: without the right to CLIENT KILL, the acquire's vote may live for its
// TTL. After a restart there is nothing to kill, and the id may be that of another
// client's connection.
func (r *redisNode) killPrevious(conn *conn) error {
	if r.broken.id != 0 && r.broken.runID == conn.ident.RunID && !mutants.NoFence {
		err := conn.ClientKillByFilter(background, "ID", strconv.FormatInt(r.broken.id, 10)).Err()
		if err != nil && !wire.IsReply(err) {
			return err
		}
		r.broken, r.answered = brokenConn{}, r.clock.Elapsed()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unacked.Connected(r.clock.Elapsed())
	r.socket = conn.socket
	return nil
}

// nextBatch waits for work and returns it: queued ops, and ahead of them some of the
// unacknowledged releases, which are older than all queued ops. It returns false when the
// node is closed and there is nothing to send.
//
// Invariant: an op with More and the next one of its submitter are in one batch, unless that is full, or the next one was turned away.
func (r *redisNode) nextBatch() (batch, bool) {
	for {
		now := r.clock.Elapsed()
		r.mu.Lock()
		n := min(len(r.queue), maxPipeline)
		for r.moreComes && n > 0 && n < maxPipeline && r.queue[n-1].More {
			n-- // the Submit of the next op wakes the lane
		}
		b := batch{at: now, idle: now - r.answered, epoch: r.epoch, ops: r.spareOps[:0], releases: r.spareEntries[:0]}
		b.refusal, b.rights = r.asksNoVoteLocked(), r.rightsDoubted && now >= r.rightsAt
		b.ops = append(b.ops, r.queue[:n]...)
		rest := copy(r.queue, r.queue[n:])
		clear(r.queue[rest:])
		r.queue = r.queue[:rest]
		b.releases = r.unacked.Take(now, b.releases)
		closed, unacknowledged := r.closed, r.unacked.Len() > 0
		r.busy, r.busySince = len(b.ops)+len(b.releases) > 0 || b.rights, now
		busy := r.busy
		r.mu.Unlock()
		r.spareOps, r.spareEntries = b.ops, b.releases

		if busy {
			return b, true
		}
		if closed {
			return batch{}, false
		}
		var retry <-chan time.Time
		switch {
		case unacknowledged:
			retry = time.After(unacked.Pause)
		case r.rightsDoubted:
			retry = time.After(r.rightsAt - now)
		}
		select {
		case <-r.wake:
		case <-retry:
		}
	}
}

// putBack undoes nextBatch.
func (r *redisNode) putBack(b batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(b.ops, r.queue...) // takes over the array of b.ops, so
	r.spareOps = nil                    // nextBatch must not use it again
	r.unacked.PutBack(b.releases)
	r.busy = false
}

// dialEnded records the result of connect for Submit and Ready.
func (r *redisNode) dialEnded(err error) {
	r.reachable.Store(err == nil)
	r.mu.Lock()
	if r.down = err != nil; r.down {
		r.downErr = downError(err)
	}
	r.mu.Unlock()
	if err == nil && r.binding.Up != nil {
		r.binding.Up() // before Ready returns, so that what is seen of the master next is of this connection
	}
	r.endFirstDial()
}

// connectionFailed opens the breaker after err. It answers all queued ops, and keeps
// releases for the next connection. It reports whether the lane goes on.
func (r *redisNode) connectionFailed(err error) bool {
	r.reachable.Store(false)
	r.mu.Lock()
	if err == nil {
		err = ErrClosed
	}
	r.down, r.downErr, r.busy = true, downError(err), false
	ops := r.queue
	r.queue = nil
	unsent := make(map[unacked.Key]bool) // votes whose acquire was never sent: there is nothing to release
	for _, op := range ops {
		switch {
		case begins(op):
			unsent[unacked.KeyOf(op.Request)] = true
		case wire.Undoes(op.Request) && !unsent[unacked.KeyOf(op.Request)]:
			r.unacked.Add(op.Request)
		}
	}
	r.unacked.Expire(r.clock.Elapsed())
	goOn, why := !r.closed, r.downErr
	r.mu.Unlock()
	if goOn && r.binding.Down != nil {
		r.binding.Down(why)
	}
	for _, op := range ops {
		op.Reply = r.notSent(op, err)
		op.To.Receive(op)
	}
	return goOn
}

// downError says that the master cannot be used, because of err. It is an ErrDown. Of a master that answered its text does not say that it cannot be
// reached: who reads that restarts the master, and that empties it.
func downError(err error) error {
	err = protocol.NotOfContext(err)
	for _, answer := range []error{ErrDenied, ErrReplica, ErrEviction, ErrHidden, protocol.ErrTurnedAway, protocol.ErrSame} {
		if errors.Is(err, answer) {
			return unusable{err}
		}
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// unusable is an error of a master that answered.
type unusable struct{ error }

func (e unusable) Unwrap() []error { return []error{ErrDown, e.error} }

// notSent returns the reply to an op that the lane did not send. Such an op has no effect.
// A Release is Unknown instead, because the node sends it later.
func (r *redisNode) notSent(op *protocol.Op, err error) protocol.Reply {
	reply := protocol.Reply{Outcome: protocol.NotSent, Err: &Error{Node: r.name, Err: err}}
	if wire.Undoes(op.Request) {
		reply.Outcome = protocol.Unknown
	}
	return reply
}
