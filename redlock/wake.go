// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/redlock/internal/waiting"
)

// listen has the masters' wakes heard while the contender is in their queues, and
// its client's sign of life kept up. While Redisson has the lock it follows
// Redisson's channel too.
func (ct *contender) listen(replies []protocol.Reply, behind bool) {
	w := ct.w
	w.mu.Lock()
	defer w.mu.Unlock()
	var free, foreign uint64
	for i, r := range replies {
		switch {
		case r.Foreign:
			foreign |= 1 << i
		case r.Outcome == protocol.Granted && ct.place.Ticket != 0:
			free |= 1 << i
		}
	}
	did := ct.wakes.Foreign()
	ct.wakes.Refused(free, foreign, behind)
	ct.followLocked(did)
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
		if w.heartbeats == nil {
			w.heartbeats = time.AfterFunc(waiting.HeartbeatEvery, w.heartbeat)
		} else {
			w.heartbeats.Reset(waiting.HeartbeatEvery)
		}
	}
}

func (ct *contender) stopListeningLocked() {
	did := ct.wakes.Foreign()
	ct.wakes.Follow(0)
	ct.followLocked(did)
	if !ct.listens {
		return
	}
	ct.listens = false
	ct.w.listening--
}

// heartbeat gives the masters a sign of life while anybody waits. The first beat that
// finds nobody ends it, and the subscription: not the last waiter, for a lock that
// is waited for often would subscribe anew each time.
func (w *waiters) heartbeat() {
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
	alive := &protocol.Request{Kind: protocol.Heartbeat, Holder: w.c.id, TTL: waiting.Liveness, Start: now, Deadline: now + waiting.HeartbeatEvery}
	for _, n := range w.c.nodes {
		n.Submit(&protocol.Op{To: ignore{}, Request: alive})
	}
	w.dequeueStraysLocked()
	// Sooner or later by chance: clients that were started together must not beat together.
	w.heartbeats.Reset(waiting.HeartbeatEvery - w.c.jitter(waiting.HeartbeatEvery/2))
}

// followLocked follows Redisson's channel while Redisson has the lock, because Redisson's
// release wakes no queue. did says whether the contender has followed it until now.
func (ct *contender) followLocked(did bool) {
	want := ct.wakes.Foreign()
	if did == want {
		return
	}
	w, ch := ct.w, ct.l.Channel
	if want {
		w.foreignChannels[ch]++
	} else {
		w.foreignChannels[ch]--
	}
	n := w.foreignChannels[ch]
	if n == 0 {
		delete(w.foreignChannels, ch)
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
func (w *waiters) message(i int, channel, payload string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if channel != protocol.Wake(w.c.id) {
		// Also those who do not follow it yet: a round of theirs may be under way
		// that was refused before this release. The channel is heard for another,
		// the other side of a read-write lock, so they would get no look after
		// subscribing.
		for _, ct := range w.contenders {
			if ct.l.Channel == channel {
				ct.wakes.Heard(i)
				ct.wakeLocked(0)
			}
		}
		return
	}
	waits := false
	for _, mode := range [...]protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
		if ct := w.contenders[lockKey{payload, mode}]; ct != nil {
			waits = true
			ct.wakeLocked(1 << i)
		}
	}
	if !waits {
		w.strays[payload] |= 1 << i
	}
}

// dequeueStraysLocked gives up places in queues that nobody stands in: whoever left them
// could not tell those masters, and nobody behind must wait for us. Nearly always it has
// told them by now, for a wake and a dequeue often cross.
func (w *waiters) dequeueStraysLocked() {
	for name, set := range w.strays {
		for _, mode := range [...]protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
			if w.contenders[lockKey{name, mode}] == nil {
				w.dequeueLocked(protocol.NewLock(name, mode), set)
			}
		}
	}
	clear(w.strays)
}

// lookAgain has everybody look again: master i votes again, or a message of it may
// have been missed. That goes for those too who do not listen yet: their round may have
// been refused before the message that was missed.
func (w *waiters) lookAgain(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ct := range w.contenders {
		ct.wakeLocked(1 << i)
	}
}

// handOver has the next in line of this process, unless others are ahead of it, ask for
// the lock right behind its release, which has just been sent: what is sent later is
// executed later, so it need not wait for the masters to wake it.
func (w *waiters) handOver(l *protocol.Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ct := w.contenders[lockKey{l.Name, l.Mode}]; ct != nil && l.Mode != protocol.Read && ct.wakes.HandOver() {
		ct.wakeLocked(0)
	}
}

func (ct *contender) wakeLocked(set uint64) {
	if ct.round != nil {
		ct.round.wake(set)
	}
	ct.wakes.Wake(set)
	select {
	case ct.wake <- struct{}{}:
	default:
	}
}

// wokenUp says whether a round is of use now.
func (ct *contender) wokenUp() bool {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	return ct.wakes.Ready()
}

// due takes out the masters that a round is to ask now, which has asked some already.
func (ct *contender) due(b *quorumCall, asked uint64) uint64 {
	ct.w.mu.Lock()
	defer ct.w.mu.Unlock()
	ct.round = b
	set := ct.wakes.Due(ct.w.c.all, asked)
	b.clearWoken(set)
	return set
}
