// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/locate"
	"github.com/redlock-go/redlock/node/internal/unacked"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// background is the context of every command. go-redis takes only a deadline from a
// context, and no cancellation; the deadlines are those of the connection.
var background = context.Background()

// redisNode is a [Node] over go-redis. Its methods are called by the coordinator; the lane,
// one goroutine, does all I/O (see lane.go).
type redisNode struct {
	name    string
	opts    redis.Options // of every connection; copied before use
	locator locate.Locator
	tls     tlsFiles   // of the URL; used if opts has a TLSConfig and no dialer
	guards  *sentinels // of the URL; nil: it names none
	asks    *slowDial  // the dialer of a client that asks sentinels; nil: it is none
	keys    *wire.Keys // of the empty namespace until Bind
	cfg     Config
	clock   clock.Clock
	binding protocol.Binding
	sub     subscription

	start sync.Once // the first Ready or Submit starts the lane
	wake  chan struct{}
	quit  chan struct{} // closed by Close, to end pauses
	// life ends when Close has waited long enough. It ends the lane's connection.
	life          context.Context
	endLife       context.CancelFunc
	done          chan struct{} // closed when the lane has ended
	firstDial     chan struct{} // closed after the first dial
	firstDialOnce sync.Once     // closes firstDial

	clockOffset atomic.Int64 // of the master's clock against the client's, by the last reading
	clockRead   atomic.Bool  // there was a reading
	reachable   atomic.Bool  // the breaker is closed, and a connection was made
	trip        atomic.Int64 // how long a round trip takes; 0 before the first

	mu          sync.Mutex // guards the fields below
	queue       []*protocol.Op
	moreComes   bool         // the last of queue has More, and the next op was not submitted yet
	unacked     unacked.List // Invariant: each entry is older than all of queue
	busy        bool         // a pipeline is on its way
	busySince   time.Duration
	socket      net.Conn // of the lane's connection
	down        bool     // the breaker is open
	downErr     error
	closed      bool
	bound       bool          // Bind was called, or the lane runs without
	epoch       string        // the epoch with which scripts compare the record; see Enter
	votingState string        // see VotingState
	voteRefusal error         // why the node asks for no vote of a master whose record state is checked; nil: it does
	lacks       error         // the right that the user lacks for every lock, if any; the lane alone writes it
	doubtedAt   time.Duration // when the lane itself last set voteRefusal

	// The lane alone uses the fields below.
	broken        brokenConn
	answered      time.Duration        // when the master last answered on the connection
	clockMonitor  clock.Watch          // of the master's clock, over all connections to one process
	clockReadAt   time.Duration        // when the lane last asked for TIME
	clockRunID    string               // run_id of the process whose clock that is
	evictedReadAt time.Duration        // when the lane last asked for the number of evicted keys
	noWrites      error                // the master refuses to write; nil: it does not
	rightsDoubted bool                 // an op was denied a right since the last look at them, or the look found that one is missing
	rightsAt      time.Duration        // the lane does not look before
	unsent        map[unacked.Key]bool // holders whose first op was dropped, while more is queued; nothing was sent of them
	spareOps      []*protocol.Op
	spareEntries  []*unacked.Entry
	pipe          wire.Pipeline
	asked         time.Time // when the lane last asked the server why it hung up
}

var _ Node = (*redisNode)(nil)

// Name is the master's address, "sentinel:NAME" or "cluster:TAG", with /N for a database
// N other than 0, unless the URL has a name.
func (r *redisNode) Name() string { return r.name }

// Tag implements [Node].
func (r *redisNode) Tag() string { return r.cfg.Tag }

// BehindFailover implements [Node].
func (r *redisNode) BehindFailover() bool { return r.locator.BehindFailover() }

// VotingState implements [Node].
func (r *redisNode) VotingState() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votingState
}

// ClockOffset implements [Node].
func (r *redisNode) ClockOffset() (offset time.Duration, ok bool) {
	return time.Duration(r.clockOffset.Load()), r.clockRead.Load()
}

// Bind implements [Node].
func (r *redisNode) Bind(b protocol.Binding) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return &Error{Node: r.name, Err: ErrClosed}
	case r.bound:
		return &Error{Node: r.name, Err: protocol.ErrBound}
	}
	r.bound = true
	if r.opts.ClientName != "" {
		b.Owner = "" // the connections have a name
	}
	r.binding, r.keys = b, wire.KeysOf(b.Namespace, r.cfg.Tag)
	return nil
}

// Ready implements [Node].
func (r *redisNode) Ready(ctx context.Context) error {
	r.begin()
	select {
	case <-r.firstDial:
	default:
		select {
		case <-r.firstDial:
		case <-ctx.Done():
		}
	}
	select {
	case <-r.firstDial:
	default:
		return &Error{Node: r.name, Err: fmt.Errorf("%w: no answer yet: %w", ErrDown, ctx.Err())}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return &Error{Node: r.name, Err: ErrClosed}
	}
	if r.down {
		return &Error{Node: r.name, Err: r.downErr}
	}
	if r.lacks != nil {
		return &Error{Node: r.name, Err: r.lacks}
	}
	return nil
}

