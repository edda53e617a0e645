// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
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
	NoRecovery  bool // the masters have no records
	Rand        func() uint64
	// CheckCount says whether n masters make a quorum worth having.
	CheckCount func(n int) error
	// Terms are the terms of a list of these nodes; nil with NoRecovery.
	Terms func(nodes []node.Node) (*membership.Terms, error)
}

const (
	// ActiveLook is how often a client looks at its masters while it holds leases or
	// waits for locks: clock notes are refreshed then (docs/membership.md, "The clock note").
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

// CloseAll closes all nodes at the same time.
func CloseAll(nodes []node.Node) {
	var g errgroup.Group
	for _, n := range nodes {
		g.Go(n.Close)
	}
	_ = g.Wait()
}
