// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/zoo"
	"github.com/redlock-go/redlock/node"
)

// recoverySteps is into how many pieces a master's wait is cut. Each piece is
// timed by one client on its own clock and noted in the record, so that a wait is
// shared by clients that come and go, and no step of the master's clock can cut
// it short: its clock is not asked at all.
const recoverySteps = node.RecoverySteps

// tokenSkew is how far ahead of a master's clock the scripts let a counter be
// pushed (votes.lua).
const tokenSkew = time.Minute

// sameJump is within what time the jumps of all masters are taken for one of ours. When
// our clock does not jump but runs fast or slow, it is not seen at all of them in the same
// moment: so those that it is not seen at are looked at again a few times.
const (
	sameJump  = time.Second
	looks     = 3
	lookAgain = 50 * time.Millisecond
)

// unknownWait is when a master votes that waits for others to answer.
const unknownWait = time.Duration(math.MaxInt64)

// recovery brings masters back that must not vote yet: those that restarted, lost
// their data, were promoted, or whose clock jumped. One goroutine for each master
// that needs it, while it needs it.
//
// The order is the point (docs/safety.md, "Amnesia"): first the wait, until
// every lease that the master may have forgotten is over; then the counters, from
// masters that did not lose theirs; then votes. Counters that were read before
// the wait could miss what an attempt under way still writes.
type recovery struct {
	c    *Client
	quit context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu sync.Mutex
	// on: the masters were found to be in order. Nothing is written on them before,
	// for they may be another's.
	on    bool
	nodes []nodeRecovery
}

// nodeRecovery is what this client knows of one master that does not vote.
type nodeRecovery struct {
	running bool
	kicked  bool          // look again before ending
	new     bool          // it had no record when this client first looked
	suspect bool          // its clock jumped: recover although the record is in order
	err     error         // why no waiting will make it vote
	votesAt time.Duration // when it is expected to vote; 0: it votes, or was not looked at

	jumped time.Duration // when its clock was last seen to jump against ours
	looks  int           // how often the others were looked at since

	seen  node.Gate     // the recovering gate that was seen last...
	since time.Duration // ...for the first time then
}

func (r *recovery) init(c *Client) {
	r.c = c
	r.nodes = make([]nodeRecovery, len(c.nodes))
	for i := range r.nodes {
		r.nodes[i].jumped = -longest
	}
	r.quit, r.stop = context.WithCancel(context.Background())
}

// quarantine is how long a master must not vote after it may have forgotten
// votes. Drift counts twice: the leases' masters and this client may both be off.
func (c *Client) quarantine() time.Duration {
	if zoo.NoQuarantine {
		return 0
	}
	return c.maxTTL + 2*c.drift.Of(c.maxTTL)
}

// kick has master i looked at, soon. It never blocks.
func (r *recovery) kick(i int, why error) {
	if r.c.epoch.id == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.nodes[i]
	n.kicked = true
	if errors.Is(why, node.ErrClock) {
		n.suspect, n.jumped = true, r.c.clock.Elapsed()
	}
	if !r.on || n.running || r.quit.Err() != nil {
		return
	}
	n.running = true
	r.wg.Go(func() { r.run(i) })
}

func (r *recovery) running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := range r.nodes {
		if r.nodes[i].running {
			n++
		}
	}
	return n
}

func (r *recovery) wait() {
	r.stop()
	r.wg.Wait()
}

