// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redlock-go/redlock/internal/lock/lockerr"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// inspectTogether is how many locks are inspected at once while they are listed.
const inspectTogether = 32

// Locks iterates over the locks whose names begin with prefix, in no order. With an empty prefix it
// iterates over all. Each comes with what [Client.Inspect] says about it, and is left out if that is
// Free. As with Inspect, the result is advice: a lock may change hands while the loop runs. A lock
// that is taken or given up meanwhile may be listed or not. Locks that are held all the time are
// listed, each once.
//
// Locks asks each master for its keys in small steps (SCAN), one master after the other, and the
// masters serve others in between. It looks at every key, so use it for people and not in a loop. It
// keeps the names that it has seen until it ends. Masters that do not answer are left out, as long as
// the others must know every lock. Else the iteration ends with one error, and a nil Inspection:
//
//	ErrUnreachable  too many masters do not answer
//	ErrRefused      too many masters refuse, because the user lacks the right to SCAN, for example
//	ErrConfig, ErrClosed, ctx.Err()
func (c *Client) Locks(ctx context.Context, prefix string) iter.Seq2[*Inspection, error] {
	return func(yield func(*Inspection, error) bool) {
		switch {
		case c.isZero():
			yield(nil, errZeroClient)
			return
		case ctx == nil:
			yield(nil, errNilContext)
			return
		}
		l := listing{c: c, ctx: ctx, prefix: prefix, seen: make(map[string]struct{})}
		refused, errs := 0, lockerr.Collect()
		for i := range c.masters.Nodes {
			err := l.scan(i, yield)
			switch {
			case l.over:
				return
			case ctx.Err() != nil:
				yield(nil, lockerr.Of(ctx))
				return
			case c.closed.Load():
				yield(nil, ErrClosed)
				return
			case l.failed != nil:
				yield(nil, l.failed)
				return
			case err != nil:
				if errors.Is(err, ErrRefused) {
					refused++
				}
				errs.Errors = append(errs.Errors, err)
			}
		}
		// A lock that is held has votes on a quorum of masters.
		if n := len(errs.Errors); n >= c.masters.Need {
			kind := ErrUnreachable
			if refused == n {
				kind = ErrRefused
			}
			yield(nil, fmt.Errorf("%w: listing locks: %d of %d masters did not tell, and locks may be on them only: %w", kind, n, len(c.masters.Nodes), errs))
		}
	}
}

// listing is one iteration over the locks.
type listing struct {
	c      *Client
	ctx    context.Context
	prefix string
	seen   map[string]struct{}
	over   bool  // the loop has ended
	failed error // no quorum says who has a lock
}

// scan lists the locks on master i that were not seen before. It returns why the master does not tell.
func (l *listing) scan(i int, yield func(*Inspection, error) bool) error {
	c := l.c
	for cursor := "0"; ; {
		now := c.clock.Elapsed()
		q := c.masters.Poll(1<<i, 0, &protocol.Request{Kind: protocol.ListLocks, Cursor: cursor, Prefix: l.prefix, Start: now, Deadline: now + c.timeout()})
		q.Await(l.ctx, c.timeout())
		r := q.Replies()[i]
		q.Done()
		switch {
		case r.Listed != nil:
		case r.Outcome == protocol.Refused:
			return fmt.Errorf("%w: %w", ErrRefused, r.Err)
		case r.Err != nil:
			return r.Err
		default:
			return &node.Error{Node: c.masters.Nodes[i].Name(), Err: lockerr.NoAnswer}
		}
		if !l.show(r.Listed.Names, yield) {
			return nil
		}
		if cursor = r.Listed.Cursor; cursor == "0" {
			return nil
		}
	}
}

// show inspects the locks that were not seen before, many at a time, and yields them. It says whether
// to go on.
func (l *listing) show(names []string, yield func(*Inspection, error) bool) bool {
	for len(names) > 0 {
		var asked []*inquiry
		for len(names) > 0 && len(asked) < inspectTogether {
			name := names[0]
			names = names[1:]
			if _, ok := l.seen[name]; ok {
				continue
			}
			l.seen[name] = struct{}{}
			if m := l.c.Mutex(name); m.err == nil { // else no client can have taken it
				asked = append(asked, l.c.inquire(m.l))
			}
		}
		found := make([]*Inspection, 0, len(asked))
		for _, q := range asked {
			in, _, err := q.conclude(l.ctx)
			switch {
			case err == nil && !in.Free:
				found = append(found, in)
			case err != nil && !errors.Is(err, ErrRefused): // it became a key of another type
				l.failed = err
			}
		}
		for _, in := range found {
			if l.over = !yield(in, nil); l.over {
				return false
			}
		}
		if l.failed != nil {
			return false
		}
	}
	return true
}
