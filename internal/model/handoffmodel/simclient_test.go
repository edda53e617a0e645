// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import (
	"fmt"
	"time"
)

// caller is one call of Lock.
type caller struct {
	number int
	came   time.Duration
	ticket int64
}

// simClient is a client as README.md describes it, driven by Attempt.
type simClient struct {
	s     *sim
	id    string
	index int
	lanes []*lane
	dead  bool
	deaf  bool // its subscription is down

	line     []caller // those that wait, first come first served; the first has the place
	attempt  *Attempt // of the first caller; nil while this client holds the lock or nobody waits
	ticket   int64
	number   int // of attempts so far
	retries  int
	pending  map[int]bool // masters that have not answered the attempt's last claim
	timer    int          // counts timers: only the last one counts
	holds    *Attempt     // nil while it does not hold the lock
	holdsEnd time.Duration
	served   caller
	highest  int64 // token seen
}

func newSimClient(s *sim, index int) *simClient {
	c := &simClient{s: s, index: index, id: fmt.Sprintf("%c%02d", 'A'+index%26, index)}
	for n := range s.masterCount {
		c.lanes = append(c.lanes, &lane{s: s, c: c, n: n, state: "0"})
	}
	return c
}

// call has one more caller come at that time.
func (c *simClient) call(at time.Duration) {
	c.s.plan(at, func() {
		if c.dead {
			return
		}
		number := c.s.seen.grants + len(c.line)
		ticket := int64(c.s.now / time.Microsecond)
		if c.index == 0 {
			ticket -= int64(c.s.ticketError / time.Microsecond)
		}
		c.line = append(c.line, caller{number, c.s.now, ticket})
		if c.attempt == nil && c.holds == nil {
			c.enqueue("")
		}
	})
}

// enqueue gives out back, if that is not empty, and has the first caller queue.
func (c *simClient) enqueue(out string) {
	var a *Attempt
	if len(c.line) > 0 {
		c.number++
		a = &Attempt{
			Holder: fmt.Sprintf("%s:%d", c.id, c.number), Quorum: c.s.masterCount/2 + 1, TTL: c.s.ttl, Began: c.s.now,
			Retries: c.retries, Deaf: c.deaf, Luck: c.s.random.Float64(), Seen: make([]Seen, c.s.masterCount),
		}
		c.ticket = c.line[0].ticket
	}
	c.attempt, c.pending = a, nil
	proposal := c.proposal()
	for n, l := range c.lanes {
		swap := &Swap{Out: out, Hand: true, Sign: c.sign(), Proposal: proposal}
		o := op{swap: swap}
		if a != nil {
			sent := c.s.now
			swap.In = c.place(a)
			o.taken = func(r Reply) { c.answered(a, n, r, sent, 0) }
		}
		l.submit(o)
	}
	c.s.tell("%s: gives back %q, queues %v", c.id, out, a != nil)
	c.act()
}

func (c *simClient) proposal() int64 { return max(c.highest+1, int64(c.s.now/time.Microsecond)) }

func (c *simClient) place(a *Attempt) *Place {
	return &Place{Client: c.id, Holder: a.Holder, Ticket: c.ticket, TTL: c.s.ttl}
}

// answered takes a master's answer to an enqueue or a claim.
func (c *simClient) answered(a *Attempt, n int, r Reply, sent time.Duration, token int64) {
	if r.Refused {
		r.Answer = Answer{Standing: Gone}
	}
	a.Take(n, r.Answer, sent, token)
	switch a {
	case c.attempt:
		delete(c.pending, n)
		c.act()
	case c.holds:
		c.extended()
	}
}

// message takes a message of master n. A wake is a message that names no holder.
func (c *simClient) message(n int, h Hand) {
	if c.dead {
		return
	}
	switch {
	case h.Holder == "" && c.attempt != nil:
		c.claim(1 << n)
	case c.attempt != nil && c.attempt.Hear(n, h):
		c.act()
	case c.holds != nil && c.holds.Hear(n, h):
		c.extended()
	}
}

// act does what Attempt.Next says.
func (c *simClient) act() {
	a := c.attempt
	if a == nil || c.dead {
		return
	}
	todo := a.Next(c.s.now)
	if todo.Act == Retry && c.s.drop == H11Yield && a.reachable() {
		todo = Action{Act: ClaimNow, Masters: a.present(), At: PauseMax}
		if now := a.Claimed + a.Pause; c.s.now < now {
			todo = Action{Act: Wait, At: now}
		}
	}
	switch todo.Act {
	case Take:
		c.take(todo.At)
		return
	case Retry:
		c.s.seen.retries++
		c.retries++
		a.Over = true
		c.enqueue(a.Holder)
		return
	case ClaimNow:
		c.claim(todo.Masters)
		a.Sent(c.s.now, todo)
		todo.At = a.Next(c.s.now).At
	}
	c.timer++
	timer := c.timer
	c.s.plan(todo.At, func() {
		if timer == c.timer {
			c.act()
		}
	})
}

