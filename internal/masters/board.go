// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// Board has the state of each master, and tells the Observers of each change. The nodes say
// whether there is a connection and whether the master writes, and the keeper whether the master may
// be asked for votes.
type Board struct {
	nodes  []node.Node
	need   int // a quorum
	clock  clock.Clock
	judges bool               // there is a keeper that says who votes
	tell   func(event.Master) // nil: nobody listens

	mu     sync.Mutex
	states []onBoard // by node
	over   bool      // the client was closed
	// untold are changes of which the Observers are to be told, in their order: one for each master at most.
	untold  []int          // the masters
	news    []event.Master // by node
	telling bool           // a goroutine tells them
}

type onBoard struct {
	state  event.State
	err    error // why it does not vote
	up     bool
	upAt   time.Duration // when the connection came
	voted  bool          // it has voted
	last   time.Duration // when it was known to vote last, if it has
	judged event.Master  // what the keeper says, since upAt; To is event.MasterUnknown before it has
	writes error         // why the master refuses to write; nil: it writes
}

func newBoard(nodes []node.Node, need int, clock clock.Clock, judges bool, tell func(event.Master)) *Board {
	return &Board{
		nodes: nodes, need: need, clock: clock, judges: judges, tell: tell,
		states: make([]onBoard, len(nodes)), news: make([]event.Master, len(nodes)),
	}
}

// Down says that there is no connection to master i. If somebody must change the master before
// there can be one, the master refuses.
func (b *Board) Down(i int, err error) {
	defer b.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[i].up = false
	e := event.Master{To: event.MasterDown, Err: err}
	if Refuses(b.nodes[i], err) || errors.Is(err, protocol.ErrTurnedAway) {
		e.To = event.MasterRefuses
	}
	b.setLocked(i, e)
}

// connected says that there is a connection to master i. Whether the master votes is the keeper's
// to say, if there is one.
func (b *Board) connected(i int) {
	defer b.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.states[i]
	if at.up {
		return
	}
	at.up, at.upAt, at.judged = true, b.clock.Elapsed(), event.Master{}
	if !b.judges {
		at.judged.To = event.MasterVotes
		b.showLocked(i)
	}
}

// writes says that master i refuses to write because of err, or that it writes, if err is nil.
func (b *Board) writes(i int, err error) {
	defer b.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[i].writes = err
	b.showLocked(i)
}

// refusesWrites says whether master i refuses to write, as far as the client knows.
func (b *Board) refusesWrites(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[i].up && b.states[i].writes != nil
}

// anyRefusesWrites says whether a master does. The keeper looks more often then.
func (b *Board) anyRefusesWrites() bool {
	for i := range b.states {
		if b.refusesWrites(i) {
			return true
		}
	}
	return false
}

// showLocked sets the state of a master that is connected and that the keeper has judged.
func (b *Board) showLocked(i int) {
	at := &b.states[i]
	switch {
	case !at.up || at.judged.To == event.MasterUnknown:
	case at.writes != nil:
		b.setLocked(i, event.Master{To: event.MasterRefuses, Err: at.writes})
	default:
		b.setLocked(i, at.judged)
	}
}

// judge says why master i may not be asked for votes, or nil, by an answer to what was sent at asOf.
// An answer from before the connection is not of the process that is there now. The caller calls
// deliver when it has no mutex locked.
func (b *Board) judge(i int, wait *MayNotVote, asOf time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.states[i]
	if !at.up || asOf < at.upAt {
		return
	}
	e := event.Master{To: event.MasterVotes}
	if wait != nil {
		e.To, e.Err = event.MasterRecovers, wait
		if wait.Final {
			e.To = event.MasterRefuses
		}
		if !wait.unclear {
			e.Left, _ = wait.After()
		}
	}
	at.judged = e
	b.showLocked(i)
}

func (b *Board) setLocked(i int, e event.Master) {
	at := &b.states[i]
	if b.over {
		return
	}
	if at.err = e.Err; at.state == e.To {
		return
	}
	now := b.clock.Elapsed()
	if at.state == event.MasterVotes {
		at.voted, at.last = true, now
	}
	if e.To == event.MasterVotes && at.voted {
		e.Away = now - at.last
	}
	e.Master, e.From = b.nodes[i].Name(), at.state
	at.state = e.To
	if b.tell == nil {
		return
	}
	if at := slices.Index(b.untold, i); at >= 0 { // an Observer is slow: it is told of both changes as one
		if e.From = b.news[i].From; e.From == e.To {
			b.untold = slices.Delete(b.untold, at, at+1)
		}
	} else {
		b.untold = append(b.untold, i)
	}
	b.news[i] = e
}

// deliver tells the Observers of the changes. One goroutine does at a time, so that they hear of each
// master's changes in their order. Another one does not wait for it.
func (b *Board) deliver() {
	b.mu.Lock()
	for !b.telling && len(b.untold) > 0 {
		e := b.news[b.untold[0]]
		b.untold, b.telling = slices.Delete(b.untold, 0, 1), true
		b.mu.Unlock()
		b.tell(e)
		b.mu.Lock()
		b.telling = false
	}
	b.mu.Unlock()
}

// close says that nothing more will be known.
func (b *Board) close() {
	defer b.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.states {
		b.setLocked(i, event.Master{To: event.MasterUnknown})
	}
	b.over = true
}

// Ready returns nil if a quorum of the masters votes, or why it does not.
func (b *Board) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var in [event.MasterDown + 1]int
	failed := errs.Collect()
	for i := range b.states {
		at := &b.states[i]
		in[at.state]++
		if at.state != event.MasterVotes {
			err := at.err
			if err == nil {
				err = errs.ErrNoAnswer
			}
			if _, named := err.(*node.Error); !named { // that it refuses writes its node said
				err = &node.Error{Node: b.nodes[i].Name(), Err: err}
			}
			failed.Errors = append(failed.Errors, err)
		}
	}
	kind := errs.ErrUnreachable
	switch votes, need := in[event.MasterVotes], b.need; {
	case votes >= need:
		return nil
	case votes+in[event.MasterRecovers] >= need:
		kind = errs.ErrRecovering
	case votes+in[event.MasterRecovers]+in[event.MasterRefuses] >= need:
		kind = errs.ErrRefused
	}
	return fmt.Errorf("%w: %d of %d masters vote, quorum is %d: %w", kind, in[event.MasterVotes], len(b.states), b.need, failed)
}

// Disconnected is how many masters have no connection now.
func (b *Board) Disconnected() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.states {
		if at := &b.states[i]; !at.up && (at.state == event.MasterDown || at.state == event.MasterRefuses) {
			n++
		}
	}
	return n
}
