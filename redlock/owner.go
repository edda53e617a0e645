// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/protocol"
)

// wantsOwners tells whether an error should name the holder by its label, which costs a trip: the program gave labels.
func (c *Client) wantsOwners() bool { return c.ownerSet && c.owner != "" }

// nameHolder returns the round with the holder that refused and its label, as far as the masters tell
// them within timeout, or until ctx ends. It costs a trip. The round that it is given is not changed:
// others may have it.
func (c *Client) nameHolder(ctx context.Context, l *protocol.Lock, round *RoundError, timeout time.Duration) *RoundError {
	holder, owner := c.asker.NameHolder(ctx, l, round.Holder, round.Owner, timeout)
	if holder == "" {
		return round
	}
	named := *round
	named.Holder, named.Owner = holder, owner
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
	if over.last.Holder != "" && (over.last.Owner != "" || !c.wantsOwners()) || c.closed.Load() {
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
