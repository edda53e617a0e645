// SPDX-License-Identifier: Apache-2.0

package historytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock/chaos/history"
)

// lock is the truth about one lock, and the two registers it guards.
type lock struct {
	name  string
	rw    bool
	holds map[string]hold
	queue []*waiter
	token int64

	fence         int64
	fenced, plain int64
}

type hold struct {
	mode    history.Mode
	expires int64
}

type waiter struct {
	client  *client
	mode    history.Mode
	holder  string
	token   int64 // not 0: granted
	granted int64
}

func (l *lock) mode(rng *rand.Rand) history.Mode {
	switch {
	case !l.rw:
		return history.Exclusive
	case rng.IntN(4) == 0:
		return history.Writing
	}
	return history.Shared
}

func (l *lock) free(m history.Mode) bool {
	for _, h := range l.holds {
		if m != history.Shared || h.mode != history.Shared {
			return false
		}
	}
	return true
}

// admit drops what has expired and grants to the head of the queue, for as long as that is allowed.
func (l *lock) admit(s *sim) {
	for holder, h := range l.holds {
		if h.expires <= s.now {
			delete(l.holds, holder)
		}
	}
	for len(l.queue) > 0 && l.free(l.queue[0].mode) {
		w := l.queue[0]
		l.queue = l.queue[1:]
		l.token += 1 + s.rng.Int64N(3)
		w.token, w.granted = l.token, s.now
		expires := s.now + int64(s.TTL)
		l.holds[w.holder] = hold{w.mode, expires}
		s.at(expires, func() { l.admit(s) })
		w.client.wakeAt(s.now)
	}
}

func (l *lock) leave(w *waiter) {
	if i := slices.Index(l.queue, w); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
}

// outage is a master that gives no votes: it does not answer until up, and refuses until ready.
type outage struct {
	node            int
	from, up, ready int64
}

// outage counts the masters that give no votes.
func (s *sim) outage(t int64) int {
	n := 0
	for i := range masters {
		if s.vote(i, t) != history.OK {
			n++
		}
	}
	return n
}

func (s *sim) vote(node int, t int64) history.Outcome {
	for _, o := range s.down {
		switch {
		case o.node != node || t < o.from || t >= o.ready:
		case t < o.up:
			return history.Unknown
		default:
			return history.Failed
		}
	}
	return history.OK
}

// planFaults fills the run with faults of four classes, one after the other.
func (s *sim) planFaults() {
	for t := start + int64(2*time.Second); t < s.end-int64(5*time.Second); {
		end := t + int64(time.Second) + s.about(time.Second)
		f := history.Fault{Start: t, End: end}
		var lost, waits = 1, true // masters stopped, and whether they must wait before they vote again
		switch s.rng.IntN(5) {
		case 0:
			f.Nemesis, f.Detail = "kill-minority", "kill -9 and restart"
			lost = 1 + s.rng.IntN(2)
		case 1:
			f.Nemesis, f.Detail = "kill-majority", "kill -9 and restart"
			lost = 3
		case 2:
			f.Nemesis, f.Detail, waits = "freeze-masters", "SIGSTOP, then SIGCONT", false
		case 3:
			f.Nemesis, f.Detail, waits = "partition", "no packets either way", false
			lost = 1 + s.rng.IntN(2)
		case 4:
			f.Nemesis, f.Detail, lost = "freeze-client", "clients sleep through their leases", 0
			f.Targets = []string{"clients"}
		}
		ready := end
		if waits && lost > 0 {
			ready += int64(s.TTL) * 11 / 10
		}
		for _, node := range s.rng.Perm(masters)[:lost] {
			f.Targets = append(f.Targets, nodeName(node))
			s.down = append(s.down, outage{node, t, end, ready})
		}
		if lost > masters/2 {
			s.end += ready - t
		}
		s.h.Faults = append(s.h.Faults, f)
		s.healed = max(s.healed, ready)
		t = ready + s.about(2*time.Second)
	}
}

func nodeName(i int) string { return fmt.Sprintf("master-%d", i+1) }

// monitor asks every master for its vote and its counter, ten times a second, and looks for keys.
func (c *client) monitor() {
	last := [masters]history.Outcome{}
	for c.now < c.end {
		var top int64
		for _, l := range c.locks {
			top = max(top, l.token)
		}
		for i := range masters {
			out := c.vote(i, c.now)
			if last[i] == history.Unknown && out == history.Failed {
				c.kills[i]++ // it came back without its data
			}
			last[i] = out
			c.h.Votes = append(c.h.Votes, history.Vote{Node: nodeName(i), Call: c.now, Return: c.now + c.trip(), Outcome: out})
			if out != history.OK {
				continue
			}
			c.h.Counters = append(c.h.Counters, history.Counter{
				Node: nodeName(i), Incarnation: fmt.Sprintf("run-%d", c.kills[i]), Slot: 1, Call: c.now, Return: c.now + c.trip(), Value: top,
			})
		}
		c.sleep(int64(100 * time.Millisecond))
	}
	for _, l := range c.locks {
		var expires int64 // of the one key that holds all readers
		for _, h := range l.holds {
			expires = max(expires, h.expires)
		}
		if expires > c.now {
			c.h.Keys = append(c.h.Keys, history.Key{Node: nodeName(0), Lock: l.name, At: c.now, TTL: time.Duration(expires - c.now)})
		}
	}
}
