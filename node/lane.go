// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/zoo"
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

// idleAfter is how long a connection may stand idle before it is looked at whether the
// master has closed it: after a restart the first op finds a new one instead of an
// error.
const idleAfter = 10 * time.Millisecond

// trustFor is how long a master behind failover is taken for the master after it last
// answered: longer than a waiting client is silent. One that was frozen meanwhile may not
// know yet that it is none.
const trustFor = 1500 * time.Millisecond

// errStale: the connection was idle, and is closed or trusted no longer; nothing is on it.
var errStale = errors.New("node: connection idle for too long")

// debtPause is how long a debt rests after the master refused to take it
// (LOADING, MISCONF, BUSY...).
const debtPause = 50 * time.Millisecond

// debt is a Release or Leave that the master has not acknowledged. It is a request of
// its own, for the submitter may use r again.
func debt(r *Request) Request {
	d := Request{Kind: r.Kind, Lock: r.Lock, Holder: r.Holder, Until: r.Until}
	if r.Kind == Leave {
		d.Wait = r.Wait // a Release's place in the queue is lost: it may not want it any more
	}
	return d
}

// run is the lane: one goroutine, one connection at a time, one pipeline on the
// way at a time. That is what makes "sent later is executed later" true.
func (r *Redis) run() {
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
func (r *Redis) serve(conn *conn) error {
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
// may deliver them late. Debts are settled after it, so a release cannot be
// overtaken by its own acquire here either (docs/safety.md A13). Best effort:
// without the right to CLIENT KILL, the acquire's vote may live for its TTL. Not
// after a restart: that ended the connection, and its id may be another's now.
func (r *Redis) fence(conn *conn) error {
	if r.lost.id == 0 || r.lost.runID != conn.ident.RunID || zoo.NoFence {
		return nil
	}
	err := conn.ClientKillByFilter(background, "ID", strconv.FormatInt(r.lost.id, 10)).Err()
	if err != nil && !isReply(err) {
		return err
	}
	r.lost = lostConn{}
	return nil
}

// lostConn names a connection that broke, in the words of the master.
type lostConn struct {
	id    int64 // 0: none, or unknown
	runID string
}

// take waits for work: queued ops first, then debts. The order matters: the
// acquire that a debt undoes may still be in the queue.
func (r *Redis) take() (batch, bool) {
	for began := time.Duration(-1); ; {
		now := r.clock.Elapsed()
		if began < 0 {
			began = now
		}
		r.mu.Lock()
		n := min(len(r.queue), maxPipeline)
		b := batch{at: now, idle: now - began, ops: r.spare[:0]}
		b.ops = append(b.ops, r.queue[:n]...)
		rest := copy(r.queue, r.queue[n:])
		clear(r.queue[rest:])
		r.queue = r.queue[:rest]
		if rest == 0 && now >= r.debtsRest {
			b.debts, r.debts = r.debts, nil
		}
		closed, owing := r.closed, len(r.debts) > 0
		r.busy, r.busySince = len(b.ops)+len(b.debts) > 0, now
		busy := r.busy
		r.mu.Unlock()
		r.spare = b.ops

		if busy {
			return b, true
		}
		if closed {
			return batch{}, false
		}
		var retry <-chan time.Time
		if owing {
			retry = time.After(debtPause)
		}
		select {
		case <-r.wake:
		case <-retry:
		}
	}
}

// putBack undoes take.
func (r *Redis) putBack(b batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(b.ops, r.queue...) // b.ops is not used again: see take
	r.spare = nil
	r.debts = append(b.debts, r.debts...)
	r.busy = false
}

// batch is one pipeline: ops that somebody waits for, and debts.
type batch struct {
	at    time.Duration // when it was taken
	idle  time.Duration // how long there was none
	ops   []*Op
	debts []Request
}

// exec sends b as one pipeline and answers its ops. The error is the
// connection's; refusals by the master are replies.
func (r *Redis) exec(conn *conn, b batch) error {
	now := b.at
	pipe := &r.pipe
	pipe.reset()
	watched, look := false, false
	for _, op := range b.ops {
		if now >= op.Until && !op.owed() {
			pipe.skip() // dropped unsent
			continue
		}
		pipe.add(conn, op.Request)
		watched = watched || op.Kind == Acquire || op.Kind == Extend
		look = look || op.Kind == ReadRecord
	}
	for i := range b.debts {
		// Even one whose TTL is over: its acquire may have sat unread in a frozen
		// master and been executed only now, with a whole TTL to live.
		pipe.add(conn, &b.debts[i])
	}
	// The master's TIME, after all votes in the pipeline: a clock that jumped before
	// they were given is seen before they are counted. Whoever reads the record wants to
	// know what the master is worth now.
	var masterTime *redis.TimeCmd
	if look || watched && now-conn.watched >= watchEvery {
		conn.watched = now
		masterTime = pipe.time(conn)
	}
	err := pipe.do(conn)
	r.watch(conn, now, masterTime)

	r.mu.Lock()
	r.busy = false
	rested, moved, away := false, false, error(nil)
	for i, op := range b.ops {
		pipe.reply(i, op.Request, &op.Reply)
		r.suspicion(op)
		if err := op.Reply.Err; err != nil {
			if not := elsewhere(err); not != nil {
				away = not
			}
			moved = moved || conn.moved(err)
		}
		if op.owed() && (op.Reply.Class == Unknown || op.Reply.Class == Refused) {
			r.debts = append(r.debts, debt(op.Request))
			rested = true
		}
	}
	for i, d := range b.debts {
		var reply Reply
		pipe.reply(len(b.ops)+i, &b.debts[i], &reply)
		if reply.Class == Unknown || reply.Class == Refused && now < d.Until {
			r.debts = append(r.debts, d)
			rested = true
		}
	}
	if rested {
		r.debtsRest = now + debtPause
	}
	r.mu.Unlock()

	for i, op := range b.ops {
		b.ops[i] = nil
		if op.Reply.Err != nil {
			r.report(op.Reply.Err)
			op.Reply.Err = &Error{r.name, op.Reply.Err}
		}
		op.To.Receive(op)
	}
	if r.bound.Epoch == "" {
		r.suspect = false // nobody will swap a record: the batch was dropped, no more
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

// watch holds the master's clock against ours.
func (r *Redis) watch(conn *conn, sent time.Duration, t *redis.TimeCmd) {
	if t == nil || t.Err() != nil {
		return
	}
	master := time.Duration(t.Val().UnixNano())
	if conn.watch.Observe(sent, r.clock.Elapsed(), master, r.bound.Drift) != 0 {
		r.suspect = true
		r.report(ErrClock)
	}
}

// suspicion drops the votes of a master whose clock jumped, until its record was
// swapped: the coordinator has made it recover then. The vote may be there, so
// it is Unknown and owed a release.
func (r *Redis) suspicion(op *Op) {
	switch {
	case !r.suspect || zoo.NoClockWatch:
	case op.Kind == Acquire && op.Reply.Class == Granted:
		op.Reply = Reply{Err: ErrClock}
	case op.Kind == SwapRecord && op.Reply.Class == Granted:
		r.suspect = false
	}
}

func (r *Redis) report(err error) {
	var gate *GateError
	if r.bound.Trouble != nil && (errors.Is(err, ErrClock) || errors.As(err, &gate) || wrongType(err)) {
		r.bound.Trouble(err)
	}
}

// connected notes the outcome of a dial for Submit and Ready.
func (r *Redis) connected(err error) {
	r.mu.Lock()
	if r.down = err != nil; r.down {
		r.downErr = down(err)
	}
	r.debtsRest = 0
	r.mu.Unlock()
	r.dialled.Do(func() { close(r.first) })
	if err == nil && r.bound.Up != nil {
		r.bound.Up()
	}
}

// failed opens the breaker after err: everything queued is answered, releases
// become debts. They wait for the next connection however long that takes; there
// are no more of them than votes that this master may have, for a master that is
// down is sent nothing. It reports whether the lane should go on.
func (r *Redis) failed(err error) bool {
	r.mu.Lock()
	if err == nil {
		err = ErrClosed
	}
	r.down, r.downErr, r.busy = true, down(err), false
	ops := r.queue
	r.queue = nil
	for _, op := range ops {
		if op.owed() {
			r.debts = append(r.debts, debt(op.Request))
		}
	}
	goOn := !r.closed
	r.mu.Unlock()
	for _, op := range ops {
		op.Reply = r.unsent(op, err)
		op.To.Receive(op)
	}
	return goOn
}

// down says why a master cannot be used, in the words of err.
func down(err error) error { return fmt.Errorf("%w: %w", ErrDown, err) }

func (r *Redis) unsent(op *Op, err error) Reply {
	return Reply{Unsent: !op.owed(), Err: &Error{r.name, err}}
}

// isReply tells an error that the master answered from one that the connection
// made.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func wrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }
