// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// listen has the masters' wakes heard while the contender is in their queues, and
// its client's sign of life kept up. While a stranger has the lock it follows
// Redisson's channel too.
func (ct *contender) listen(replies []protocol.Reply, behind bool) {
	w := ct.w
	w.mu.Lock()
	defer w.mu.Unlock()
	var strangers uint64
	ct.free = 0
	for i, r := range replies {
		switch {
		case r.Foreign:
			strangers |= 1 << i
		case r.Outcome == protocol.Granted && ct.ticket != 0:
			ct.free |= 1 << i
		}
	}
	if ct.behind = behind; behind {
		ct.over = false // what was given back here is for others
	}
	ct.followLocked(strangers)
	if ct.listens {
		return
	}
	ct.listens = true
	ct.wake = make(chan struct{}, 1)
	ct.wake <- struct{}{} // for what came before it was there
	w.listening++
	if !w.subscribed {
		w.subscribed = true
		for _, n := range w.c.nodes {
			n.Subscribe(protocol.Wake(w.c.id))
		}
		if w.beating == nil {
			w.beating = time.AfterFunc(beat, w.beat)
		} else {
			w.beating.Reset(beat)
		}
	}
}

func (ct *contender) deafenLocked() {
	ct.followLocked(0)
	if !ct.listens {
		return
	}
	ct.listens = false
	ct.w.listening--
}

// beat gives the masters a sign of life while anybody waits. The first beat that
// finds nobody ends it, and the subscription: not the last waiter, for a lock that
// is waited for often would subscribe anew each time.
func (w *waiting) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return
	case w.listening == 0:
		w.subscribed = false
		clear(w.strays) // without a sign of life we shall be out of all queues soon
		for _, n := range w.c.nodes {
			n.Unsubscribe(protocol.Wake(w.c.id))
		}
		return
	}
	now := w.c.clock.Elapsed()
	alive := &protocol.Request{Kind: protocol.Heartbeat, Holder: w.c.id, TTL: liveness, Start: now, Deadline: now + beat}
	for _, n := range w.c.nodes {
		n.Submit(&protocol.Op{To: ignore{}, Request: alive})
	}
	w.leaveStraysLocked()
	// Sooner or later by chance: clients that were started together must not beat together.
	w.beating.Reset(beat - w.c.jitter(beat/2))
}

// followLocked follows Redisson's channel while a stranger has the lock: Java's
// release wakes nobody's queue.
func (ct *contender) followLocked(strangers uint64) {
	did, want := ct.strangers != 0, strangers != 0
	ct.strangers = strangers
	if did == want {
		return
	}
	w, ch := ct.w, ct.l.Channel
	if want {
		w.strangers[ch]++
	} else {
		w.strangers[ch]--
	}
	n := w.strangers[ch]
	if n == 0 {
		delete(w.strangers, ch)
	}
	for _, m := range w.c.nodes {
		if want && n == 1 {
			m.Subscribe(ch)
		} else if !want && n == 0 {
			m.Unsubscribe(ch)
		}
	}
}

// message takes a wake from master i.
func (w *waiting) message(i int, channel, payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if channel != protocol.Wake(w.c.id) {
		// Also those who do not follow it yet: a round of theirs may be under way
		// that was refused before this release. The channel is heard for another,
		// the other side of a read-write lock, so they would get no look after
		// subscribing.
		for _, ct := range w.contenders {
			if ct.l.Channel == channel {
				ct.heard |= 1 << i
				ct.wakeLocked(0)
			}
		}
		return
	}
	waits := false
	for _, mode := range [...]protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
		if ct := w.contenders[side{payload, mode}]; ct != nil {
			waits = true
			ct.wakeLocked(1 << i)
		}
	}
	if !waits {
		w.strays[payload] |= 1 << i
	}
}

// leaveStraysLocked gives up places in queues that nobody stands in: whoever left them
// could not tell those masters, and nobody behind must wait for us. Nearly always it has
// told them by now, for a wake and a leave often cross.
func (w *waiting) leaveStraysLocked() {
	for name, set := range w.strays {
		for _, mode := range [...]protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
			if w.contenders[side{name, mode}] == nil {
				w.leaveLocked(protocol.NewLock(name, mode), set)
			}
		}
	}
	clear(w.strays)
}

// lookAgain has everybody look again: master i votes again, or a message of it may
// have been missed. That goes for those too who do not listen yet: their round may have
// been refused before the message that was missed.
func (w *waiting) lookAgain(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ct := range w.contenders {
		ct.wakeLocked(1 << i)
	}
}

// handOver has the next in line of this process, unless others are ahead of it, ask for
// the lock right behind its release, which has just been sent: what is sent later is
// executed later, so it need not wait for the masters to wake it.
func (w *waiting) handOver(l *protocol.Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ct := w.contenders[side{l.Name, l.Mode}]; ct != nil && !ct.behind && l.Mode != protocol.Read {
		ct.over = true
		ct.wakeLocked(0)
	}
}

func (ct *contender) wakeLocked(set uint64) {
	if ct.round != nil {
		ct.round.wake(set)
	}
	ct.woken |= set
	select {
	case ct.wake <- struct{}{}:
	default:
	}
}

// wokenUp says whether a round is of use now.
func (ct *contender) wokenUp() bool {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.over || ct.freeLocked() != 0
}

// due takes out the masters that a round is to ask now, which has asked some already.
func (ct *contender) due(b *ballot, asked uint64) uint64 {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.round = b
	set := ct.freeLocked()
	if ct.over {
		set, ct.over = ct.w.c.all, false
	}
	set &^= asked
	ct.woken &^= set
	ct.heard &^= set
	b.asleep(set)
	return set
}

// freeLocked are the masters that may grant us the lock now: those that have woken us
// and, once any has, those that would have before. On Redisson's channel only those count
// where the stranger is: a Java holder may lack a vote, which we get and give back, and
// would be woken by what our own release says.
func (ct *contender) freeLocked() uint64 {
	set := ct.woken | ct.heard&ct.strangers
	if set != 0 {
		set |= ct.free
	}
	return set
}
