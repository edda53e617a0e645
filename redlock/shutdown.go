// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/hold"
)

// errShutdown is the error of a call for a lock after Shutdown was called.
var errShutdown = fmt.Errorf("%w: it is being shut down and grants nothing new", ErrClosed)

// partingTime is how long Shutdown waits for masters to confirm the leases that it gives back, if the
// node timeout is not longer.
const partingTime = time.Second

// Shutdown ends the client in good order, and then closes it:
//
//   - It grants nothing new. Each call for a lock fails with [ErrClosed], those that wait leave their
//     queues, and so do campaigns of package election. The term of a leader ends.
//   - It waits until the holders have given their leases back, or until ctx ends. Leases are
//     renewed meanwhile, and Extend, Unlock, Reenter, Transfer and Inspect work.
//   - When ctx ends, it releases the leases that are still held, so that the next holder
//     need not wait for the TTL. Their contexts end with ErrClosed first. Code that goes on
//     regardless may run beside the next holder; its Do and its Unlock return an error that is both
//     ErrLost and ErrClosed.
//
// Under a lease of this client, as inside of Do, Shutdown waits for that lease until ctx ends: call it from elsewhere, or give it a deadline.
//
// If ctx has ended already, Shutdown releases everything at once. It takes up to a second, or
// the node timeout, for that. A minimum hold ([WithMinHold]) counts on.
//
// Shutdown returns nil when every lease was given back in time. It returns an error that is ctx.Err()
// if it had to release leases, and [ErrUnconfirmed] too if a quorum of masters did not confirm each of them.
// If the client is closed while Shutdown waits, it returns ErrClosed. Of several calls the first that has waited to its end
// ends the client: the others return when it does, and what it does. Shutdown is safe after Close, and of a nil or zero Client.
func (c *Client) Shutdown(ctx context.Context) error {
	switch {
	case c.isZero():
		return nil
	case ctx == nil:
		return errNilContext
	case c.closed.Load() && !errors.Is(context.Cause(c.serving), errShutdown):
		<-c.gone
		return nil
	}
	c.endServing(errShutdown)
	empty := c.renewer.Drain()
	c.lines.Close()
	select {
	case <-empty:
	case <-c.quit:
	case <-ctx.Done():
	}
	if c.ending.Swap(true) { // and no sync.Once: in a bubble of synctest time stands still for who waits in one
		<-c.ended // Close before that would cut off the releases of the call that ends the client
		return c.endErr
	}
	defer close(c.ended)
	c.endErr = c.end(ctx, empty)
	return c.endErr
}

// end ends the client when empty is closed, when ctx has ended, or when somebody has closed it.
func (c *Client) end(ctx context.Context, empty <-chan struct{}) (err error) {
	select {
	case <-empty:
	default:
		if c.closed.Load() {
			<-c.gone
			return fmt.Errorf("%w: while Shutdown waited for the holders of leases, which the TTL frees", ErrClosed)
		}
		err = c.surrender(ctx, empty)
	}
	_ = c.Close()
	return err
}

// surrender gives back what is still held when ctx has ended, and waits until what others give back is on its way: a hold leaves the renewer
// when its releases are sent, and what is not sent when the client closes is never sent.
func (c *Client) surrender(ctx context.Context, empty <-chan struct{}) error {
	var ended []*hold.Hold
	for _, h := range c.renewer.All() {
		if h.Surrender() {
			ended = append(ended, h)
		}
	}
	parting, cancel := context.WithTimeout(context.Background(), max(c.timeout(), partingTime))
	defer cancel()
	var unconfirmed atomic.Int64
	var g errgroup.Group
	g.SetLimit(hold.MaxBatch)
	for _, h := range ended {
		g.Go(func() error {
			if errors.Is(h.Release(parting, nil, c.clock.Elapsed()), ErrUnconfirmed) {
				unconfirmed.Add(1)
			}
			return nil
		})
	}
	_ = g.Wait()
	select {
	case <-empty:
	case <-c.quit:
	case <-parting.Done():
	}
	if len(ended) == 0 {
		return nil
	}
	err := fmt.Errorf("redlock: shutting down: %d leases were still held, and were released: %w", len(ended), errs.OfContext(ctx))
	if n := unconfirmed.Load(); n > 0 {
		err = fmt.Errorf("%w: of %d the masters have not confirmed it: %w", err, n, ErrUnconfirmed)
	}
	return err
}

// Ready says whether a call for a lock can succeed, as far as the client knows: it returns nil if a
// quorum of the masters votes. It asks no master, and is for a readiness probe. Otherwise it returns one of
//
//	ErrUnreachable  too few masters are connected
//	ErrRecovering   enough are, and some recover; that ends by itself
//	ErrRefused      an operator must do something about some of them
//	ErrClosed       Shutdown has begun, or the client was closed
//
// with the reason of each master. The client knows of a master what Observer.Master was told
// last. While it is in use it looks at its masters every second, and else four times in a maximum
// TTL.
func (c *Client) Ready() error {
	if c.isZero() {
		return errZeroClient
	}
	if err := c.over(); err != nil {
		return err
	}
	return c.keeper.Board.Ready()
}
