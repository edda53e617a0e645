// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/masters/driver"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// Config is what a keeper works with, and whom it tells. All fields of its first part must be set.
type Config struct {
	Nodes     []node.Node
	Need      int               // a quorum
	Terms     *membership.Terms // nil: the masters have no records, and the keeper looks at nothing
	Clock     clock.Clock
	Rand      func() uint64
	Jitter    func(d time.Duration) time.Duration // a random time in [0, d)
	Timeout   func() time.Duration                // for an answer of one master
	Trip      func() time.Duration                // the round trip that decides how fast a quorum answers; 0 if it is not known
	Who       string                              // this process, for people
	Namespace string

	// EpochError is the error of a master that votes with another list.
	EpochError func(theirs, ours string, left bool) error
	// LookAgain says that callers that wait are to ask master i: it answers again, or votes again.
	LookAgain func(i int)
	// OurClock says that this process's own clock had jumped by now. What was measured before is wrong.
	OurClock func(now time.Duration)
	// Active reports whether the masters were used since the last call. They are looked at more often then.
	Active func() bool

	// Nobody listens where one of these is nil.
	OnOpening func(context.Context, event.Opening)
	OnMaster  func(event.Master)
	OnClock   func(event.Clock)
	OnEpoch   func(event.Epoch)
	// OnFar: the masters are too far away for the timeout. It is called again after they were near.
	OnFar func(trip, timeout time.Duration)
}

// Keeper drives package membership while the client is open, so that the client's masters vote. It
// tells each node whether its master may be asked for votes, and knows why a master may not.
type Keeper struct {
	Board  *Board
	cfg    Config
	quit   context.Context
	stop   context.CancelFunc
	kicked chan struct{} // holds a token when there is something new to see
	run    sync.WaitGroup
	runs   Runs

	mu     sync.Mutex
	driver *driver.Driver
	waits  []*MayNotVote // by node: why its master does not vote; nil if it votes
	why    string        // why the masters as a whole cannot be locked with, if that is so
	change time.Duration // when a change of masters was seen first; 0 if there is none
	// unsteady counts the looks at a clock that moves again and again. It is forgotten at calm.
	unsteady int
	calm     time.Duration
	returned uint64 // the masters that answer again, until a look has seen them
	// suspects are the masters whose clock the Observers were told of. epoch is the last they were told.
	suspects uint64
	epoch    membership.Epoch
	far      bool // OnFar was told
}

// NewKeeper returns a Keeper that has seen nothing. Bind the nodes to it, then call Open, and Close in the end.
func NewKeeper(cfg Config) *Keeper {
	k := &Keeper{
		cfg: cfg, Board: newBoard(cfg.Nodes, cfg.Need, cfg.Clock, cfg.Terms != nil, cfg.OnMaster),
		kicked: make(chan struct{}, 1), waits: make([]*MayNotVote, len(cfg.Nodes)),
	}
	k.quit, k.stop = context.WithCancel(context.Background())
	if cfg.Terms == nil {
		return k
	}
	old := make([]bool, len(cfg.Nodes))
	for i := range old {
		old[i] = true
	}
	k.driver = driver.New(driver.Config{
		Goal: membership.Serve, Terms: cfg.Terms, Nodes: cfg.Nodes, Old: old, New: make([]bool, len(cfg.Nodes)),
		Clock: cfg.Clock, Rand: cfg.Rand, Timeout: func() time.Duration { return max(cfg.Timeout(), protocol.DefaultNodeTimeout) }, Who: cfg.Who,
		Probe: k.Board.refusesWrites, Namespace: cfg.Namespace,
	})
	return k
}

