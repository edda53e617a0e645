// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/membership"
)

// aside is what this process knows of the servers to which a master's name has led. A name may lead to another server and back: its address moves,
// or a Sentinel takes back what it said. Who comes back has kept its record, and knows nothing of the votes that were given in its place. It has to
// wait like one that lost its record (docs/safety.md A11).
//
// A process that did not see the other one vote knows nothing of it. So this is no part of the promise.
type aside struct{ servers []server }

// server is one that had a record of this list when it was last seen.
type server struct {
	incarnation string
	state       membership.RecordState // then
	voted       time.Duration          // when it was last seen to vote; 0: it was not
	gone        bool                   // another has voted in its place since, and it has not been claimed anew
	back        time.Duration          // since when it is back without a break; 0: it is not
}

// serversMax is how many servers of one name are known, the last ones.
const serversMax = 16

// stoodAside takes in that the name leads to a server with a record of its own, and says whether it is to wait. If nobody could claim it
// for as long as that takes, the votes of the other one are over.
func (a *aside) stoodAside(incarnation string, state *membership.RecordState, now, wait time.Duration) bool {
	now = max(now, 1)
	votes := state.Phase == membership.Voting
	s := a.of(incarnation, votes, now, wait)
	switch {
	case s.back == 0:
		a.left()
		s.back = now
	case state.Phase == membership.Quarantined && *state != s.state, now-s.back >= wait: // it was claimed, or had no need to be
		s.gone = false
	}
	s.state = *state
	if votes {
		s.voted = now
		for k := range a.servers {
			a.servers[k].gone = a.servers[k].gone || a.servers[k].incarnation != incarnation
		}
	}
	return s.gone && state.Phase != membership.Retired // that votes no more, and may know of a plan
}

// of is what is known of the server. One that was not known, and votes although another one has within the wait, has not waited.
func (a *aside) of(incarnation string, votes bool, now, wait time.Duration) *server {
	i := slices.IndexFunc(a.servers, func(s server) bool { return s.incarnation == incarnation })
	if i < 0 {
		early := votes && slices.ContainsFunc(a.servers, func(s server) bool { return s.voted != 0 && now-s.voted < wait })
		a.servers = append(a.servers[max(0, len(a.servers)-serversMax+1):], server{incarnation: incarnation, gone: early})
		i = len(a.servers) - 1
	}
	return &a.servers[i]
}

// left takes in that the name leads to none of them, as far as this process sees.
func (a *aside) left() {
	for i := range a.servers {
		a.servers[i].back = 0
	}
}