// check looks at all masters once, for Open: a record that no waiting will mend
// is an error at once.
func (r *recovery) check() error {
	if r.c.epoch.id == "" {
		return nil
	}
	for i := range r.c.nodes {
		if _, _, err := r.c.gate(r.quit, i); hopeless(err) {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	r.begin()
	return nil
}

// hopeless tells a record that no waiting will mend from a master that only does
// not answer.
func hopeless(err error) bool {
	return errors.Is(err, ErrConfig) || errors.Is(err, node.ErrRecord) || errors.Is(err, node.ErrProtocol)
}

// begin recovers the masters that need it, now and from now on.
func (r *recovery) begin() {
	r.mu.Lock()
	r.on = true
	r.mu.Unlock()
	for i := range r.c.nodes {
		r.kick(i, nil)
	}
}

// run looks at master i until it votes, cannot be helped, or is out of reach; the
// next connection or refusal begins again.
func (r *recovery) run(i int) {
	for {
		r.mu.Lock()
		r.nodes[i].kicked = false
		r.mu.Unlock()
		pause := r.step(i)
		r.mu.Lock()
		n := &r.nodes[i]
		if pause == 0 && !n.kicked || r.quit.Err() != nil {
			n.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		select {
		case <-time.After(max(pause, time.Millisecond)):
		case <-r.quit.Done():
		}
	}
}

// step does what can be done for master i now, and returns after what time there
// is more to do; 0 for nothing.
func (r *recovery) step(i int) time.Duration {
	c := r.c
	gate, record, err := c.gate(r.quit, i)
	want := c.voting(i)
	r.mu.Lock()
	n := &r.nodes[i]
	n.err = nil
	if hopeless(err) {
		n.err = err
	}
	n.new = n.new && gate.State == node.Recovering || gate == node.Gate{}
	suspect := n.suspect
	if suspect {
		n.looks++
	}
	looked := n.looks
	r.mu.Unlock()
	fields := c.record(i)
	switch {
	case err != nil:
		return 0
	case suspect && r.ourClock(i):
		return r.swap(i, gate, gate, nil) // its lane may count its votes again
	case suspect && looked < looks:
		return lookAgain
	case gate == want && !suspect:
		r.votes(i)
		if record["durable"] != fields[3] { // somebody changed the master's configuration
			r.swap(i, gate, want, fields)
		}
		return 0
	case gate.State == node.Recovering && gate.Incarnation == want.Incarnation && !suspect:
		return r.observe(i, gate, want, fields, c.kept(i, gate, record))
	case gate.State == node.Voting && !suspect && record["durable"] == "1" && c.identity(i).Durable:
		// It restarted with every vote and counter on disk.
		return r.swap(i, gate, want, fields)
	}
	start, fields := c.recovering(i)
	if c.kept(i, gate, record) {
		fields = append(fields, "kept", start.Nonce)
	}
	if zoo.RelearnFirst {
		fields = appendCounters(fields, r.relearn().counters)
	}
	return r.swap(i, gate, start, fields)
}

// votes notes that master i votes, and has those look again that wait for it to.
func (r *recovery) votes(i int) {
	r.mu.Lock()
	waited := r.nodes[i].votesAt != 0
	r.nodes[i].votesAt = 0
	r.mu.Unlock()
	if waited {
		r.c.waiting.lookAgain(i)
	}
}

// ourClock: every master that answers seems to have jumped as i did, or the like, and they
// are a quorum. Then it is this client's clock that did, for its host was stopped by a
// hypervisor, say: no other client is to suffer for it, and no lease of this one is to be
// believed in that began before, nor any wait that it has timed. One master that has not
// jumped is a witness for our clock, and against i.
func (r *recovery) ourClock(i int) bool {
	c, answered := r.c, 1
	for j := range c.nodes {
		if j == i {
			continue
		}
		if _, _, err := c.gate(r.quit, j); err != nil { // its lane looks at the clock
			continue
		}
		now := c.clock.Elapsed()
		r.mu.Lock()
		witness := now-r.nodes[j].jumped > sameJump
		r.mu.Unlock()
		if witness {
			return false
		}
		answered++
	}
	if answered < max(c.need, 2) {
		return false
	}
	c.distrust()
	r.mu.Lock()
	for j := range r.nodes {
		r.nodes[j].seen = node.Gate{} // what this client has timed was timed wrong
	}
	r.mu.Unlock()
	return true
}

// swap changes the record of master i, and says when to look again: at once.
func (r *recovery) swap(i int, from, to node.Gate, fields []string) time.Duration {
	reply := r.c.ask(r.quit, i, node.Request{Kind: node.SwapRecord, Swap: &node.Swap{From: from, To: to, Fields: fields}})
	if reply.Class == node.Granted {
		r.mu.Lock()
		r.nodes[i].suspect, r.nodes[i].looks = false, 0
		r.mu.Unlock()
	}
	return time.Millisecond
}

// observe times one piece of the wait of master i: a step that this client has
// itself seen for long enough may be counted. A master that kept its counters votes
// after the last.
func (r *recovery) observe(i int, gate, want node.Gate, fields []string, kept bool) time.Duration {
	piece := r.c.quarantine() / recoverySteps
	now := r.c.clock.Elapsed()
	r.mu.Lock()
	n := &r.nodes[i]
	if n.seen != gate {
		n.seen, n.since = gate, now
	}
	seen := now - n.since
	n.votesAt = now + piece*time.Duration(recoverySteps-gate.Step) - seen
	r.mu.Unlock()
	switch {
	case gate.Step >= recoverySteps && kept:
		return r.swap(i, gate, want, fields)
	case gate.Step >= recoverySteps:
		return r.finish(i, gate, want, fields)
	case seen < piece:
		return piece - seen
	}
	next := gate
	next.Step++
	return r.swap(i, gate, next, nil)
}

// learnt is what the records of all masters that answer say of their counters.
type learnt struct {
	counters map[string]int64  // the largest of each
	kept     int               // masters that have all of theirs
	lost     int               // masters that recover and may have lost some: those that...
	empty    int               // ...have none at all
	waited   map[int]node.Gate // ...have waited, and from which gate they may vote
}

// relearn reads the records of all masters. What a recovering master still has is read
// too, from the beginning of its wait: nothing is added to it.
func (r *recovery) relearn() learnt {
	c := r.c
	l := learnt{counters: make(map[string]int64), waited: make(map[int]node.Gate)}
	for j := range c.nodes {
		g, record, err := c.readRecord(r.quit, j)
		switch {
		case err != nil:
		case c.kept(j, g, record):
			l.kept++
			learn(l.counters, record)
		case g.State == node.Recovering && g.Incarnation == c.voting(j).Incarnation:
			l.lost++
			if !learn(l.counters, record) {
				l.empty++
			}
			if g.Step >= recoverySteps {
				l.waited[j] = g
			}
		}
	}
	return l
}

// finish gives master i, which may have lost counters and has waited, such as no token has
// passed, and lets it vote.
//
// Invariant: they are taken from a clock only when so many masters are known to have lost
// theirs that no quorum has kept them, and nothing that is out of reach can help: what is
// left has been read on so many that every quorum has one of them, or so many have nothing.
// Else i waits, though with it there would be a quorum: a master that is out of reach may
// have the only copy of the largest token.
func (r *recovery) finish(i int, gate, want node.Gate, fields []string) time.Duration {
	c := r.c
	l := r.relearn()
	if zoo.RelearnFirst {
		clear(l.counters)
	}
	spare := len(c.nodes) - c.need // a quorum can do without so many
	switch {
	case l.kept >= c.need:
		return r.swap(i, gate, want, appendCounters(fields, l.counters))
	case l.lost > spare && max(l.kept+l.lost-l.empty, l.empty) > spare && l.kept+len(l.waited) >= c.need:
		// All that have waited begin at once, and are a quorum then, from which the others
		// learn. To the next that looks alone, i would have kept its counters.
		leap(l.counters, c.clock.Wall())
		for j := range c.nodes {
			if g, ok := l.waited[j]; ok {
				r.swap(j, g, c.voting(j), appendCounters(c.record(j), l.counters))
			}
		}
		return time.Millisecond
	}
	r.mu.Lock()
	r.nodes[i].votesAt = unknownWait
	r.mu.Unlock()
	return c.quarantine() / recoverySteps // until more masters answer
}

// explain adds to a master's refusal why it does not vote and until when.
func (r *recovery) explain(i int, err error) error {
	if r.c.epoch.id == "" || errors.Is(err, node.ErrDown) {
		return err
	}
	mends := r.mends(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.nodes[i]
	if n.err != nil {
		return n.err
	}
	if !mends {
		return err
	}
	wait := &waitError{err: err, new: n.new}
	switch {
	case n.votesAt > 0 && n.votesAt != unknownWait:
		wait.after = max(n.votesAt-r.c.clock.Elapsed(), 0)
	case n.seen == node.Gate{}:
		wait.after = r.c.quarantine()
	default:
		wait.stuck = true
	}
	return wait
}

// mends tells a refusal that passes by itself.
func (r *recovery) mends(err error) bool {
	var refusal *node.GateError
	if !errors.As(err, &refusal) {
		return errors.Is(err, node.ErrClock)
	}
	g, err := node.ParseGate(refusal.Got)
	return err == nil && g.State != node.Retired && (g.Epoch == "" || g.Epoch == r.c.epoch.id)
}

// waitError is a master's refusal that passes by itself.
type waitError struct {
	err   error
	after time.Duration
	stuck bool // until more masters answer
	new   bool // it had no record at all
}

func (e *waitError) Error() string {
	s := e.err.Error()
	if e.stuck {
		s += ", votes when a quorum of masters that kept their data answers"
	} else {
		s += ", votes in about " + e.after.Round(10*time.Millisecond).String()
	}
	if e.new {
		s += " (masters that were never used can begin at once: Client.Init)"
	}
	return s
}

func (e *waitError) Unwrap() []error { return []error{ErrRecovering, e.err} }
