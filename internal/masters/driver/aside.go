// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"

	"github.com/redlock-go/redlock/internal/membership"
)

// aside is what this process knows of the servers to which a master's name has led. A name may lead to another server and back: its address moves,
// or a Sentinel takes back what it said. Who comes back has kept the record by which it votes, and knows nothing of the votes that were given in its
// place. It has to wait like one that lost its record (docs/safety.md A11).
//
// A process that did not see the other one vote knows nothing of it. So this is no part of the promise.
type aside struct {
	voting string   // who was last seen to vote
	gone   []string // who voted before that, the last goneMax of them
}

const goneMax = 16

// stoodAside says whether the server is one in whose place another has voted, and that has not waited since. rs is its record state.
func (a *aside) stoodAside(server string, rs *membership.RecordState) bool {
	own := rs.Incarnation == server
	i := slices.Index(a.gone, server)
	switch votes := own && rs.Phase == membership.Voting; {
	case i >= 0 && own && rs.Phase == membership.Quarantined:
		a.gone = slices.Delete(a.gone, i, i+1)
	case i >= 0 && votes:
		return true
	case votes && a.voting != server:
		if a.voting != "" {
			a.gone = append(a.gone[max(0, len(a.gone)-goneMax+1):], a.voting)
		}
		a.voting = server
	}
	return false
}
