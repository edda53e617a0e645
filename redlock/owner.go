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

// nameOwner is err, that of a call that did not wait, with the label of the holder if the program gave labels.
func (m *Mutex) nameOwner(ctx context.Context, err error) error {
	c, round := m.c, failedRound(err)
	if round == nil || !c.wantsOwners() || ctx.Err() != nil || !errors.Is(round, ErrHeld) || len(round.Holder) <= 36 {
		return err
	}
	named := c.nameHolder(ctx, m.l, round, c.masters.RoundTimeout(ctx, c.timeout()*time.Duration(len(c.masters.Nodes))))
	return endedMeanwhile(ctx, named)
}

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

// nameHolder has err, that of a call whose context ended, name the holder. The answers to an acquire that waits do not:
// they say what is needed to wait. So it asks once more. Callers whose contexts end together ask together.
func (w *waiter) nameHolder(err error) {
	c, l := w.m.c, w.Lock
	over, ok := err.(*gaveUpError) // no other error has a last round to be changed
	if !ok || over.last == nil || !errors.Is(over.last, ErrHeld) {
		return
	}
	if over.last.Holder != "" && (over.last.Owner != "" || !c.wantsOwners()) || c.closed.Load() {
		return
	}
	timeout := min(max(attempt.HearOutMax, 2*w.Trip), c.timeout())
	named, _, _ := c.naming.Do(l.Mode.Name()+l.Name, func() (any, error) {
		return c.nameHolder(context.Background(), l, over.last, timeout), nil
	})
	over.last = named.(*RoundError)
}
