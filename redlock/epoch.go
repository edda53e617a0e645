// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/node"
)

// epoch is what clients must agree on to exclude each other: the list of masters, the maximum
// TTL and the drift. Two clients with different lists could each have a majority of their own
// list (docs/safety.md A24), so every script compares the epoch.
type epoch struct {
	terms   *membership.Terms // nil with recovery off
	masters string            // sorted names
}

func newEpoch(nodes []node.Node, s *settings) (epoch, error) {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		if n == nil {
			return epoch{}, fmt.Errorf("%w: node %d of %d is nil", ErrConfig, i+1, len(nodes))
		}
		names[i] = n.Name()
	}
	slices.Sort(names)
	for i := range names[1:] {
		if names[i] == names[i+1] {
			return epoch{}, fmt.Errorf("%w: master %s is named twice (two that only are called alike are told apart by ?name= in their URLs)", ErrConfig, names[i])
		}
	}
	e := epoch{masters: strings.Join(names, " ")}
	if s.noRecovery {
		return e, nil
	}
	terms, err := membership.NewTerms(names, s.maxTTL, s.drift.Factor, s.drift.Constant, s.fixedMasters)
	if err != nil {
		return epoch{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if mutants.NoEpoch {
		terms.ID = 1
	}
	e.terms = terms
	return e, nil
}

// EpochError says that a master votes for another list of masters than this client's, or with
// another maximum TTL or drift, or that this client's masters were left for another list. It comes
// with [ErrRefused]: the masters changed, or the list is wrong, and the program cannot know which.
type EpochError struct {
	Theirs, Ours string // the lists, each with its maximum TTL and drift
	Left         bool   // this client's masters were left: a Reconfigure has finished
}

func (e *EpochError) Error() string {
	if e.Left {
		return fmt.Sprintf("these masters were left for another list: %s; this client has %s; start it with the new list", e.Theirs, e.Ours)
	}
	return fmt.Sprintf("belongs to another epoch: it was given %s; this client has %s; give all clients the same list, maximum TTL and drift, or change them with admin.Reconfigure", e.Theirs, e.Ours)
}
