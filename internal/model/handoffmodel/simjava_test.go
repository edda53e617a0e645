// SPDX-License-Identifier: Apache-2.0

package handoffmodel

import "time"

// simJava is a RedissonRedLock in a loop: it tries all masters, and waits for a message on Redisson's channel when it
// does not get a quorum.
type simJava struct {
	s               *sim
	got             uint64
	holding, trying bool
	holds           int
}

// try asks every master, and looks at the answers when the last is there.
func (j *simJava) try() {
	s := j.s
	if j.trying || j.holding || s.quiet {
		return
	}
	j.trying, j.got = true, 0
	for n, m := range s.masters {
		s.plan(s.after(s.way(n)), func() {
			m.Java = false
			if m.Stranger(s.now, 30*time.Second) {
				j.got |= 1 << n
			}
		})
	}
	s.plan(s.after(s.trip+s.jitter+time.Microsecond), func() {
		j.trying = false
		n := 0
		for set := j.got; set != 0; set &= set - 1 {
			n++
		}
		if n <= s.masterCount/2 {
			j.release(!s.quiet)
			return
		}
		for _, c := range s.clients {
			if c.holds != nil && c.holdsEnd > s.now {
				s.fail("%s and Redisson hold the lock at once", c.id)
			}
		}
		j.holding = true
		j.holds++
		s.tell("Redisson holds the lock")
		s.plan(s.after(s.hold), func() {
			j.holding = false
			s.lastUnlock = s.now
			j.release(false)
			s.plan(s.after(s.trip+s.rest), j.try)
		})
	})
}

// release gives back what it has, and says so on Redisson's channel. One that waits is subscribed to it.
func (j *simJava) release(waits bool) {
	s := j.s
	for n, m := range s.masters {
		had := j.got&(1<<n) != 0
		s.plan(s.after(s.way(n)), func() {
			m.Java = waits
			if had && m.Stranger(s.now, 0) {
				for _, c := range s.clients {
					s.plan(s.after(s.way(n)), func() { c.released(n) })
				}
			}
		})
	}
}

func (j *simJava) woken() { j.try() }

// released takes a message of Redisson's channel, which a waiter follows while a stranger has the lock.
func (c *simClient) released(n int) {
	if a := c.attempt; a != nil && !c.dead && a.Seen[n].Stranger {
		c.claim(1 << n)
	}
}