// Trouble has the masters looked at soon. It never blocks. why is the error of master i, or nil.
func (k *Keeper) Trouble(i int, why error) {
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

// Admit refuses a master that is in the list already under another address: it
// would vote twice (docs/safety.md A25).
func (k *Keeper) Admit(i int, id protocol.Identity) error {
	if j := k.runs.Meet(i, id.RunID, func(int) bool { return true }); j >= 0 {
		return Same(k.cfg.Nodes[j], k.cfg.Nodes[i], id)
	}
	return nil
}

// Up says that there is a connection to master i.
func (k *Keeper) Up(i int) {
	k.Board.connected(i)
	k.Back(i)
}

// Writes says that master i refuses to write because of err, or that it writes again, if err is nil.
func (k *Keeper) Writes(i int, err error) {
	k.Board.writes(i, err)
	if err != nil {
		k.Trouble(i, nil) // which looks more often then
	}
}

// Back has the callers that wait ask master i, which answers again, as soon as a look has seen that it votes. It never blocks.
func (k *Keeper) Back(i int) {
	if k.driver == nil {
		k.cfg.LookAgain(i)
		return
	}
	k.mu.Lock()
	k.returned |= 1 << i
	k.mu.Unlock()
	k.Trouble(i, nil)
}

// suspect tells the Observers that the clock of master i seems to have jumped, once until the master
// votes again: each op that meets such a clock says so.
func (k *Keeper) suspect(i int) {
	if k.cfg.OnClock == nil {
		return
	}
	k.mu.Lock()
	bit := uint64(1) << i
	known := k.suspects&bit != 0
	k.suspects |= bit
	k.mu.Unlock()
	if !known {
		k.cfg.OnClock(event.Clock{Master: k.cfg.Nodes[i].Name()})
	}
}

// look looks at the masters until nothing is left to do at once, for a client that is being
// opened. It returns the error that waiting cannot cure.
func (k *Keeper) look(ctx context.Context) (out driver.Outcome, err error) {
	if k.driver == nil {
		return out, nil
	}
	for range 10 * len(k.cfg.Nodes) {
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
func (k *Keeper) saw(out *driver.Outcome) bool { return k.driver == nil || out.Reachable() }

// begin looks at the masters from now on, until the client is closed.
func (k *Keeper) begin(out *driver.Outcome) {
	if k.driver != nil {
		k.run.Go(func() { k.keep(k.pause(out)) })
	}
}

// keep looks at the masters until the client is closed.
func (k *Keeper) keep(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-k.quit.Done():
			return
		case <-k.kicked:
			if k.unsteady > 3 && pause <= ActiveLook {
				continue // the clock moves again and again, and the timer fires within a second
			}
		case <-timer.C:
		}
		out := k.step()
		pause = k.pause(&out)
		timer.Reset(pause)
	}
}

// Close ends the looks. All masters are unknown then.
func (k *Keeper) Close() {
	k.stop()
	k.run.Wait()
	k.Board.close()
}

// pause is how long until the next look, if nothing happens before. An idle client looks four
// times in a maximum TTL, so that it knows the epoch when masters lose their records.
func (k *Keeper) pause(out *driver.Outcome) time.Duration {
	idle := k.cfg.Terms.MaxTTL / 4
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
		return ActiveLook
	case progress:
		return Again
	case requarantined, slices.Contains(out.Pending, true):
		k.unsteady, k.calm = k.unsteady+1, now+2*ActiveLook
		return min(LookAgain<<min(max(k.unsteady-3, 0), 5), ActiveLook)
	case a.Kind == membership.Wait, a.Kind == membership.Done && a.For > 0:
		idle = min(idle, max(a.For, Again))
	}
	if k.cfg.Active() || k.Board.anyRefusesWrites() {
		idle = min(idle, ActiveLook)
	}
	return idle - k.cfg.Jitter(idle/8+1)
}

// step looks at the masters once, and carries out one decision.
func (k *Keeper) step() driver.Outcome {
	out := k.driver.Step(k.quit)
	if out.OurClock {
		if k.cfg.OnClock != nil {
			k.cfg.OnClock(event.Clock{})
		}
		k.cfg.OurClock(k.cfg.Clock.Elapsed())
	}
	k.enter(&out)
	k.sayIfFar()
	return out
}

// enter tells each node whether its master may be asked for votes. It wakes the callers that wait
// for a master that votes again.
func (k *Keeper) enter(out *driver.Outcome) {
	e := k.driver.Epoch()
	text := ""
	if e.Number != 0 {
		text = e.String()
	}
	if e.Number != 0 && e != k.epoch && k.cfg.OnEpoch != nil {
		k.cfg.OnEpoch(event.Epoch{Number: e.Number, Epoch: text})
		k.epoch = e
	}
	why := ""
	if out.NeedsWord() || out.Left() || out.Action.Why.Code == membership.BeingChanged {
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
	for i, n := range k.cfg.Nodes {
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
		if wait != nil && wait.unasked {
			wait = nil
		}
		k.Board.judge(i, wait, asOf)
	}
	k.mu.Unlock()
	k.Board.deliver()
	for _, i := range votes {
		k.cfg.LookAgain(i)
	}
}

// Recovering is how many masters do not vote, by the last look.
func (k *Keeper) Recovering() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.waits {
		if w != nil {
			n++
		}
	}
	return n
}

// Reason is why no lock can be taken on these masters, or empty.
func (k *Keeper) Reason() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.why
}

// sayIfFar says once that the masters are too far away for the timeout, and again after they were near.
func (k *Keeper) sayIfFar() {
	if k.cfg.OnFar == nil {
		return
	}
	trip, timeout := k.cfg.Trip(), k.cfg.Timeout()
	far := 2*trip > timeout // an op may have to wait for the pipeline ahead of it
	if far && !k.far {
		k.cfg.OnFar(trip, timeout)
	}
	k.far = far
}
