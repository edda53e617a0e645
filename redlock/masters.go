// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"

	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/redlock/event"
)

// ofMasters are the settings that say which masters there are.
func (s *settings) ofMasters() *masters.Settings {
	return &masters.Settings{
		Namespace: s.namespace, Clock: s.clock, Drift: s.drift, NodeTimeout: s.nodeTimeout, Node: s.node,
		MaxTTL: s.maxTTL, Fixed: s.fixedMasters, NoRecovery: s.noRecovery, Rand: s.rand64, CheckCount: s.checkCount,
	}
}

// keeps is what the client's keeper works with, and whom it tells.
func (c *Client) keeps() masters.Config {
	rounds := uint64(0) // at the last look
	cfg := masters.Config{
		Nodes: c.masters.Nodes, Need: c.masters.Need, Terms: c.epoch.terms, Clock: c.clock, Rand: c.rand64, Jitter: c.jitter,
		Timeout: c.timeout, Trip: c.trip, Who: c.id, Namespace: string(c.namespace),
		EpochError: func(theirs, ours string, left bool) error { return &EpochError{Theirs: theirs, Ours: ours, Left: left} },
		LookAgain:  c.lines.LookAgain,
		OurClock:   c.invalidateUntil,
		Active: func() bool {
			before := rounds
			rounds = c.tries.Rounds.Load()
			return rounds != before || c.renewer.Held() > 0
		},
		OnMaster: toldAll(c.tells.master), OnClock: toldAll(c.tells.clock), OnEpoch: toldAll(c.tells.epoch),
	}
	if opening := c.tells.opening; len(opening) > 0 {
		cfg.OnOpening = func(ctx context.Context, e event.Opening) { tellOf(ctx, opening, e) }
	}
	if c.logger != nil {
		cfg.OnFar = c.logFar
	}
	return cfg
}

// toldAll is a function that calls all functions, or nil if there is none.
func toldAll[E any](functions []func(E)) func(E) {
	if len(functions) == 0 {
		return nil
	}
	return func(e E) { tell(functions, e) }
}
