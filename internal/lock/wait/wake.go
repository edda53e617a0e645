// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/waiting"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
)

// listenLocked has the client hear the masters' wakes, and send heartbeats, while the contender is in
// the masters' queues.
func (ct *contender) listenLocked() {
	if ct.wake != nil {
		return
	}
	w := ct.w
	ct.wake = make(chan struct{}, 1)
	ct.wake <- struct{}{} // for wakes that came before the channel was there
	w.listening++
	if !w.subscribed {
		w.subscribed = true
		for _, n := range w.Masters.Nodes {
			n.Subscribe(w.Namespace.Wake(w.Client))
		}
		if w.heartbeats == nil {
			w.heartbeats = time.AfterFunc(waiting.HeartbeatEvery, w.heartbeat)
		} else {
			w.heartbeats.Reset(waiting.HeartbeatEvery)
		}
	}
}

// stopListeningLocked ends listenLocked. The contender is over.
func (ct *contender) stopListeningLocked() {
	ct.followLocked(ct.machine.Foreign(), false)
	if ct.wake != nil {
		ct.w.listening--
	}
}

// heartbeat tells the masters that the client is alive while any caller waits. The first
// heartbeat that finds no caller ends the heartbeats and the subscription. The last caller does
// not end them, because a lock that is waited for often would subscribe anew each time.
func (w *Lines) heartbeat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return
	case w.listening == 0:
		w.subscribed = false
		for _, n := range w.Masters.Nodes {
			n.Unsubscribe(w.Namespace.Wake(w.Client))
		}
		return
	}
	now := w.Masters.Clock.Elapsed()
	alive := &protocol.Request{Kind: protocol.Heartbeat, Holder: w.Client, TTL: waiting.Liveness, Start: now, Deadline: now + waiting.HeartbeatEvery}
	for _, n := range w.Masters.Nodes {
		n.Submit(&protocol.Op{To: quorum.Ignore{}, Request: alive})
	}
	// Random, so that clients that were started together do not send together.
	w.heartbeats.Reset(waiting.HeartbeatEvery - w.Jitter(waiting.HeartbeatEvery/2))
}

// followLocked follows Redisson's channel while Redisson has the lock, because Redisson's
// release wakes no queue. did says whether the contender has followed it until now, and want whether it is to.
func (ct *contender) followLocked(did, want bool) {
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
	for _, m := range w.Masters.Nodes {
		if want && n == 1 {
			m.Subscribe(ch)
		} else if !want && n == 0 {
			m.Unsubscribe(ch)
		}
	}
}

// Message takes a message from master i.
func (w *Lines) Message(i int, channel, payload string) {
	lock, votes := w.receive(i, channel, payload)
	for ; votes > 0 && w.Handed != nil; votes-- {
		w.Handed(i, lock)
	}
}

// receive is Message without the telling: for which lock it gave how many votes.
func (w *Lines) receive(i int, channel, payload string) (lock string, votes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if channel != w.Namespace.Wake(w.Client) {
		// A contender that does not follow the channel yet hears it too: its round may be
		// under way, and refused before this release. The channel is followed for the
		// other mode of a read-write lock, so no subscription of its own will wake it.
		for _, ct := range w.inOrderLocked(func(ct *contender) bool { return ct.l.Channel == channel }) {
			ct.nextLocked(waiting.Event{Kind: waiting.Heard, Set: 1 << i})
		}
		return "", 0
	}
	if h, ok := protocol.ParseHand(payload); ok {
		return w.handedLocked(i, h)
	}
	key, place := protocol.ParseWake(payload)
	name, ok := w.Namespace.NameOf(key)
	if !ok {
		return "", 0
	}
	field, of := protocol.ParsePlace(place)
	known := place == ""
	for _, mode := range [...]protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
		ct := w.contenders[lockKey{name, mode}]
		if ct == nil || place != "" && mode != of { // a reader that asks in a writer's turn wakes the writer again, and so on
			continue
		}
		ct.nextLocked(waiting.Event{Kind: waiting.Wake, Set: 1 << i})
		known = known || ct.call != nil && ct.call.AsksFor(field)
	}
	if !known {
		w.dequeue(i, name, place)
	}
	return "", 0
}

