// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

const (
	// maxOwner bounds a label, in bytes.
	maxOwner = 128
	// introduceEvery is how often a client tells the masters its label, and introducedFor how long
	// they keep it at least.
	introduceEvery, introducedFor = 20 * time.Second, time.Minute
)

// introducer tells the masters the label of a client that has one (WithOwner).
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
		for i := range in.c.nodes {
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
	for i := range in.c.nodes {
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
	c.nodes[i].Submit(&protocol.Op{To: ignore{}, Request: &protocol.Request{Kind: protocol.Introduce, Holder: c.id, Owner: c.owner,
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

// nameHolder returns err with the label of the holder that refused, if that is known. It costs a
// trip, so only a client that has a label itself asks.
func (c *Client) nameHolder(ctx context.Context, l *protocol.Lock, err error) error {
	var round *RoundError
	if c.owner == "" || ctx.Err() != nil || !errors.As(err, &round) || !errors.Is(round, ErrHeld) || len(round.Holder) <= 36 {
		return err
	}
	now := c.clock.Elapsed()
	timeout := c.roundTimeout(ctx, c.nodeTimeout*time.Duration(len(c.nodes)))
	q := c.poll(c.all, c.need, &protocol.Request{Kind: protocol.Inspect, Lock: l, Start: now, Deadline: now + timeout})
	q.await(ctx, timeout)
	replies := q.replies()
	q.done()
	for i := range replies {
		if at := replies[i].Inspected; at != nil {
			for _, v := range at.Votings {
				if idOf(v.Field) == round.Holder && v.Owner != "" {
					round.Owner = v.Owner
				}
			}
		}
	}
	return err
}
