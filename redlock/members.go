// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// keeper drives package membership while the client is open, so that the client's masters vote. It
// tells each node whether its master may be asked for votes, and knows why a master may not.
type keeper struct {
	c      *Client
	quit   context.Context
	stop   context.CancelFunc
	kicked chan struct{} // holds a token when there is something new to see
	run    sync.WaitGroup

	mu     sync.Mutex
	driver *masters.Driver
	waits  []*waitError  // by node: why its master does not vote; nil if it votes
	why    string        // why the masters as a whole cannot be locked with, if that is so
	change time.Duration // when a change of masters was seen first; 0 if there is none
	rounds uint64        // of the client, at the last look
	// unsteady counts the looks at a clock that moves again and again. It is forgotten at calm.
	unsteady int
	calm     time.Duration
	returned uint64 // the masters that answer again, until a look has seen them
	// suspects are the masters whose clock the Observers were told of. epoch is the last they were told.
	suspects uint64
	epoch    membership.Epoch
	far      bool // the log says that the masters are too far away
}

func (k *keeper) init(c *Client) {
	k.c = c
	k.quit, k.stop = context.WithCancel(context.Background())
	k.kicked = make(chan struct{}, 1)
	k.waits = make([]*waitError, len(c.masters.Nodes))
	if c.epoch.terms == nil {
		return
	}
	old := make([]bool, len(c.masters.Nodes))
	for i := range old {
		old[i] = true
	}
	k.driver = masters.New(masters.Config{
		Goal: membership.Serve, Terms: c.epoch.terms, Nodes: c.masters.Nodes, Old: old, New: make([]bool, len(c.masters.Nodes)),
		Clock: c.clock, Rand: c.rand64, Timeout: func() time.Duration { return max(c.timeout(), DefaultNodeTimeout) }, Who: c.id,
		Probe: c.board.refusesWrites, Namespace: string(c.namespace),
	})
}

// kick has the masters looked at soon. It never blocks. why is the error of master i, or nil.
func (k *keeper) kick(i int, why error) {
	if k.driver == nil {
		return
	}
	if errors.Is(why, node.ErrClock) {
		k.driver.Jumped(i)
		k.suspect(i)
	}
	select {
	case k.kicked <- struct{}{}:
	default:
	}
}

// back has the callers that wait ask master i, which answers again, as soon as a look has seen that it votes. It never blocks.
func (k *keeper) back(i int) {
	if k.driver == nil {
		k.c.waiting.lookAgain(i)
		return
	}
	k.mu.Lock()
	k.returned |= 1 << i
	k.mu.Unlock()
	k.kick(i, nil)
}

// suspect tells the Observers that the clock of master i seems to have jumped, once until the master
// votes again: each op that meets such a clock says so.
func (k *keeper) suspect(i int) {
	if len(k.c.tells.clock) == 0 {
		return
	}
	k.mu.Lock()
	bit := uint64(1) << i
	known := k.suspects&bit != 0
	k.suspects |= bit
	k.mu.Unlock()
	if !known {
		tell(k.c.tells.clock, event.Clock{Master: k.c.masters.Nodes[i].Name()})
	}
}

// look looks at the masters until nothing is left to do at once, for a client that is being
// opened. It returns the error that waiting cannot cure.
func (k *keeper) look(ctx context.Context) (out masters.Outcome, err error) {
	if k.driver == nil {
		return out, nil
	}
	for range 10 * len(k.c.masters.Nodes) {
		if errors.Is(ctx.Err(), context.Canceled) {
			break // nobody wants the client any more
		}
		out = k.step()
		if a := out.Action.Kind; a != membership.Learn && a != membership.Swap && a != membership.Look {
			break
		}
	}
	if out.View == nil {
		return out, nil
	}
	return out, k.hopeless(&out)
}

// saw reports whether a look has seen what a quorum of the masters is. A look at masters whose answers are late sees
// nothing, and no vote is asked of a master that was not seen.
func (k *keeper) saw(out *masters.Outcome) bool { return k.driver == nil || out.Reachable() }

// begin looks at the masters from now on, until the client is closed.
func (k *keeper) begin(out *masters.Outcome) {
	if k.driver != nil {
		k.run.Go(func() { k.keep(k.pause(out)) })
	}
}

