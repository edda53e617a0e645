// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// leastAgain bounds how often an announcement is repeated, and how long it lives.
const leastAgain = 100 * time.Millisecond

// Announcement is what the holder of a lock says about itself.
type Announcement struct {
	Lock   *protocol.Lock
	Holder string
	Token  int64
	Since  time.Time
	Value  string
}

// Again is after how long what a lease of that TTL announces is announced again, and how long the masters keep it.
func Again(ttl time.Duration) (again, lives time.Duration) {
	again = max(ttl/3, leastAgain)
	return again, 6 * again
}

// Announce tells the masters what the holder says, for as long as it lives. It waits until a quorum has it, or for the node timeout, or until ctx ends.
func (a *Asker) Announce(ctx context.Context, said *Announcement, lives time.Duration) {
	now := a.Clock.Elapsed()
	text := protocol.Announcement{Field: said.Lock.Field(said.Holder), Token: said.Token, Since: said.Since, Value: said.Value}
	q := a.Masters.Poll(a.Masters.All, a.Masters.Need, &protocol.Request{Kind: protocol.Announce, Lock: said.Lock, Holder: said.Holder, Announce: text.String(),
		TTL: lives, Start: now, Deadline: now + a.Timeout()})
	q.Await(ctx, a.Timeout())
	q.Done()
}

// Retract takes back what a holder announced for a lease of that TTL. It does not wait.
func (a *Asker) Retract(l *protocol.Lock, holder string, ttl time.Duration) {
	now := a.Clock.Elapsed()
	a.Masters.Poll(a.Masters.All, 0, &protocol.Request{Kind: protocol.Announce, Lock: l, Holder: holder,
		TTL: leastAgain, Start: now, Deadline: now + ttl}).Done()
}

// Watchers are those who want to know when the announcement of a lock changes, by channel.
type Watchers struct {
	Nodes     []protocol.Node
	Namespace protocol.Namespace

	mu     sync.Mutex
	on     map[string][]chan struct{}
	closed bool
}

// Watch subscribes to the announcements for the lock of that name. changed holds a token when one may have changed, or a message may have been
// missed. It is closed by Close. stop ends it.
func (o *Watchers) Watch(name string) (changed <-chan struct{}, stop func()) {
	channel, ch := o.Namespace.Lock(name, protocol.Plain).Observed(), make(chan struct{}, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		close(ch)
		return ch, func() {}
	}
	if o.on == nil {
		o.on = make(map[string][]chan struct{})
	}
	o.on[channel] = append(o.on[channel], ch)
	if len(o.on[channel]) == 1 {
		for _, n := range o.Nodes {
			n.Subscribe(channel)
		}
	}
	return ch, func() { o.leave(channel, ch) }
}

func (o *Watchers) leave(channel string, ch chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.on[channel] {
		if other == ch {
			o.on[channel] = append(o.on[channel][:i:i], o.on[channel][i+1:]...)
		}
	}
	if len(o.on[channel]) > 0 || o.closed {
		return
	}
	delete(o.on, channel)
	for _, n := range o.Nodes {
		n.Unsubscribe(channel)
	}
}

// Tell tells the watchers of the channel that something may have changed. It says whether the
// channel is one of theirs.
func (o *Watchers) Tell(channel string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ch := range o.on[channel] {
		if !o.closed {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
	return len(o.on[channel]) > 0
}

// Close ends all watchers.
func (o *Watchers) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, channel := range slices.Sorted(maps.Keys(o.on)) { // the order of a map would make two simulations of one seed differ
		for _, ch := range o.on[channel] {
			close(ch)
		}
	}
}
