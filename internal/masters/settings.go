// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// Settings are those options of a client that say which masters it locks on, and how it asks them.
type Settings struct {
	Namespace   protocol.Namespace
	Clock       clock.Clock
	Drift       clock.Drift
	NodeTimeout time.Duration
	Node        node.Config
	MaxTTL      time.Duration
	Fixed       bool // the list is never changed
	NoRecovery  bool // the masters have no records
	Rand        func() uint64
	// CheckCount says whether n masters make a quorum worth having.
	CheckCount func(n int) error
}

// Terms are what clients must agree on to exclude each other: the sorted names of the masters, the maximum
// TTL and the drift. Two clients with different lists could each have a majority of their own
// list (docs/safety.md A24), so every script compares the epoch. With NoRecovery there are names alone.
func (s *Settings) Terms(nodes []node.Node) (names []string, terms *membership.Terms, err error) {
	names = make([]string, len(nodes))
	for i, n := range nodes {
		if n == nil {
			return nil, nil, fmt.Errorf("%w: node %d of %d is nil", errs.ErrConfig, i+1, len(nodes))
		}
		names[i] = n.Name()
	}
	slices.Sort(names)
	for i := range names[1:] {
		if names[i] == names[i+1] {
			return nil, nil, fmt.Errorf("%w: master %s is named twice (two that only are called alike are told apart by ?name= in their URLs, or Name in their node.Config)", errs.ErrConfig, names[i])
		}
	}
	if s.NoRecovery {
		return names, nil, nil
	}
	terms, err = membership.NewTerms(names, s.MaxTTL, s.Drift.Factor, s.Drift.Constant, s.Fixed)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errs.ErrConfig, err)
	}
	if mutants.NoEpoch {
		terms.ID = 1
	}
	return names, terms, nil
}

const (
	// ActiveLook is how often a client looks at its masters while it holds leases or
	// waits for locks: clock notes are refreshed then (docs/internals/membership.md, "The clock note").
	ActiveLook = time.Second
	// Again is the pause after a step that did something, or that another one follows.
	Again = time.Millisecond
	// LookAgain is the pause before the next look at masters after a clock jumped.
	LookAgain = 50 * time.Millisecond
)

// Unusable says whether err, why there is no connection to a master, stays until somebody changes the master: its rights, its
// policy or its role.
func Unusable(err error) bool {
	return errors.Is(err, node.ErrDenied) || errors.Is(err, node.ErrReplica) || errors.Is(err, node.ErrEviction) || errors.Is(err, node.ErrHidden)
}

// Spent is err, why a node cannot serve this client or operation, as an ErrConfig with the remedy.
func Spent(err error) error {
	return fmt.Errorf("%w: %w; a node serves one client or one operation: make a new one with node.Open or node.New", errs.ErrConfig, err)
}

// CloseAll closes all nodes at the same time.
func CloseAll(nodes []node.Node) {
	var g errgroup.Group
	for _, n := range nodes {
		g.Go(n.Close)
	}
	_ = g.Wait()
}