// begin starts the lane.
func (r *redisNode) begin() {
	r.start.Do(func() {
		r.mu.Lock()
		r.bound = true // too late for a coordinator: the lane reads the binding
		r.mu.Unlock()
		go r.run()
	})
}

// Submit implements [Node].
func (r *redisNode) Submit(op *protocol.Op) bool {
	r.begin()
	r.mu.Lock()
	err, last := r.refusalLocked(op), true
	switch {
	case err == nil:
		at := r.placeLocked(op)
		last = at == len(r.queue)
		r.queue = slices.Insert(r.queue, at, op)
	case wire.Undoes(op.Request) && !r.closed:
		r.keepLocked(op.Request)
	}
	more := op.More // read it now: once op is queued, it belongs to the lane
	if last && (err == nil || !more) {
		r.moreComes = more // not after an op that was turned away: what is queued goes out without it
	}
	r.mu.Unlock()
	if !more {
		r.wakeLane()
	}
	if err != nil {
		op.Reply = r.notSent(op, err)
	}
	return err == nil
}

func (r *redisNode) wakeLane() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// keepLocked keeps a Release that Submit turned away. It goes behind what is
// queued, because it may undo an op of the queue. If the master is down, it goes into the
// list for the next connection.
func (r *redisNode) keepLocked(req *protocol.Request) {
	switch {
	case r.down:
		r.unacked.Add(req)
	case len(r.queue) < r.cfg.QueueLimit+unacked.Max:
		kept := *req
		kept.More, kept.Leaves = false, false // the op behind it may be turned away too
		r.queue = append(r.queue, &protocol.Op{Request: &kept, To: discard{}})
	default:
		r.unacked.CountDropped()
	}
}

// discard is the Receiver of ops for which no caller waits.
type discard struct{}

func (discard) Receive(*protocol.Op) {}

// refusalLocked returns why the node does not queue op, or nil.
func (r *redisNode) refusalLocked(op *protocol.Op) error {
	switch {
	case r.closed:
		return ErrClosed
	case r.down:
		return r.downErr
	case r.busy && op.Start-r.busySince > r.stallAfter() && !r.answerLiesLocked():
		return ErrStalled
	case asksForVote(op) && r.asksNoVoteLocked() != nil:
		return r.asksNoVoteLocked()
	case len(r.queue) >= r.cfg.QueueLimit && !(keeps(op) && len(r.queue) < 2*r.cfg.QueueLimit):
		return fmt.Errorf("%w: %d operations wait for this master, and QueueLimit is %d (lock with fewer callers at once, or make the nodes with a larger QueueLimit in node.Config)",
			ErrBusy, len(r.queue), r.cfg.QueueLimit)
	}
	return nil
}

// answerLiesLocked says whether the answer that the lane waits for, or the end of the connection, is there and was not read. The process was held up
// then, and not the master.
func (r *redisNode) answerLiesLocked() bool { return r.socket != nil && hungUp(r.socket) }

// asksForVote says whether only a master that votes may be asked op.
func asksForVote(op *protocol.Op) bool {
	return op.Kind == protocol.Acquire || op.Kind == protocol.Adopt || op.Kind == protocol.Confirm
}

// asksNoVoteLocked says why the node asks for no vote; nil: it does.
func (r *redisNode) asksNoVoteLocked() error {
	if r.lacks == nil && r.binding.CheckRecordState {
		return r.voteRefusal
	}
	return r.lacks
}

// Enter implements [Node].
func (r *redisNode) Enter(epoch string, refusal error, asOf time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch = epoch
	if refusal != nil || asOf >= r.doubtedAt {
		r.voteRefusal = refusal
	}
}

// doubtLocked makes the node ask for no vote until the coordinator has looked at the
// master again.
func (r *redisNode) doubtLocked(why error) { r.voteRefusal, r.doubtedAt = why, r.clock.Elapsed() }

// Unacknowledged implements [Node].
func (r *redisNode) Unacknowledged() (kept int, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unacked.Len(), r.unacked.Dropped()
}

// Close implements [Node].
func (r *redisNode) Close() error {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	r.start.Do(func() { close(r.done); r.endFirstDial() })
	if !again {
		close(r.quit)
		r.wakeLane()
	}
	r.sub.close()
	defer r.endLife()
	patience := time.NewTimer(r.stallAfter())
	defer patience.Stop()
	select {
	case <-r.done:
		return nil
	case <-patience.C:
	}
	// This closes the lane's socket, which breaks the dial or the read in which the lane sits. The lane closes its go-redis client
	// itself: go-redis prints a line if a client is closed while a connection is returned to it.
	r.endLife()
	<-r.done
	return nil
}

func (r *redisNode) endFirstDial() { r.firstDialOnce.Do(func() { close(r.firstDial) }) }
