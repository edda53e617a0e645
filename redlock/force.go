// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
)

// ForceUnlock takes the lock called name away from a holder, for an operator who knows that the holder
// is stuck. holder is its id, as [Client.Inspect] and [Lease.Holder] return it. No other attempt ever
// has that id, so ForceUnlock cannot hit the next holder, however late it comes.
//
// It breaks the promise of the lock. The holder learns that its lease is lost when it next extends it,
// after a third of its TTL by default; without renewal, when its validity ends. Until then the next
// holder may run beside it. Only a resource that refuses smaller fencing tokens (package fence) keeps
// them apart: the token of the next holder is larger. A lock that nobody renews ends by itself
// within its TTL, so wait for that if you can.
//
// A rest of the lock ([WithMinHold]) ends with it. If the lease is over and only the rest is left, holder is the id of the
// [Holder] that is Resting.
//
// ForceUnlock returns nil when the holder cannot have a quorum any more: its votes are gone from so
// many masters, and these refuse to take them back. The first that waits is woken. Otherwise it
// returns one of
//
//	ErrNotHolder    the holder has no quorum, and another may have the lock: one to whom it handed its
//	                lease off while ForceUnlock was under way, for example. Inspect says who
//	ErrUnreachable  the masters do not tell; nothing was done
//	ErrUnconfirmed  too few masters confirmed it. The lease may go on, with fewer votes, or be lost. A
//	                master that did not answer is sent the release again until it acknowledges it, or
//	                until twice the maximum TTL is over, or the client is closed. Call it again.
//	ErrRefused, ErrConfig, ErrClosed, ctx.Err()
func (c *Client) ForceUnlock(ctx context.Context, name, holder string) error {
	m := c.Mutex(name)
	switch {
	case m.err != nil:
		return m.err
	case ctx == nil:
		return errNilContext
	case holder == "":
		return fmt.Errorf("%w: forcing %q: an empty holder; Inspect returns its id", ErrConfig, name)
	}
	if err := c.mayAsk(ctx, m.l); err != nil {
		return err
	}
	in, replies, err := c.inquire(m.l).conclude(ctx)
	if err != nil {
		return err
	}
	var vote, rest protocol.Voting
	var had uint64            // the masters that have its vote or its rest
	left, bare := c.maxTTL, 0 // bare is how many masters have nobody's vote
	for i := range replies {
		if at := replies[i].Inspected; at != nil {
			if at.Votes && len(at.Votings) == 0 {
				bare++
			}
			if at.Rest.Left > rest.Left {
				rest = at.Rest
			}
			if at.Rest.Field == holder {
				vote, had = at.Rest, had|1<<i
			}
			for _, v := range at.Votings {
				if idOf(v.Field) == holder {
					vote, left, had = v, max(left, v.Left), had|1<<i
				}
			}
		}
	}
	switch {
	case in.possible(vote.Field, replies) < c.masters.Need:
		return fmt.Errorf("%w: %s; %q was not touched", ErrNotHolder, holder, name)
	case had == 0:
		return fmt.Errorf("%w: forcing %q: the masters do not tell whether %s has it", ErrUnreachable, name, holder)
	}
	f := force{l: c.namespace.Lock(name, vote.Mode), holder: holder, rest: rest, had: had, lives: 2 * (left + c.drift.Of(left)),
		enough: len(c.masters.Nodes) - c.masters.Need + 1}
	// Only the lease of a Mutex is handed off, and nobody adopts one that is over. Whoever has the lock after its rest was lifted
	// has waited for that.
	f.handsOff = f.l.Mode == protocol.Plain && bare < f.enough
	return c.force(ctx, &f)
}

// force is what ForceUnlock found out and then does.
type force struct {
	l        *protocol.Lock
	holder   string
	rest     protocol.Voting // that of a holder before it, perhaps, which has handed its lease off
	had      uint64          // the masters that were seen with its vote or rest
	lives    time.Duration   // how long it is barred
	enough   int             // masters without its vote, so that the others are no quorum
	handsOff bool            // it may hand its lease off meanwhile
}

// force bars the holder on every master from coming back, releases what it has, and lifts the rest.
//
// The bar is there before the release, because a top-up may be on its way. An acquire may be on its
// way too, but not where the vote was: so only these masters count.
func (c *Client) force(ctx context.Context, f *force) error {
	l, holder, rest := f.l, f.holder, f.rest
	now := c.clock.Elapsed()
	bar := c.masters.Call(c.masters.Need, &protocol.Request{Kind: protocol.Bar, Lock: l, Holder: holder, TTL: f.lives, Start: now, Deadline: now + f.lives, More: true})
	defer bar.Done()
	release := c.masters.Call(c.masters.Need, &protocol.Request{Kind: protocol.Release, Lock: l, Holder: holder, Lift: rest.Field, Start: now,
		Deadline: now + max(f.lives, rest.Left+c.drift.Of(rest.Left))})
	defer release.Done()
	bar.Send(c.masters.All)
	release.Send(c.masters.All)
	// over is how many masters have no vote of the holder any more and take none back. taken is on how many of
	// them this release took it.
	over := func() (n, taken int) {
		barred, _, _ := bar.Sets()
		for i, r := range release.Replies() {
			is := int(barred >> i & 1)
			switch {
			case r.Outcome == protocol.Granted:
				n, taken = n+is, taken+is
			case r.Outcome == protocol.Absent && f.had&(1<<i) != 0:
				n += is
			}
		}
		return n, taken
	}
	bar.Await(ctx, c.timeout())
	release.Await(ctx, c.timeout())
	took := c.clock.Elapsed() - now
	if n, _ := over(); n < f.enough {
		release.Hear(ctx, quorum.Everybody, c.timeout()-took)
		bar.Hear(ctx, quorum.Everybody, c.timeout()-took)
	}
	n, taken := over()
	switch {
	case taken >= f.enough, n >= f.enough && !f.handsOff:
		return nil
	case n >= f.enough:
		return c.wentOn(ctx, l, holder)
	}
	err := fmt.Errorf("%w: forcing %q: %d of the %d masters that have the vote of %s gave it up, %d must", ErrUnconfirmed, l.Name, n, bits.OnesCount64(f.had), holder, f.enough)
	for i, r := range release.Replies() {
		if why := cmp.Or(r.Err, bar.Replies()[i].Err); why != nil {
			err = fmt.Errorf("%w; %w", err, why)
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return err
}

// wentOn is what ForceUnlock returns when the holder gave its votes up by itself before they could be
// taken away. If it handed its lease off, the adopter has the lock now: nobody took that away.
func (c *Client) wentOn(ctx context.Context, l *protocol.Lock, holder string) error {
	in, _, err := c.inquire(l).conclude(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: forcing %q: %s gave it up or handed it off, and the masters do not tell who has it now: %w", ErrUnconfirmed, l.Name, holder, err)
	case in.Free:
		return nil
	case len(in.Holders) == 0:
		return fmt.Errorf("%w: forcing %q: %s gave it up or handed it off, and the masters do not tell who has it now", ErrUnconfirmed, l.Name, holder)
	}
	return fmt.Errorf("%w: %s gave %q up or handed it off meanwhile; now %s has it", ErrNotHolder, holder, l.Name, in.Holders[0].ID)
}
