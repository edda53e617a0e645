// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
)

const (
	// maxOwner bounds a label, in bytes.
	maxOwner = 128
	// introduceEvery is how often a client tells the masters its label, and introducedFor how long
	// they keep it at least.
	introduceEvery, introducedFor = 20 * time.Second, time.Minute
)

// introducer tells the masters the label of a client that has one (WithClientName).
type introducer struct {
	c *Client

	mu     sync.Mutex
	timer  *time.Timer // nil before the client is open, and without a label
	closed bool
}

func (in *introducer) begin() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.c.owner != "" && !in.closed {
		for i := range in.c.masters.Nodes {
			in.tell(i) // so that the label is there before the first vote
		}
		in.timer = time.AfterFunc(introduceEvery, in.again)
	}
}

func (in *introducer) again() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	for i := range in.c.masters.Nodes {
		in.tell(i)
	}
	in.timer.Reset(introduceEvery - in.c.jitter(introduceEvery/4)) // clients that started together must not send together
}

// tell tells master i. The label outlives the votes of a client that dies.
func (in *introducer) tell(i int) {
	c := in.c
	if c.owner == "" {
		return
	}
	now := c.clock.Elapsed()
	c.masters.Nodes[i].Submit(&protocol.Op{To: quorum.Ignore{}, Request: &protocol.Request{Kind: protocol.Introduce, Holder: c.id, Owner: c.owner,
		TTL: max(introducedFor, 2*c.maxTTL), Start: now, Deadline: now + introduceEvery}})
}

func (in *introducer) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	if in.timer != nil {
		in.timer.Stop()
	}
}

// nameHolder returns the round with the holder that refused and its label, as far as the masters tell
// them within timeout, or until ctx ends. It costs a trip. The round that it is given is not changed:
// others may have it.
func (c *Client) nameHolder(ctx context.Context, l *protocol.Lock, round *RoundError, timeout time.Duration) *RoundError {
	began := c.clock.Elapsed()
	q := c.masters.Poll(c.masters.All, c.masters.Need, &protocol.Request{Kind: protocol.Inspect, Lock: l, Start: began, Deadline: began + timeout})
	defer q.Done()
	q.Await(ctx, timeout)
	named := *round
	if in := (Inspection{Quorum: c.masters.Need}); named.Holder == "" {
		if in.read(q.Replies()); len(in.Holders) == 0 && !in.Free {
			q.Hear(ctx, quorum.Everybody, timeout-(c.clock.Elapsed()-began)) // the others may tell
			in.read(q.Replies())
		}
		if len(in.Holders) == 0 {
			return round
		}
		named.Holder = in.Holders[0].ID
	}
	for _, r := range q.Replies() {
		if r.Inspected == nil {
			continue
		}
		for _, v := range r.Inspected.Votings {
			if idOf(v.Field) == named.Holder {
				named.Owner = cmp.Or(named.Owner, v.Owner)
			}
		}
	}
	return &named
}

// naming is the question who has a contender's lock, on its way.
type naming struct {
	done  chan struct{} // closed when named is there
	named *RoundError
}

// nameHolder has err, that of a caller whose context ended, name the holder. The answers to an acquire that waits do not:
// they say what is needed to wait. So it asks once more. Callers whose contexts end together ask together.
func (ct *contender) nameHolder(err error) {
	over, ok := err.(*gaveUpError) // no other error has a last round to be changed
	if !ok || over.last == nil || !errors.Is(over.last, ErrHeld) {
		return
	}
	c, w := ct.w.c, ct.w
	if over.last.Holder != "" && (over.last.Owner != "" || c.owner == "") || c.closed.Load() {
		return
	}
	w.mu.Lock()
	n := ct.naming
	if n != nil {
		w.mu.Unlock()
		<-n.done // soon: see below
		over.last = n.named
		return
	}
	n = &naming{done: make(chan struct{})}
	ct.naming = n
	timeout := min(max(attempt.HearOutMax, 2*ct.trip), c.timeout())
	w.mu.Unlock()
	n.named = c.nameHolder(context.Background(), ct.l, over.last, timeout)
	over.last = n.named
	w.mu.Lock()
	ct.naming = nil
	w.mu.Unlock()
	close(n.done)
}
