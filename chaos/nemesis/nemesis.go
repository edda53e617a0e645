// SPDX-License-Identifier: Apache-2.0

// Package nemesis is what goes wrong in a chaos run: the table N1 to N25 of docs/safety.md 5.6, each with what it does and what must
// hold all the same.
//
// Guarantee: a nemesis heals what it did before Strike returns, also when it is interrupted, and returns a record of what it really did:
// a fault that did not take place has an Error. Condition: masters, proxies and clients do as they are told; Target.Heal mends what could
// not be mended.
//
// Any number may strike at once. No two of them hurt one master at the same time, and those that make masters forget leave a quorum
// of masters that do not, for without one no scheme of counters can promise tokens (docs/safety.md 3.4); N2 and N5 are there to
// go beyond that.
package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
)

// Nemesis is one way of going wrong.
type Nemesis struct {
	Name string // N1; a variant with another promise has a word behind it: N17-del
	Does string // in one sentence
	// Promises is what must hold under it.
	Promises history.Promises
	// Needs is what the run must have; empty for nothing special.
	Needs Need
	// Elsewhere says why it is not one of this harness's, and where it is tested; then it cannot strike.
	Elsewhere string

	strike func(s *strike) error
}

// Need is what a nemesis asks of a run.
type Need struct {
	Clocks    bool // cluster.Config.Clocks
	Files     bool // append-only files: a persistence other than none
	Forgetful bool // a persistence other than always, whose restored copies cannot be told from a restart (docs/operations.md)
	EverySec  bool // the persistence that can lose its last second
	Other     bool // another build of the clients' program
}

// Have is what a run has. Clocks are not in it: they can be given to any run.
type Have struct {
	Persistence cluster.Persistence
	Other       bool // another build of the clients' program
}

// Lacks says what a run lacks for the nemesis, or nothing.
func (n Nemesis) Lacks(h Have) string {
	switch p := h.Persistence; {
	case n.Elsewhere != "":
		return n.Elsewhere
	case n.Needs.EverySec && p != cluster.EverySec:
		return "needs --persistence everysec"
	case n.Needs.Files && p == cluster.None:
		return "needs --persistence everysec or always"
	case n.Needs.Forgetful && p == cluster.Always:
		return "needs --persistence none or everysec"
	case n.Needs.Other && !h.Other:
		return "needs --other, another build of this program"
	}
	return ""
}

// ID is the name in histories: N17 for N17-del.
func (n Nemesis) ID() string {
	id, _, _ := strings.Cut(n.Name, "-")
	return id
}

// Strike does it once, somewhere, and heals it: for as long as a few TTLs at most, or until ctx ends. Its choices come from r. ok is false
// when it could not be done now since other faults are in the way; another time it may.
func (n Nemesis) Strike(ctx context.Context, t *Target, r *rand.Rand) (f history.Fault, ok bool) {
	s := &strike{ctx: ctx, target: t, rand: r, fault: history.Fault{Nemesis: n.ID(), Start: history.Now()}}
	err := n.strike(s)
	for i := len(s.heals) - 1; i >= 0; i-- {
		if e := s.heals[i](); e != nil {
			s.unhealed = errors.Join(s.unhealed, e)
		}
	}
	f = s.fault
	f.End = history.Now()
	switch {
	case errors.Is(err, errBusy):
		return f, false
	case err != nil:
		f.Error = err.Error()
	}
	if s.unhealed != nil {
		f.End, f.Detail = history.Never, f.Detail+"; not healed: "+s.unhealed.Error()
	}
	return f, true
}

// strike is one fault under way.
type strike struct {
	ctx      context.Context
	target   *Target
	rand     *rand.Rand
	fault    history.Fault
	heals    []func() error // run in reverse when the fault is over, whatever came of it
	unhealed error
}

// healTime bounds what a heal waits for.
const healTime = 20 * time.Second

// heal registers what undoes the fault. It is not stopped by the end of the run.
func (s *strike) heal(f func(ctx context.Context) error) {
	s.heals = append(s.heals, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), healTime)
		defer cancel()
		return f(ctx)
	})
}

// say sets what the fault's record says of it.
func (s *strike) say(format string, args ...any) { s.fault.Detail = fmt.Sprintf(format, args...) }

// last waits for d, or until the run ends. What was done stays done meanwhile.
func (s *strike) last(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// between draws a time from a to b, in whole milliseconds above a: it is read by people.
func (s *strike) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rand.Int64N(int64(b-a)+1)).Truncate(time.Millisecond)
}

// take claims count nodes for the fault, and forgetful ones with regard to what masters may forget at once.
func (s *strike) take(count int, forgetful bool) ([]*Node, error) {
	claim := s.target.claim
	if forgetful {
		claim = s.target.claimForgetful
	}
	nodes, err := claim(s.rand, count)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		s.fault.Targets = append(s.fault.Targets, n.name)
	}
	s.heals = append(s.heals, func() error { s.target.unclaim(nodes); return nil })
	return nodes, nil
}

// some draws a number from 1 to n.
func (s *strike) some(n int) int { return 1 + s.rand.IntN(n) }

// each does f to all nodes at the same time and joins the errors.
func each(nodes []*Node, f func(n *Node) error) error {
	errs := make(chan error)
	for _, n := range nodes {
		go func() { errs <- f(n) }()
	}
	var all error
	for range nodes {
		all = errors.Join(all, <-errs)
	}
	return all
}
