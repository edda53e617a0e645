// SPDX-License-Identifier: Apache-2.0

// Package nemesis injects the faults of a chaos run. A nemesis is one kind of fault. Table lists them all: what each does, and which promises
// must hold under it (docs/chaos.md has the same table).
//
// Strike injects one fault and ends it before it returns, also if ctx ends. It returns a record of what it did; a fault that could not be
// injected has an Error in its record. If a fault could not be ended, the record says so, and Target.Heal ends it after the run.
//
// Several nemeses may strike at the same time. A master has one fault at a time. Nemeses that make masters lose their data leave a quorum
// of masters that keep theirs, because tokens are promised only then (docs/safety.md, "Amnesia"). The exceptions are kill-majority and
// wipe-majority, which test what happens without such a quorum.
package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/chaos/history"
)

// Nemesis is one kind of fault.
type Nemesis struct {
	Name string // such as kill-minority: one of history.Nemeses
	Does string // what it does, in one sentence without a subject
	// Promises must hold under it. A fault suspends the others while it can matter: see history.Fault.
	Promises history.Promises
	// Floor is the least share of the time in which a free lock can be taken while a quorum of masters is healthy (digest.Availability); 0: none.
	Floor float64
	// Needs is what the run must offer.
	Needs Need
	// Elsewhere is set if it cannot strike real masters. It says why, and where it is tested.
	Elsewhere string

	strike func(s *strike) error
}

// Need is what a nemesis needs of a run.
type Need struct {
	Clocks    bool // cluster.Config.Clocks
	Files     bool // append-only files: a persistence other than none
	Forgetful bool // a persistence other than always: with always a restored copy looks like a restart (docs/operations.md)
	EverySec  bool // the persistence everysec, which can lose its last second
	Other     bool // another build of the clients' program
	Servers   bool // masters of two programs or more: cluster.Config.Servers
	Own       bool // clients of this library, which the harness can misconfigure
}

// Have is what a run offers. Clocks are not part of it, because any run can have them.
type Have struct {
	Persistence cluster.Persistence
	Other       bool // another build of the clients' program
	Servers     bool // masters of two programs or more
	Foreign     bool // the clients are a program of the user's, and may use another library
	// Remote: the masters are somebody else's. Only faults of links and clients strike, and those that are Allowed of OnRequest.
	Remote  bool
	Allowed []string
}

var (
	withoutMasters = []string{"freeze-client", "kill-client", "partition", "reorder", "cut-replies", "slow-replies", "rolling-upgrade", "misconfigure", "waiter-storm", "three-at-once"}
	onRequest      = map[string]string{"administer": "it hurts all clients of the master, not only those of the run", "delete-lock": "it deletes and renames locks of the run"}
)

// OnRequest returns the nemeses that strike masters of somebody else's only if they are allowed, in order.
func OnRequest() []string { return slices.Sorted(maps.Keys(onRequest)) }

// lacksOwnMasters says why a nemesis does not strike masters of somebody else's.
func (n Nemesis) lacksOwnMasters(h Have) string {
	if !h.Remote || slices.Contains(withoutMasters, n.Name) || slices.Contains(h.Allowed, n.Name) {
		return ""
	}
	if why := onRequest[n.Name]; why != "" {
		return "needs --allow " + n.Name + ": " + why
	}
	return "the masters are yours, and it would stop them, or change their settings, clocks or data"
}

// Lacks returns what the run lacks for the nemesis; "" if the nemesis can strike.
func (n Nemesis) Lacks(h Have) string {
	switch p := h.Persistence; {
	case n.lacksOwnMasters(h) != "":
		return n.lacksOwnMasters(h)
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
	case n.Needs.Servers && !h.Servers:
		return "needs --servers with two programs or more"
	case n.Needs.Own && h.Foreign:
		return "it opens clients of this library, and --client runs another program"
	}
	return ""
}

// mayBreak returns the promises that do not hold under the nemesis.
func (n Nemesis) mayBreak() history.Promises {
	return history.Promises{Exclusion: !n.Promises.Exclusion, Tokens: !n.Promises.Tokens}
}

// Strike injects one fault and ends it again, after a few TTLs at most, or when ctx ends. r decides where and how. ok is false if other
// faults are in the way; a later Strike may succeed.
func (n Nemesis) Strike(ctx context.Context, t *Target, r *rand.Rand) (f history.Fault, ok bool) {
	s := &strike{ctx: ctx, target: t, rand: r, fault: history.Fault{Nemesis: n.Name, Start: history.Now(), MayBreak: n.mayBreak()}}
	err := n.strike(s)
	s.end()
	f = s.fault
	f.End = history.Now()
	switch {
	case errors.Is(err, errBusy):
		return f, false
	case err != nil:
		f.Error = err.Error()
	}
	if s.unhealed != nil {
		f.End, f.Detail = history.Never, strings.TrimPrefix(f.Detail+"; not healed: "+s.unhealed.Error(), "; ")
	}
	return f, true
}

// strike is one fault while it lasts.
type strike struct {
	ctx      context.Context
	target   *Target
	rand     *rand.Rand
	fault    history.Fault
	heals    []func() error // end the fault; run in reverse order, also after an error
	unhealed error
}

// healTime bounds each of strike.heals: a busy machine takes seconds to start a container, and five may have to be.
const healTime = 40 * time.Second

// heal registers f, which ends the fault. The end of the run does not cancel the context of f.
func (s *strike) heal(f func(ctx context.Context) error) {
	s.heals = append(s.heals, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), healTime)
		defer cancel()
		return f(ctx)
	})
}

// until does f, which asks a server, until it has an answer other than BUSY, or ctx ends: on a busy machine a command is late now and then, and
// nobody else ends the fault.
func until(ctx context.Context, f func() error) error {
	for {
		err := f()
		var answer redis.Error
		if err == nil || errors.As(err, &answer) && !redis.HasErrorPrefix(err, "BUSY") {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// end ends the fault.
func (s *strike) end() {
	for i := len(s.heals) - 1; i >= 0; i-- {
		if e := s.heals[i](); e != nil {
			s.unhealed = errors.Join(s.unhealed, e)
		}
	}
}

// say sets the detail in the record of the fault.
func (s *strike) say(format string, args ...any) { s.fault.Detail = fmt.Sprintf(format, args...) }

// last lets the fault last for d, or until the run ends.
func (s *strike) last(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// between draws a duration from a to b. It is a plus whole milliseconds, to be easy to read.
func (s *strike) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rand.Int64N(int64(b-a)+1)).Truncate(time.Millisecond)
}

// take claims count nodes for the fault. forgetful says that the fault may make masters lose votes and counters: see Target.claim.
func (s *strike) take(count int, forgetful bool) ([]*Node, error) {
	nodes, err := s.target.claim(s.rand, count, forgetful)
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

// each runs f on all nodes at the same time and joins the errors.
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
