// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/masters/driver"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// MayNotVote is why a master may not be asked for votes.
type MayNotVote struct {
	clock clock.Clock
	err   error         // may be nil
	text  string        // what the master is
	until time.Duration // when the master may vote, on the client's clock; 0 if that is not known
	Final bool          // the master will not vote again by itself
	// unclear says that until is when more will be known, and not when the master votes.
	unclear bool
	minor   bool // it is an error of a round that does not wait for this master
	unasked bool // the master votes, and is not asked because no quorum was seen to
}

func (w *MayNotVote) Error() string { return w.text }

// After is how much of the wait is left, if that is known.
func (w *MayNotVote) After() (d time.Duration, known bool) {
	if w.until == 0 || w.Final {
		return 0, false
	}
	return max(w.until-w.clock.Elapsed(), 0), true
}

func (w *MayNotVote) Unwrap() []error {
	var wrapped []error
	if !w.Final && !w.minor {
		wrapped = append(wrapped, errs.ErrRecovering)
	}
	if w.err != nil {
		wrapped = append(wrapped, w.err)
	}
	return wrapped
}

// Minor is the error where the caller does not wait for this master: it is no errs.ErrRecovering.
func (w *MayNotVote) Minor() error {
	minor := *w
	minor.minor = true
	return &minor
}

func textOf(err error) string {
	var on *node.Error
	if errors.As(err, &on) {
		return on.Err.Error()
	}
	return err.Error()
}

// Explain adds to the refusal of master i why it does not vote, and until when.
func (k *Keeper) Explain(i int, err error) error {
	var state *protocol.RecordStateError
	if k.driver == nil || !errors.As(err, &state) && !errors.Is(err, node.ErrNotEntered) && !errors.Is(err, node.ErrClock) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.waits[i]; w != nil {
		return &node.Error{Node: k.cfg.Nodes[i].Name(), Err: w}
	}
	// The master has refused since the last look.
	return &node.Error{Node: k.cfg.Nodes[i].Name(), Err: &MayNotVote{clock: k.cfg.Clock, err: err, text: textOf(err), until: k.cfg.Clock.Elapsed() + LookAgain}}
}

func asError(w *MayNotVote) error {
	if w == nil {
		return nil
	}
	return w
}

// refusal returns why the master at place p may not be asked for votes, or nil.
func (k *Keeper) refusal(out *driver.Outcome, p int, e membership.Epoch) *MayNotVote {
	v := out.View
	w := &MayNotVote{clock: k.cfg.Clock, text: membership.Describe(v, p)}
	if err := out.Errs[p]; !v.Masters[p].Answered {
		if !errors.Is(err, node.ErrRecord) && !errors.Is(err, node.ErrProtocol) {
			return nil
		}
		return &MayNotVote{clock: k.cfg.Clock, err: err, text: textOf(err), Final: true}
	}
	if err := k.epochError(out, p); err != nil {
		return &MayNotVote{clock: k.cfg.Clock, err: err, text: err.Error(), Final: true}
	}
	switch {
	case v.Masters[p].Moved:
		w.err, w.text = node.ErrClock, fmt.Sprintf("its clock jumped: it votes again after %v", k.wait())
		w.until = v.Now + v.Terms.Wait()
		return w
	case out.Pending[p]:
		w.err, w.text = node.ErrClock, fmt.Sprintf("its clock jumped, or this host's did: if it was its own, it votes again after %v", k.wait())
		w.until, w.unclear = v.Now+LookAgain, true
		return w
	case out.Clocks.Doubted[p]:
		w.err, w.text = node.ErrClock, "its clock and another one have moved apart, and no third one tells which of them"
		return w
	case membership.Votes(v, p, e):
		return nil
	}
	if w.unasked = out.Votes(p); w.unasked {
		w.text = "votes, and is not asked while fewer than a quorum do"
	}
	left, waits := membership.Left(v, p)
	switch a := &out.Action; {
	case out.NeedsWord():
		w.text, w.Final = membership.Explain(v, *a), true
	case a.Kind == membership.Refuse && a.Why.Code != membership.BeingChanged: // until others answer
	case a.Why.Code == membership.BeingChanged:
		w.err, w.until = errs.ErrUnfinished, k.change+k.cfg.Terms.Wait()
		if w.Final = v.Now > w.until+overdue; w.Final { // its process may have died
			w.text = membership.Explain(v, *a)
		}
	case a.Why.Code == membership.Prepared: // for the change: no wait of this master ends it
		w.err = errs.ErrUnfinished
	case waits && left > 0:
		w.until = v.Now + left
	case !waits:
		w.until = v.Now + k.cfg.Terms.Wait()
	}
	return w
}

// overdue is how much longer than the wait a change of masters may take before its process is taken for dead.
const overdue = time.Second

// wait is how long a master must not vote after its clock jumped, for people.
func (k *Keeper) wait() time.Duration {
	return k.cfg.Terms.Wait().Round(100 * time.Millisecond)
}

// hopeless returns why no client can be opened with these masters, or nil. If a quorum of them
// votes for this client's list, the others are what is wrong, and not the list.
func (k *Keeper) hopeless(out *driver.Outcome) error {
	votes := 0
	for p := range out.View.Masters {
		if membership.Votes(out.View, p, k.driver.Epoch()) {
			votes++
		}
	}
	if votes >= k.cfg.Need {
		return nil
	}
	if err := out.BadRecord(); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrConfig, err)
	}
	for p := range out.View.Masters {
		if err := k.epochError(out, p); err != nil {
			return fmt.Errorf("%w: %w", errs.ErrRefused, &node.Error{Node: out.View.Masters[p].Name, Err: err})
		}
	}
	if out.NeedsWord() {
		return fmt.Errorf("%w: %s", errs.ErrNeedsInit, membership.Explain(out.View, out.Action))
	}
	return nil
}

// epochError returns an error if the master at place p votes, or waits to vote, with another
// list than this client's, or if this client's masters were left for another list. Else it
// returns nil.
func (k *Keeper) epochError(out *driver.Outcome, p int) error {
	v := out.View
	at := &v.Masters[p]
	left := out.Left()
	theirs, is := membership.Belongs(v, p)
	switch {
	case !at.Answered || !is && !left:
		return nil
	case !is:
		theirs = membership.LeftFor(v)
	}
	return k.cfg.EpochError(theirs, v.Terms.String(), left)
}
