// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// leastAnnounce bounds how often an announcement is repeated, and how long it lives.
const leastAnnounce = 100 * time.Millisecond

// announce is hook.Announce.
func announce(ctx context.Context, l *Lease, since time.Time, value string) (again time.Duration) {
	again = max(l.hold().Terms.TTL/3, leastAnnounce)
	if l.Err() == nil {
		l.announce(ctx, since, value, 6*again)
	}
	return again
}

func (l *Lease) announce(ctx context.Context, since time.Time, value string, ttl time.Duration) {
	h, m := l.hold(), &l.c.masters
	now := m.Clock.Elapsed()
	said := protocol.Announcement{Field: h.Lock.Field(h.Holder), Token: h.Token, Since: since, Value: value}
	q := m.Poll(m.All, m.Need, &protocol.Request{Kind: protocol.Announce, Lock: h.Lock, Holder: h.Holder, Announce: said.String(),
		TTL: ttl, Start: now, Deadline: now + m.Timeout()})
	q.Await(ctx, m.Timeout())
	q.Done()
}

// retract is hook.Retract.
func retract(l *Lease) {
	h, m := l.hold(), &l.c.masters
	now := m.Clock.Elapsed()
	m.Poll(m.All, 0, &protocol.Request{Kind: protocol.Announce, Lock: h.Lock, Holder: h.Holder,
		TTL: leastAnnounce, Start: now, Deadline: now + h.Terms.TTL}).Done()
}

// observers are those who want to know when the announcement of a lock changes, by channel.
type observers struct {
	c *Client

	mu     sync.Mutex
	on     map[string][]chan struct{}
	closed bool
}

// observe is hook.Observe.
func observe(c *Client, name string) (changed <-chan struct{}, stop func()) {
	o, channel, ch := &c.observers, c.namespace.Lock(name, protocol.Plain).Observed(), make(chan struct{}, 1)
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
		for _, n := range c.masters.Nodes {
			n.Subscribe(channel)
		}
	}
	return ch, func() { o.leave(channel, ch) }
}

func (o *observers) leave(channel string, ch chan struct{}) {
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
	for _, n := range o.c.masters.Nodes {
		n.Unsubscribe(channel)
	}
}

// tell tells the observers of the channel that something may have changed. It says whether the
// channel is one of theirs.
func (o *observers) tell(channel string) bool {
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

// close ends all observers.
func (o *observers) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, channel := range slices.Sorted(maps.Keys(o.on)) { // the order of a map would make two simulations of one seed differ
		for _, ch := range o.on[channel] {
			close(ch)
		}
	}
}
