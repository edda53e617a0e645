// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// inspectTogether is how many locks are inspected at once while they are listed.
const inspectTogether = 32

// Locks iterates over the locks whose names begin with prefix, each with what Inspect says about it, and leaves out those that are free. If too many
// masters do not tell, the iteration ends with an error.
func (a *Asker) Locks(ctx context.Context, prefix string) iter.Seq2[*Inspection, error] {
	return func(yield func(*Inspection, error) bool) {
		l := listing{a: a, ctx: ctx, prefix: prefix, seen: make(map[string]struct{})}
		mute := make([]error, len(a.Masters.Nodes)) // why a master does not tell
		for i := range mute {
			mute[i] = l.scan(i, yield)
			switch {
			case l.over:
				return
			case ctx.Err() != nil:
				yield(nil, errs.OfContext(ctx))
				return
			case a.Closed():
				yield(nil, errs.ErrClosed)
				return
			case l.failed != nil:
				yield(nil, l.failed)
				return
			}
		}
		if err := a.missed(ctx, mute); err != nil {
			yield(nil, err)
		}
	}
}

// missed returns an error if locks may be held of which no master has told. A lock that is held has votes on a quorum of masters. mute is why a
// master did not tell. A master that does not vote may have forgotten the votes that it had, so it tells nothing either.
func (a *Asker) missed(ctx context.Context, mute []error) error {
	tag := ""
	for _, n := range a.Masters.Nodes {
		tag = cmp.Or(tag, n.Tag())
	}
	_, replies, err := a.inquire(a.Namespace.Check(tag, protocol.Plain)).conclude(ctx)
	if replies == nil {
		return err
	}
	told, recovering, refused, all := 0, 0, 0, errs.Collect()
	for i, r := range replies {
		name, why := a.Masters.Nodes[i].Name(), cmp.Or(mute[i], r.Err)
		waits := r.Inspected != nil && !r.Inspected.Votes
		switch {
		case why != nil:
		case waits:
			why = a.Explain(i, &node.Error{Node: name, Err: errForgets})
		case r.Inspected == nil:
			why = &node.Error{Node: name, Err: errs.ErrNoAnswer}
		default:
			told++
			continue
		}
		switch {
		case errors.Is(why, errs.ErrRecovering):
			recovering++
		case waits, errors.Is(why, errs.ErrRefused), r.Outcome == protocol.Refused:
			refused++
		}
		all.Errors = append(all.Errors, why)
	}
	if len(all.Errors) < a.Masters.Need {
		return nil
	}
	kind := errs.ErrUnreachable
	switch {
	case told+recovering >= a.Masters.Need:
		kind = errs.ErrRecovering
	case told+recovering+refused >= a.Masters.Need:
		kind = errs.ErrRefused
	}
	return fmt.Errorf("%w: listing locks: %d of %d masters did not tell, and locks may be on them only: %w", kind, len(all.Errors), len(replies), all)
}

// errForgets is why the list of a master does not count.
var errForgets = fmt.Errorf("does not vote, and may have forgotten locks: %w", node.ErrNotEntered)

// listing is one iteration over the locks.
type listing struct {
	a      *Asker
	ctx    context.Context
	prefix string
	seen   map[string]struct{}
	over   bool  // the loop has ended
	failed error // no quorum says who has a lock
}

// scan lists the locks on master i that were not seen before. It returns why the master does not tell.
func (l *listing) scan(i int, yield func(*Inspection, error) bool) error {
	a := l.a
	for cursor := "0"; ; {
		now := a.Clock.Elapsed()
		q := a.Masters.Poll(1<<i, 0, &protocol.Request{Kind: protocol.ListLocks, Cursor: cursor, Prefix: l.prefix, Start: now, Deadline: now + a.Timeout()})
		q.Await(l.ctx, a.Timeout())
		r := q.Replies()[i]
		q.Done()
		switch {
		case r.Listed != nil:
		case r.Outcome == protocol.Refused:
			return fmt.Errorf("%w: %w", errs.ErrRefused, r.Err)
		case r.Err != nil:
			return r.Err
		default:
			return &node.Error{Node: a.Masters.Nodes[i].Name(), Err: errs.ErrNoAnswer}
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
			if l.a.Check(name) == nil { // else no client can have taken it
				asked = append(asked, l.a.inquire(l.a.Namespace.Lock(name, protocol.Plain)))
			}
		}
		found := make([]*Inspection, 0, len(asked))
		for _, q := range asked {
			in, _, err := q.conclude(l.ctx)
			switch {
			case err == nil && !in.Free:
				found = append(found, in)
			case err != nil && !errors.Is(err, errs.ErrRefused): // it became a key of another type
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
