// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
)

// ForceUnlock takes the lock away from the holder of that id. It returns nil when the holder cannot have a quorum any more.
func (a *Asker) ForceUnlock(ctx context.Context, l *protocol.Lock, holder string) error {
	name := l.Name
	if err := a.MayAsk(ctx, l); err != nil {
		return err
	}
	in, replies, err := a.inquire(l).conclude(ctx)
	if err != nil {
		return err
	}
	f, vote, left, bare := a.picture(replies, holder)
	switch {
	case possible(vote.Field, replies, has) < a.Masters.Need:
		return fmt.Errorf("%w: %s; %q was not touched", errs.ErrNotHolder, holder, name)
	case possible(vote.Field, replies, voted) < a.Masters.Need && slices.ContainsFunc(in.Holders, func(h Holder) bool { return !h.Resting && h.ID != holder }):
		// It has handed its lease off. Its rest is that of whoever has it now, and outlives that lease too.
		return fmt.Errorf("%w: %s has handed %q off, and %s has it now; it was not touched", errs.ErrNotHolder, holder, name, in.Holders[0].ID)
	case f.had == 0:
		return fmt.Errorf("%w: forcing %q: the masters do not tell whether %s has it", errs.ErrUnreachable, name, holder)
	}
	f.l, f.lives, f.enough = a.Namespace.Lock(name, vote.Mode), 2*(left+a.Drift.Of(left)), len(a.Masters.Nodes)-a.Masters.Need+1
	// Only the lease of a Mutex is handed off, and nobody adopts one that is over. Whoever has the lock after its rest was lifted
	// has waited for that.
	f.handsOff = f.l.Mode == protocol.Plain && bare < f.enough
	return a.force(ctx, &f)
}

// force is what ForceUnlock found out and then does.
type force struct {
	l        *protocol.Lock
	holder   string
	rest     protocol.Voting // the longest that was seen: that of a holder before it, perhaps, which has handed its lease off
	lifts    []string        // whose rest each master lifts; empty: the master was not heard
	had      uint64          // the masters that were seen with its vote or rest
	lives    time.Duration   // how long it is barred
	enough   int             // masters without its vote, so that the others are no quorum
	handsOff bool            // it may hand its lease off meanwhile
}

// picture is what the masters show of the holder: its vote or its rest, and for how long votes of it may last. bare is how many masters have
// nobody's vote.
func (a *Asker) picture(replies []protocol.Reply, holder string) (f force, vote protocol.Voting, left time.Duration, bare int) {
	f, left = force{holder: holder, lifts: make([]string, len(replies))}, a.MaxTTL
	for i := range replies {
		at := replies[i].Inspected
		if at == nil {
			continue
		}
		if at.Votes && len(at.Votings) == 0 {
			bare++
		}
		for _, v := range at.Votings {
			if idOf(v.Field) == holder {
				vote, left, f.had = v, max(left, v.Left), f.had|1<<i
			}
		}
	}
	// A rest of another holder is lifted if the one that was named has the lock, as it was seen: then it has adopted that lease, or a minority has the
	// rest of an older one. Else it is the period of somebody whom nobody named, and who may have unlocked.
	holds := bits.OnesCount64(f.had) >= a.Masters.Need
	for i := range replies {
		at := replies[i].Inspected
		if at == nil {
			continue
		}
		if at.Rest.Field == holder {
			f.had |= 1 << i
			if vote.Field == "" {
				vote = at.Rest
			}
		}
		f.lifts[i] = holder
		if holds || at.Rest.Field == holder {
			f.lifts[i] = cmp.Or(at.Rest.Field, holder)
			if at.Rest.Left > f.rest.Left {
				f.rest = at.Rest
			}
		}
	}
	return f, vote, left, bare
}

// force bars the holder on every master from coming back, releases what it has, and lifts the rest.
//
// The bar is there before the release, because a top-up may be on its way. An acquire may be on its
// way too, but not where the vote was: so only these masters count.
//
// The rest of the holder itself may be on its way as well, because its grant is new. So a master that had no rest lifts that one. A master
// with a rest lifts the rest that it has, if the holder was seen to have the lock: a minority may have that of an older holder.
func (a *Asker) force(ctx context.Context, f *force) error {
	l, holder := f.l, f.holder
	now := a.Clock.Elapsed()
	bar := a.Masters.Call(a.Masters.Need, &protocol.Request{Kind: protocol.Bar, Lock: l, Holder: holder, TTL: f.lives, Start: now, Deadline: now + f.lives, More: true})
	defer bar.Done()
	release := a.Masters.Call(a.Masters.Need, &protocol.Request{Kind: protocol.Release, Lock: l, Holder: holder, Start: now,
		Deadline: now + max(f.lives, f.rest.Left+a.Drift.Of(f.rest.Left))})
	defer release.Done()
	for i, rester := range f.lifts {
		release.Change(1<<i, func(r *protocol.Request) { r.Lift = cmp.Or(rester, f.rest.Field, holder) })
	}
	bar.Send(a.Masters.All)
	release.Send(a.Masters.All)
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
	bar.Await(ctx, a.Timeout())
	release.Await(ctx, a.Timeout())
	took := a.Clock.Elapsed() - now
	if n, _ := over(); n < f.enough {
		release.Hear(ctx, quorum.Everybody, a.Timeout()-took)
		bar.Hear(ctx, quorum.Everybody, a.Timeout()-took)
	}
	n, taken := over()
	switch {
	case taken >= f.enough, n >= f.enough && !f.handsOff:
		return nil
	case n >= f.enough:
		return a.wentOn(ctx, l, holder)
	}
	err := fmt.Errorf("%w: forcing %q: %d of the %d masters that have the vote of %s gave it up, %d must", errs.ErrUnconfirmed, l.Name, n, bits.OnesCount64(f.had), holder, f.enough)
	for i, r := range release.Replies() {
		if why := cmp.Or(r.Err, bar.Replies()[i].Err); why != nil {
			err = fmt.Errorf("%w; %w", err, why)
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, errs.OfContext(ctx))
	}
	return err
}

// wentOn is what ForceUnlock returns when the holder gave its votes up by itself before they could be
// taken away. If it handed its lease off, the adopter has the lock now: nobody took that away.
func (a *Asker) wentOn(ctx context.Context, l *protocol.Lock, holder string) error {
	in, _, err := a.inquire(l).conclude(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: forcing %q: %s gave it up or handed it off, and the masters do not tell who has it now: %w", errs.ErrUnconfirmed, l.Name, holder, err)
	case in.Free:
		return nil
	case len(in.Holders) == 0:
		return fmt.Errorf("%w: forcing %q: %s gave it up or handed it off, and the masters do not tell who has it now", errs.ErrUnconfirmed, l.Name, holder)
	}
	return fmt.Errorf("%w: %s gave %q up or handed it off meanwhile; now %s has it", errs.ErrNotHolder, holder, l.Name, in.Holders[0].ID)
}