// claim sends a claim to the masters of set that have answered the last one.
func (c *simClient) claim(set uint64) {
	a, sent := c.attempt, c.s.now
	proposal := a.Propose(sent, c.proposal())
	for n, l := range c.lanes {
		if set&(1<<n) == 0 || c.pending[n] {
			continue
		}
		c.s.seen.claims++
		if c.pending == nil {
			c.pending = map[int]bool{}
		}
		c.pending[n] = true
		token := a.Token
		l.submit(op{claim: &ClaimOp{Place: *c.place(a), Token: token, Proposal: proposal},
			taken: func(r Reply) { c.answered(a, n, r, sent, token) }})
	}
	c.s.tell("%s: claims on %b, token %d", c.id, set, a.Token)
}

// take begins to hold the lock.
func (c *simClient) take(until time.Duration) {
	s, a := c.s, c.attempt
	for _, other := range s.clients {
		if other.holds != nil && other.holdsEnd > s.now && !other.dead {
			s.fail("%s and %s hold the lock at once", other.id, c.id)
		}
	}
	if len(s.seen.waits) > 0 && a.Token <= s.lastToken {
		s.fail("token %d is granted after token %d", a.Token, s.lastToken)
	}
	s.lastToken = a.Token
	c.highest = max(c.highest, a.Token)
	s.seen.grants++
	if a.Asked == a.Token {
		s.seen.second++
	}
	c.served, c.line = c.line[0], c.line[1:]
	s.granted(c, until)
	c.attempt, c.holds, c.holdsEnd, c.retries, c.pending = nil, a, until, 0, nil
	c.timer++
	c.extendAt(ExtendAt(s.now, until))
	s.plan(s.after(s.hold), func() { c.unlock(a) })
}

// unlock gives the lock back and has the next caller queue in the same op.
func (c *simClient) unlock(a *Attempt) {
	if c.dead || c.holds != a {
		return
	}
	c.holds = nil
	a.Over = true
	c.s.lastUnlock = c.s.now
	if !c.s.quiet {
		c.call(c.s.after(c.s.trip + c.s.rest)) // when a quorum has confirmed the release
	}
	c.enqueue(a.Holder)
}

// extendAt has the holder extend its votes then, if it still holds the lock.
func (c *simClient) extendAt(at time.Duration) {
	a := c.holds
	c.s.plan(at, func() {
		if c.dead || c.holds != a {
			return
		}
		if c.s.now >= c.holdsEnd {
			c.s.tell("%s: lost the lock", c.id)
			c.unlock(a)
			return
		}
		sent := c.s.now
		for n, l := range c.lanes {
			if a.Seen[n].Standing == Voted {
				l.submit(op{claim: &ClaimOp{Place: *c.place(a), Token: a.Token},
					taken: func(r Reply) { c.answered(a, n, r, sent, a.Token) }})
			}
		}
		c.extendAt(max(ExtendAt(c.s.now, c.holdsEnd), c.s.after(10*time.Millisecond)))
	})
}

// extended takes the validity that the votes have now.
func (c *simClient) extended() {
	if _, until := c.holds.counted(c.s.now); c.s.now < c.holdsEnd {
		c.holdsEnd = max(c.holdsEnd, HoldsUntil(until, c.holds.Quorum))
	}
}

// beat gives the masters a sign of life, each 0.5 to 1 s, while anybody waits.
func (c *simClient) beat() {
	if c.dead {
		return
	}
	if len(c.line) > 0 {
		for _, l := range c.lanes {
			l.submit(op{beat: c.sign()})
		}
	}
	c.s.plan(c.s.after(beat/2+time.Duration(c.s.random.Int64N(int64(beat/2)))), c.beat)
}

func (c *simClient) sign() Sign {
	return Sign{c.s.now, c.deaf || c.attempt != nil && c.attempt.Insists(c.s.now)}
}

// noticed has the client notice that its subscription is down or up. Either way it looks.
func (c *simClient) noticed(deaf bool) {
	if c.dead {
		return
	}
	c.deaf = deaf
	for _, l := range c.lanes {
		l.submit(op{beat: c.sign()})
	}
	if c.attempt != nil {
		c.attempt.Deaf = deaf
		c.claim(c.attempt.present())
		c.act()
	}
}
