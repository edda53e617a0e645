// SPDX-License-Identifier: Apache-2.0

package votesmodel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// before is the order of a queue.
func (p *place) before(q *place) bool {
	return cmp.Or(cmp.Compare(p.ticket, q.ticket), strings.Compare(p.member, q.member)) < 0
}

func (p *place) client() string { return p.field[:36] }

// placeOf is the place of an acquire. It may be handed the lock if it is exclusive, and its votes last no shorter than
// a handed one.
func (m *Master) placeOf(op *protocol.Request) place {
	p := place{ticket: op.Wait.Ticket, field: op.Lock.Field(op.Holder), reads: op.Lock.Mode == protocol.Read}
	p.member = p.field + "/" + op.Lock.ModeText
	if !p.reads && op.TTL >= op.Wait.Liveness {
		p.state = m.State
		p.member += "/" + p.state
	}
	return p
}

func (m *Master) enqueue(op *protocol.Request, p place) {
	m.signal(p.client(), op.Start, op.Wait.Liveness)
	m.drop(p.member)
	i := slices.IndexFunc(m.queue, func(q place) bool { return p.before(&q) })
	if i < 0 {
		i = len(m.queue)
	}
	m.queue = slices.Insert(m.queue, i, p)
	m.queueEnd = m.now + queueLives
}

// signal writes the sign of life of a client.
func (m *Master) signal(client string, stamp, lives time.Duration) {
	text := fmt.Sprint(int64(stamp))
	if m.deaf {
		text += protocol.Deaf
	}
	m.signs[client] = sign{text, m.now + lives}
}

func (m *Master) drop(member string) (had bool) {
	n := len(m.queue)
	m.queue = slices.DeleteFunc(m.queue, func(p place) bool { return p.member == member })
	return len(m.queue) < n
}

// head takes places at the head out of the queue that nobody waits for: of clients without a sign of life, of clients that do not
// listen (H19) and, if the call knows that the record has the state that it names, of another state (H10). It returns the first that
// is left. own is the caller's place, which need neither listen nor have a sign of life.
func (m *Master) head(fits bool, own string) *place {
	for len(m.queue) > 0 {
		if first := m.queue[0]; first.member == own || m.lives(&first, fits) && m.listens(&first) {
			return &first
		}
		m.queue = m.queue[1:]
	}
	return nil
}

func (m *Master) lives(p *place, fits bool) bool {
	_, there := m.signs[p.client()]
	return there && (!fits || p.state == "" || p.state == m.State)
}

// listens says whether the place is waited for: its client hears messages, or has said that it is to be waited for.
func (m *Master) listens(p *place) bool {
	s, lives := m.signs[p.client()]
	return lives && (m.Hears[p.client()] || strings.HasSuffix(s.text, protocol.Deaf))
}

// wake names the place, so that a client that has given it up can take it out of the queue.
func (m *Master) wake(p *place) { m.say(protocol.Wake(p.client()), m.lock+"\x00"+p.member) }

func (m *Master) say(channel, text string) { m.said = append(m.said, Message{channel, text}) }

// dequeue removes the place of one that was granted the lock. A reader that had its turn wakes the reader behind it.
func (m *Master) dequeue(op *protocol.Request) {
	had := m.drop(m.placeOf(op).member)
	if op.Lock.Mode != protocol.Read || !had && !asked(op.Wait) {
		return
	}
	if behind := m.head(true, ""); behind != nil && behind.reads {
		m.wake(behind)
	}
}

