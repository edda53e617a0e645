// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// rest keeps the lock from everybody in the epoch in which it was put.
type rest struct {
	epoch, holder string
	until         time.Duration // 0: there is none
}

// epochOf is the epoch of a voting state: the state without the incarnation and what follows.
func epochOf(state string) string {
	words := strings.SplitN(state, "|", 3)
	if len(words) < 2 {
		return ""
	}
	return words[0] + "|" + words[1]
}

// Rest says how long the lock rests in the epoch of that state, and after which holder; 0: it does not.
func (m *Master) Rest(state string) (left time.Duration, holder string) {
	if m.rest.until == 0 || m.rest.epoch != epochOf(state) {
		return 0, ""
	}
	return m.rest.until - m.now, m.rest.holder
}

// EndRest removes the rest, as its expiry does.
func (m *Master) EndRest() { m.rest = rest{} }

// lift ends the rest if that holder put it, and says whether it did.
func (m *Master) lift(holder string) bool {
	if holder == "" || m.rest.until == 0 || m.rest.holder != holder {
		return false
	}
	m.EndRest()
	return true
}

// adopt gives the vote of one holder to another, as adopt.lua does. The lock is plain.
func (m *Master) adopt(state string, op *protocol.Request) protocol.Reply {
	switch {
	case state != m.State:
		return m.refusal()
	case op.Voted != state && !op.Passed:
		return protocol.Reply{Outcome: protocol.Absent}
	}
	if m.Has(op.Holder) > 0 { // a replay
		m.until = max(m.until, m.now+op.TTL)
		return protocol.Reply{Outcome: protocol.Granted, Token: m.Counter}
	}
	if m.Has(op.From) == 0 || op.Passed && m.Listens {
		return protocol.Reply{Outcome: protocol.Absent}
	}
	m.raise(op.Token)
	for i, f := range m.fields {
		if f == op.From {
			m.fields[i] = op.Holder
		}
	}
	m.until = m.now + op.TTL
	return protocol.Reply{Outcome: protocol.Granted, Token: m.Counter}
}
