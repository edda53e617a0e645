// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/lock/lockerr"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// openLook is how often [Open] asks its nodes whether their masters have answered. The nodes dial
// by themselves, so asking costs no I/O.
const openLook = 20 * time.Millisecond

// open waits until a quorum of masters has answered, and looks at their records. It returns an
// error that waiting cannot cure at once.
func (c *Client) open(ctx context.Context) error {
	seen := uint64(0) // the masters that had answered at the last look
	var twice masters.SecondLook
	for told := false; ; {
		a, err := c.answers(ctx)
		if err != nil {
			return err
		}
		if a.up != seen || a.count >= c.masters.Need {
			seen = a.up
			out, err := c.keeper.look(ctx)
			switch {
			case errors.Is(err, ErrNeedsInit) && ctx.Err() == nil && twice.GoOn(c.clock.Elapsed(), c.epoch.terms.MaxTTL):
			case err != nil:
				return err
			case errors.Is(ctx.Err(), context.Canceled):
				return c.openGaveUp(ctx, a)
			case a.count >= c.masters.Need && c.keeper.saw(&out):
				c.keeper.begin(&out)
				return nil
			}
		}
		if len(c.tells.opening) > 0 && !told && ctx.Err() == nil {
			told = true
			tellOf(ctx, c.tells.opening, event.Opening{Answered: a.count, Quorum: c.masters.Need, Err: a.errs.ErrorOrNil()})
		}
		select {
		case <-time.After(openLook):
		case <-ctx.Done():
			return c.openGaveUp(ctx, a)
		}
	}
}

// answers is what the masters have said so far.
type answers struct {
	up    uint64 // the masters that can be used
	count int    // how many masters up has
	errs  *multierror.Error
}

// answers asks each node for its master's first answer. It returns an error only if waiting cannot
// cure it.
func (c *Client) answers(ctx context.Context) (answers, error) {
	errs := make([]error, len(c.masters.Nodes))
	var g errgroup.Group
	for i, n := range c.masters.Nodes {
		g.Go(func() error {
			errs[i] = n.Ready(ctx)
			return nil
		})
	}
	_ = g.Wait()
	a := answers{errs: lockerr.Collect()}
	unusable, kind := 0, ErrRefused
	for i, err := range errs {
		switch {
		case err == nil:
			a.up |= 1 << i
			a.count++
			continue
		case errors.Is(err, masters.ErrSame):
			return a, fmt.Errorf("%w: %w", ErrConfig, err) // the list has one master twice
		case !c.unusable(i, err):
		case errors.Is(err, node.ErrDenied):
			unusable++
		default:
			unusable, kind = unusable+1, ErrConfig
		}
		a.errs = multierror.Append(a.errs, err)
	}
	if len(c.masters.Nodes)-unusable < c.masters.Need {
		return a, fmt.Errorf("%w: %d of %d masters cannot be used until somebody acts, and a quorum is %d: %w", kind, unusable, len(c.masters.Nodes), c.masters.Need, a.errs)
	}
	return a, nil
}

// unusable says whether err, why there is no connection to master i, stays until somebody changes
// the master: its rights, its policy or its role. A minority of such masters costs what a minority
// of dead ones does.
func (c *Client) unusable(i int, err error) bool {
	return masters.Unusable(err) && (!errors.Is(err, node.ErrReplica) || !behindFailover(c.masters.Nodes[i]))
}

// behindFailover says whether n finds its master through Sentinel or Cluster, and may reach a
// replica for a moment.
func behindFailover(n node.Node) bool {
	f, ok := n.(interface{ BehindFailover() bool })
	return ok && f.BehindFailover()
}

// openGaveUp is the error of Open when ctx ended.
func (c *Client) openGaveUp(ctx context.Context, a answers) error {
	if a.count >= c.masters.Need {
		return fmt.Errorf("redlock: opening was given up: %w", lockerr.Of(ctx))
	}
	return fmt.Errorf("%w: opening was given up when %d of %d masters had answered, quorum is %d: %w: %w",
		ErrUnreachable, a.count, len(c.masters.Nodes), c.masters.Need, lockerr.Of(ctx), a.errs)
}