// release removes vote and place. If it is to hand, and set the lock free, the head of the queue gets the vote.
func (m *Master) release(state string, op *protocol.Request) protocol.Reply {
	field, mode := op.Lock.Field(op.Holder), op.Lock.Mode
	gone := slices.Contains(m.fields, field)
	m.fields = slices.DeleteFunc(m.fields, func(f string) bool { return f == field })
	r := protocol.Reply{Outcome: protocol.Absent}
	if gone {
		r.Outcome = protocol.Granted
	}
	lifted := m.lift(op.Lift)
	hands := op.Hand != 0 && !op.Leaves && gone
	free, wakes, heard := false, gone || lifted, false
	if gone {
		switch mode {
		case protocol.Plain:
			free = true
		case protocol.Write:
			free = len(m.fields) == 0
			m.afterWriter()
			m.redisson(op.Lock, "1")
		case protocol.Read:
			free, wakes = m.afterReader(field)
		}
		if free {
			m.Empty()
		}
		if free || mode == protocol.Write {
			heard = m.redisson(op.Lock, "0")
		}
	}
	if !gone && m.leave(state, op) { // who has a vote has no place
		wakes = !m.held() || m.mode == "read"
	}
	if !wakes || op.Leaves || len(m.queue) == 0 {
		return r
	}
	m.knows = m.knows || hands
	fits := m.knows && state == m.State
	first := m.head(fits, "")
	switch {
	case first == nil:
	case hands && fits && free && mode != protocol.Read && !heard && m.rest.until == 0 && first.state != "":
		m.hand(op, first)
	default:
		m.wake(first)
	}
	return r
}

// redisson publishes on Redisson's channel, and says whether somebody hears it.
func (m *Master) redisson(l *protocol.Lock, text string) bool {
	if m.Listens {
		m.say(l.Channel, text)
	}
	return m.Listens
}

// leave removes the holder's place, as an op with that record state names it, and says whether it was the first.
func (m *Master) leave(state string, op *protocol.Request) bool {
	member := op.Lock.Field(op.Holder) + "/" + op.Lock.ModeText
	first := ""
	if len(m.queue) > 0 {
		first = m.queue[0].member
	}
	m.drop(member)
	m.drop(member + "/" + state)
	return first == member || first == member+"/"+state
}

// tolerated is by how much the hash may outlive the readers that remain.
const tolerated = time.Second

// afterReader ends the hash when the last of the readers ends that remain, unless it outlives them by less than tolerated. Without
// one the lock is free. The head of the queue sleeps for the TTL that it last got, and is woken if the lock ends sooner now.
func (m *Master) afterReader(reader string) (free, wakes bool) {
	mine, timed := m.timeouts[reader]
	delete(m.timeouts, reader)
	switch {
	case m.mode == "write":
		return false, false
	case len(m.fields) == 0:
		return true, true
	}
	if !timed {
		mine = m.now - 2*time.Millisecond // what PTTL says of no key
	}
	longest := time.Duration(0)
	m.fields = slices.DeleteFunc(m.fields, func(reader string) bool { // so few that the script looks at all
		until, lives := m.timeouts[reader]
		longest = max(longest, until)
		return !lives
	})
	switch {
	case longest == 0:
		return true, true
	case mine <= m.until-tolerated:
		return false, false
	case longest <= m.until-tolerated:
		m.until = longest
		return false, true
	}
	return false, false
}

// afterWriter leaves the lock to the writer's own readers, if it has any, for as long as they live.
func (m *Master) afterWriter() {
	longest := time.Duration(0)
	for _, reader := range m.fields {
		longest = max(longest, m.timeouts[reader])
	}
	if longest == 0 {
		m.Empty()
		return
	}
	m.mode, m.until = "read", longest
}

// hand gives the vote to a place, for a short TTL (H12), and tells its client its sign of life.
func (m *Master) hand(op *protocol.Request, to *place) {
	vote := m.raise(op.Token)
	m.grant(to.field, op.Lock.Mode, op.Hand)
	m.drop(to.member)
	stamp := m.signs[to.client()].text
	m.say(protocol.Wake(to.client()), fmt.Sprintf("%s\x00%s\x00%d\x00%s\x00%d\x00%s", m.lock, to.field, vote, stamp, op.Hand.Milliseconds(), m.State))
}
