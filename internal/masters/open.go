// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// openLook is how often [Open] asks its nodes whether their masters have answered. The nodes dial
// by themselves, so asking costs no I/O.
const openLook = 20 * time.Millisecond

// Open waits until a quorum of masters has answered, and looks at their records. It returns an
// error that waiting cannot cure at once.
func (k *Keeper) Open(ctx context.Context) error {
	seen := uint64(0) // the masters that had answered at the last look
	var twice SecondLook
	var needsInit error // what the last look said, if that was it
	var unread []error  // why that look did not see some masters
	for told := false; ; {
		a, err := k.answers(ctx)
		if err != nil {
			return err
		}
		if a.up != seen || a.count >= k.cfg.Need {
			seen = a.up
			out, err := k.look(ctx)
			needsInit, unread = nil, out.Errs
			switch {
			case errors.Is(err, errs.ErrNeedsInit) && ctx.Err() == nil && twice.GoOn(k.cfg.Clock.Elapsed(), k.cfg.Terms.MaxTTL):
				needsInit = err
			case err != nil:
				return err
			case errors.Is(ctx.Err(), context.Canceled):
				return k.gaveUp(ctx, a, unread)
			case a.count >= k.cfg.Need && k.saw(&out):
				k.begin(&out)
				return nil
			}
		}
		if k.cfg.OnOpening != nil && !told && ctx.Err() == nil {
			told = true
			k.cfg.OnOpening(ctx, event.Opening{Answered: a.count, Quorum: k.cfg.Need, Err: k.awaits(a, needsInit)})
		}
		select {
		case <-time.After(openLook):
		case <-ctx.Done():
			if needsInit != nil && !errors.Is(ctx.Err(), context.Canceled) {
				return needsInit // it is why there was no client in time
			}
			return k.gaveUp(ctx, a, unread)
		}
	}
}

// errUnread is why Open waits although a quorum has answered.
var errUnread = errors.New("redlock: a quorum has answered, but their records have not been read in time")

// awaits is why Open waits. needsInit is what the last look said, if that was it.
func (k *Keeper) awaits(a heard, needsInit error) error {
	switch {
	case a.count < k.cfg.Need:
		return a.errs
	case needsInit != nil:
		return needsInit
	}
	return errUnread
}

// heard is what the masters have said so far.
type heard struct {
	up    uint64 // the masters that can be used
	count int    // how many masters up has
	errs  *multierror.Error
}

// answers asks each node for its master's first answer. It returns an error only if waiting cannot
// cure it.
func (k *Keeper) answers(ctx context.Context) (heard, error) {
	a := heard{errs: errs.Collect()}
	never, kind := 0, errs.ErrRefused
	for i, err := range Ready(ctx, k.cfg.Nodes) {
		switch {
		case err == nil:
			a.up |= 1 << i
			a.count++
			continue
		case errors.Is(err, protocol.ErrSame):
			return a, fmt.Errorf("%w: %w", errs.ErrConfig, err) // the list has one master twice
		case errors.Is(err, node.ErrClosed):
			return a, Spent(err) // nobody dials its master any more
		case !Refuses(k.cfg.Nodes[i], err):
		case errors.Is(err, node.ErrDenied):
			never++
		default:
			never, kind = never+1, errs.ErrConfig
		}
		a.errs = multierror.Append(a.errs, err)
	}
	if len(k.cfg.Nodes)-never < k.cfg.Need {
		return a, fmt.Errorf("%w: %d of %d masters cannot be used until somebody acts, and a quorum is %d: %w", kind, never, len(k.cfg.Nodes), k.cfg.Need, a.errs)
	}
	return a, nil
}

// Refuses says whether err, an error of n's master, stays until somebody changes the master: its rights, its policy or its role. A minority of
// such masters costs what a minority of dead ones does.
func Refuses(n node.Node, err error) bool {
	return Unusable(err) && (!errors.Is(err, node.ErrReplica) || !behindFailover(n))
}

// behindFailover says whether n finds its master through Sentinel or Cluster, and may reach a
// replica for a moment.
func behindFailover(n node.Node) bool {
	f, ok := n.(interface{ BehindFailover() bool })
	return ok && f.BehindFailover()
}

// gaveUp is the error of Open when ctx ended. Of a quorum that has answered it is ErrUnreachable only if the time was over: records that were
// not read in it are masters that did not answer. unread says why, of each.
func (k *Keeper) gaveUp(ctx context.Context, a heard, unread []error) error {
	switch {
	case a.count < k.cfg.Need:
		return fmt.Errorf("%w: opening was given up when %d of %d masters had answered, quorum is %d: %w: %w",
			errs.ErrUnreachable, a.count, len(k.cfg.Nodes), k.cfg.Need, errs.OfContext(ctx), a.errs)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("redlock: opening was given up: %w", errs.OfContext(ctx))
	}
	all := errs.Collect()
	for _, err := range unread {
		if err != nil {
			all = multierror.Append(all, err)
		}
	}
	return fmt.Errorf("%w: opening was given up before the records of a quorum of %d were read: %w: %w", errs.ErrUnreachable, k.cfg.Need, errs.OfContext(ctx), all)
}