// dequeue takes a place that nobody of this client has any more out of a queue of master i. The
// master had not heard that it was given up, maybe because it was out of reach for too long. While
// the client waits for anything the place is alive, and stands in the way of those behind it.
//
// It is no release: a lease whose quorum came without this place may be extended on this master.
func (w *Lines) dequeue(i int, lock, place string) {
	_, mode := protocol.ParsePlace(place)
	now := w.Masters.Clock.Elapsed()
	w.Masters.Nodes[i].Submit(&protocol.Op{To: quorum.Ignore{}, Request: &protocol.Request{
		Kind: protocol.Dequeue, Lock: w.Namespace.Lock(lock, mode), Place: place, Start: now, Deadline: now + w.Masters.Timeout()}})
}

// handedLocked takes the vote that master i has given to a place of this client's. The vote counts
// from the stamp of the sign of life that the master read when it gave it (H1 and H2 in
// docs/internals/handoff.md), if this host's clock has not jumped since.
//
// A vote for a holder that is over is ignored: its release is on its way, or is kept until the
// master acknowledges it. A vote for a holder that has its quorum without it stays, and counts when
// an extend has found it.
func (w *Lines) handedLocked(i int, h protocol.Hand) (lock string, votes int) {
	m := w.Masters
	lock, ok := w.Namespace.NameOf(h.Key)
	if !ok || h.Stamp > m.Clock.Elapsed() || h.Stamp <= m.Trusted() {
		return "", 0
	}
	if mutants.HandOnArrival {
		h.Stamp = m.Clock.Elapsed()
	}
	v := quorum.Vote{Token: h.Vote, From: h.Stamp, Until: h.Stamp + m.Drift.Validity(h.TTL, 0)}
	for _, mode := range [...]protocol.Mode{protocol.Plain, protocol.Write} {
		if ct := w.contenders[lockKey{lock, mode}]; ct != nil && ct.call != nil && ct.call.Hand(i, h.Field, h.State, v) {
			votes++
			ct.votedLocked()
		}
	}
	return lock, votes
}

// LookAgain wakes all contenders for master i, which votes again.
func (w *Lines) LookAgain(i int) {
	w.lookAgain(i, func(*contender) bool { return true })
}

// Subscribed wakes the contenders for master i that may have missed a message on the channel: those of its locks, or all where it is
// the client's own. A contender that does not listen yet is woken too: its round may have been refused before the message that was missed.
func (w *Lines) Subscribed(i int, channel string) {
	own := channel == w.Namespace.Wake(w.Client)
	w.lookAgain(i, func(ct *contender) bool { return own || ct.l.Channel == channel })
}

func (w *Lines) lookAgain(i int, wanted func(*contender) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ct := range w.inOrderLocked(wanted) {
		ct.nextLocked(waiting.Event{Kind: waiting.Wake, Set: 1 << i})
	}
}

// inOrderLocked returns the contenders that are wanted, by lock and mode: the order of a map would make two simulations of one
// seed differ.
func (w *Lines) inOrderLocked(wanted func(*contender) bool) (all []*contender) {
	for _, ct := range w.contenders {
		if wanted(ct) {
			all = append(all, ct)
		}
	}
	slices.SortFunc(all, func(a, b *contender) int {
		return cmp.Or(strings.Compare(a.l.Name, b.l.Name), cmp.Compare(a.l.Mode, b.l.Mode))
	})
	return all
}

// Released has the next caller of this process ask for the lock right behind the release that
// has just been sent, unless other processes are ahead. A master executes the release first, so
// the caller need not wait for the masters to wake it.
//
// If the caller's places can become votes, the release makes them so, and Released sees to it that
// the caller asks when the messages do not come.
func (w *Lines) Released(l *protocol.Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ct := w.contenders[lockKey{l.Name, l.Mode}]
	if ct == nil || l.Mode == protocol.Read {
		return
	}
	ct.releasedLocked()
}

// releasedLocked tells the machine that this process released the lock.
func (ct *contender) releasedLocked() {
	m := ct.w.Masters
	ct.nextLocked(waiting.Event{Kind: waiting.ReleasedHere, Votes: ct.votesLocked(), Now: m.Clock.Elapsed(), Way: m.Trip()})
}