// hopeless returns why no client can be opened with these masters, or nil. If a quorum of them
// votes for this client's list, the others are what is wrong, and not the list.
func (k *keeper) hopeless(out *masters.Outcome) error {
	votes := 0
	for p := range out.View.Masters {
		if membership.Votes(out.View, p, k.driver.Epoch()) {
			votes++
		}
	}
	if votes >= k.c.masters.Need {
		return nil
	}
	if err := out.BadRecord(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for p := range out.View.Masters {
		if err := k.epochError(out, p); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, &node.Error{Node: out.View.Masters[p].Name, Err: err})
		}
	}
	if needsWord(&out.Action) {
		return fmt.Errorf("%w: %s", ErrNeedsInit, membership.Explain(out.View, out.Action))
	}
	return nil
}

// needsWord reports whether only an operator can help.
func needsWord(a *membership.Action) bool {
	return a.Kind == membership.Refuse && (a.Why.Code == membership.NeedsWord || a.Why.Code == membership.NeedsMasters)
}

// epochError returns an EpochError if the master at place p votes, or waits to vote, with another
// list than this client's, or if this client's masters were left for another list. Else it
// returns nil.
func (k *keeper) epochError(out *masters.Outcome, p int) error {
	v := out.View
	at := &v.Masters[p]
	left := out.Action.Kind == membership.Refuse && out.Action.Why.Code == membership.Moved
	theirs, is := membership.Belongs(v, p)
	switch {
	case !at.Answered || !is && !left:
		return nil
	case !is:
		theirs = membership.LeftFor(v)
	}
	return &EpochError{Theirs: theirs, Ours: v.Terms.String(), Left: left}
}

// keep looks at the masters until the client is closed.
func (k *keeper) keep(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-k.quit.Done():
			return
		case <-k.kicked:
			if k.unsteady > 3 {
				continue // the clock moves again and again: the timer fires within a second
			}
		case <-timer.C:
		}
		out := k.step()
		timer.Reset(k.pause(&out))
	}
}

func (k *keeper) close() {
	k.stop()
	k.run.Wait()
}

// pause is how long until the next look, if nothing happens before. An idle client looks four
// times in a maximum TTL, so that it knows the epoch when masters lose their records.
func (k *keeper) pause(out *masters.Outcome) time.Duration {
	idle := k.c.epoch.terms.MaxTTL / 4
	a := &out.Action
	requarantined := a.Kind == membership.Swap && a.From.State.Phase == membership.Quarantined && a.To.State.Phase == membership.Quarantined &&
		a.From.State != a.To.State // else it is stamped
	progress := a.Kind == membership.Look || a.Kind == membership.Learn || a.Kind == membership.Swap && !requarantined
	now := out.View.Now
	if now > k.calm {
		k.unsteady = 0
	}
	switch {
	case out.Unwritten != nil:
		return masters.ActiveLook
	case progress:
		return masters.Again
	case requarantined, slices.Contains(out.Pending, true):
		k.unsteady, k.calm = k.unsteady+1, now+2*masters.ActiveLook
		return min(masters.LookAgain<<min(max(k.unsteady-3, 0), 5), masters.ActiveLook)
	case a.Kind == membership.Wait, a.Kind == membership.Done && a.For > 0:
		idle = min(idle, max(a.For, masters.Again))
	}
	rounds := k.c.stats.rounds.Load()
	active := rounds != k.rounds || k.c.renewer.held() > 0 || k.c.board.anyRefusesWrites()
	k.rounds = rounds
	if active {
		idle = min(idle, masters.ActiveLook)
	}
	return idle - k.c.jitter(idle/8+1)
}

// step looks at the masters once, and carries out one decision.
func (k *keeper) step() masters.Outcome {
	out := k.driver.Step(k.quit)
	if out.OurClock {
		if len(k.c.tells.clock) > 0 {
			tell(k.c.tells.clock, event.Clock{})
		}
		k.c.invalidateBefore(k.c.clock.Elapsed())
	}
	k.enter(&out)
	k.sayIfFar()
	return out
}

