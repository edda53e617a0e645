// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"sync"
	"time"
)

// masterBoard has the state of each master, and tells the Observers of each change. The nodes say
// whether there is a connection, and the keeper whether the master may be asked for votes.
type masterBoard struct {
	c *Client

	mu     sync.Mutex
	states []masterOnBoard // by node
	over   bool            // the client was closed
}

type masterOnBoard struct {
	state MasterState
	err   error // why it does not vote
	up    bool
	upAt  time.Duration // when the connection came
	voted bool          // it has voted
	last  time.Duration // when it was known to vote last, if it has
}

func (b *masterBoard) init(c *Client) {
	b.c = c
	b.states = make([]masterOnBoard, len(c.nodes))
}

// down says that there is no connection to master i.
func (b *masterBoard) down(i int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[i].up = false
	b.setLocked(i, MasterEvent{To: MasterDown, Err: err})
}

// connected says that there is a connection to master i. Whether the master votes is the keeper's
// to say, if there is one.
func (b *masterBoard) connected(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.states[i]
	if at.up {
		return
	}
	at.up, at.upAt = true, b.c.clock.Elapsed()
	if b.c.keeper.driver == nil {
		b.setLocked(i, MasterEvent{To: MasterVotes})
	}
}

// judge says why master i may not be asked for votes, or nil, by an answer to what was sent at asOf.
// An answer from before the connection is not of the process that is there now.
func (b *masterBoard) judge(i int, wait *waitError, asOf time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := &b.states[i]; !at.up || asOf < at.upAt {
		return
	}
	e := MasterEvent{To: MasterVotes}
	if wait != nil {
		e.To, e.Err = MasterRecovers, wait
		if wait.final {
			e.To = MasterRefuses
		}
		e.Left, _ = wait.after()
	}
	b.setLocked(i, e)
}

func (b *masterBoard) setLocked(i int, e MasterEvent) {
	at := &b.states[i]
	if b.over {
		return
	}
	if at.err = e.Err; at.state == e.To {
		return
	}
	now := b.c.clock.Elapsed()
	if at.state == MasterVotes {
		at.voted, at.last = true, now
	}
	if e.To == MasterVotes && at.voted {
		e.Away = now - at.last
	}
	e.Master, e.From = b.c.nodes[i].Name(), at.state
	at.state = e.To
	if len(b.c.tells.master) > 0 {
		tell(b.c.tells.master, e)
	}
}

// close says that nothing more will be known.
func (b *masterBoard) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.states {
		b.setLocked(i, MasterEvent{To: MasterUnknown})
	}
	b.over = true
}

// isDown is how many masters have no connection now.
func (b *masterBoard) isDown() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.states {
		if b.states[i].state == MasterDown {
			n++
		}
	}
	return n
}
