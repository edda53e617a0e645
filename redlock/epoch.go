// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"strings"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/node"
)

// epoch is what clients must agree on to exclude each other: see [masters.Settings.Terms].
type epoch struct {
	terms   *membership.Terms // nil with recovery off
	masters string            // sorted names
}

func newEpoch(nodes []node.Node, s *settings) (epoch, error) {
	names, terms, err := s.ofMasters().Terms(nodes)
	return epoch{terms: terms, masters: strings.Join(names, " ")}, err
}

// EpochError says that a master votes for another list of masters than this client's, or with
// another maximum TTL or drift, or that this client's masters were left for another list. It comes
// with [ErrRefused]: the masters changed, or the list is wrong, and the program cannot know which.
type EpochError struct {
	Theirs, Ours string // the lists, each with its maximum TTL and drift
	Left         bool   // this client's masters were left: a Reconfigure has finished
}

func (e *EpochError) Error() string { return membership.Names(e.text()) }

func (e *EpochError) text() string {
	if e.Left {
		return fmt.Sprintf("these masters were left for another list: %s; this client has %s; start it with the new list", e.Theirs, e.Ours)
	}
	return fmt.Sprintf("belongs to another epoch: it was given %s; this client has %s; give all clients the same list, maximum TTL and drift, or change them with admin.Reconfigure", e.Theirs, e.Ours)
}