// enter tells each node whether its master may be asked for votes. It wakes the callers that wait
// for a master that votes again.
func (k *keeper) enter(out *masters.Outcome) {
	e := k.driver.Epoch()
	text := ""
	if e.Number != 0 {
		text = e.String()
	}
	if e.Number != 0 && e != k.epoch && len(k.c.tells.epoch) > 0 {
		tell(k.c.tells.epoch, event.Epoch{Number: e.Number, Epoch: text})
		k.epoch = e
	}
	why := ""
	switch out.Action.Why.Code {
	case membership.NeedsWord, membership.NeedsMasters, membership.BeingChanged, membership.Moved:
		why = membership.Explain(out.View, out.Action)
	}
	var votes []int
	k.mu.Lock()
	if out.Action.Why.Code != membership.BeingChanged {
		k.change = 0
	} else if k.change == 0 {
		k.change = max(out.View.Now, 1)
	}
	k.why = why
	for i, n := range k.c.masters.Nodes {
		p := k.driver.Place(i)
		at := &out.View.Masters[p]
		asOf := at.Sent
		wait := k.refusal(out, p, e)
		if !at.Answered {
			if wait == nil {
				continue // its lane says why
			}
			asOf = out.View.Now
		}
		n.Enter(text, asError(wait), asOf)
		if wait == nil && (k.waits[i] != nil || k.returned&(1<<i) != 0) {
			votes = append(votes, i)
		}
		k.waits[i], k.returned = wait, k.returned&^(1<<i)
		if wait == nil {
			k.suspects &^= 1 << i
		}
		k.c.board.judge(i, wait, asOf)
	}
	k.mu.Unlock()
	k.c.board.deliver()
	for _, i := range votes {
		k.c.waiting.lookAgain(i)
	}
}

func asError(w *waitError) error {
	if w == nil {
		return nil
	}
	return w
}

// refusal returns why the master at place p may not be asked for votes, or nil.
func (k *keeper) refusal(out *masters.Outcome, p int, e membership.Epoch) *waitError {
	v := out.View
	w := &waitError{c: k.c, text: membership.Describe(v, p)}
	if err := out.Errs[p]; !v.Masters[p].Answered {
		if !errors.Is(err, node.ErrRecord) && !errors.Is(err, node.ErrProtocol) {
			return nil
		}
		return &waitError{c: k.c, err: err, text: textOf(err), final: true}
	}
	if err := k.epochError(out, p); err != nil {
		return &waitError{c: k.c, err: err, text: err.Error(), final: true}
	}
	switch {
	case v.Masters[p].Moved:
		w.err, w.text = node.ErrClock, fmt.Sprintf("its clock jumped: it votes again after %v", k.wait())
		w.until = v.Now + v.Terms.Wait()
		return w
	case out.Pending[p]:
		w.err, w.text = node.ErrClock, fmt.Sprintf("its clock jumped, or this host's did: if it was its own, it votes again after %v", k.wait())
		w.until, w.unclear = v.Now+masters.LookAgain, true
		return w
	case out.Clocks.Doubted[p]:
		w.err, w.text = node.ErrClock, "its clock and another one have moved apart, and no third one tells which of them"
		return w
	case membership.Votes(v, p, e):
		return nil
	}
	left, waits := membership.Left(v, p)
	switch a := &out.Action; {
	case needsWord(a):
		w.text, w.final = membership.Explain(v, *a), true
	case a.Kind == membership.Refuse && a.Why.Code != membership.BeingChanged: // until others answer
	case a.Why.Code == membership.BeingChanged:
		w.err, w.until = ErrUnfinished, k.change+k.c.epoch.terms.Wait()
		if w.final = v.Now > w.until+DefaultOutageTimeout; w.final { // its process may have died
			w.text = membership.Explain(v, *a)
		}
	case waits && left > 0:
		w.until = v.Now + left
	case !waits:
		w.until = v.Now + k.c.epoch.terms.Wait()
	}
	return w
}

// wait is how long a master must not vote after its clock jumped, for people.
func (k *keeper) wait() time.Duration {
	return k.c.epoch.terms.Wait().Round(100 * time.Millisecond)
}

// recovering is how many masters do not vote, by the last look.
func (k *keeper) recovering() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.waits {
		if w != nil {
			n++
		}
	}
	return n
}

// reason is why no lock can be taken on these masters, or empty.
func (k *keeper) reason() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.why
}
