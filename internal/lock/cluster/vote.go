// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// Vote returns a node that gives locks the names that they have in the slot of n.
func Vote(n node.Node, namespace protocol.Namespace) node.Node {
	return &voter{Node: n, namespace: namespace, prefix: "{" + n.Tag() + "}:"}
}

// voter is one slot of a cluster whose other votes are in the same list. It gives locks the names that
// they have in this slot.
//
// Invariant: what the client knows of a lock has the lock's own name. What the node is asked, and what
// its master says, has the name with the prefix.
type voter struct {
	node.Node
	namespace protocol.Namespace
	prefix    string // of the names of locks in this slot

	mu       sync.Mutex
	channels map[string]string // subscribed: the slot's channel, and the client's name for it
}

// Tag says that the names of locks are free: voter adds the tag itself.
func (v *voter) Tag() string { return "" }

// Submit implements [node.Node].
func (v *voter) Submit(op *protocol.Op) bool {
	if op.Kind != protocol.ListLocks {
		op.Request = v.request(op.Request)
		return v.Node.Submit(op)
	}
	own, to := *op.Request, op.To
	own.Prefix = v.prefix + own.Prefix
	op.Request, op.To = &own, listed{v, to}
	if !v.Node.Submit(op) {
		op.To = to
		return false
	}
	return true
}

// listed receives names of locks in a slot, and passes on the locks' own names.
type listed struct {
	v  *voter
	to protocol.Receiver
}

// Receive implements [protocol.Receiver].
func (l listed) Receive(op *protocol.Op) {
	if names := op.Reply.Listed; names != nil {
		for i, name := range names.Names {
			names.Names[i] = strings.TrimPrefix(name, l.v.prefix)
		}
	}
	op.To = l.to
	op.To.Receive(op)
}

// request is r in this slot. An op that is sent again has been here before.
func (v *voter) request(r *protocol.Request) *protocol.Request {
	switch {
	case r.Lock != nil && strings.HasPrefix(r.Lock.Name, v.prefix),
		len(r.Items) > 0 && strings.HasPrefix(r.Items[0].Lock.Name, v.prefix),
		r.Lock == nil && len(r.Items) == 0:
		return r
	}
	own := *r
	if r.Lock != nil {
		own.Lock = v.lock(r.Lock)
	}
	own.Items = slices.Clone(r.Items)
	for i, item := range own.Items {
		own.Items[i].Lock = v.lock(item.Lock)
	}
	return &own
}

// lock is l in this slot. The counter is that of the lock's own name: masters that recover learn counters
// of each other, so a lock must have the same one on all of them.
func (v *voter) lock(l *protocol.Lock) *protocol.Lock {
	own := v.namespace.Lock(v.prefix+l.Name, l.Mode)
	own.Counter, own.CounterIndex = l.Counter, l.CounterIndex
	return own
}

// Bind implements [node.Node].
func (v *voter) Bind(b protocol.Binding) error {
	if admit := b.Admit; admit != nil {
		b.Admit = func(id protocol.Identity) error {
			if err := admit(id); err != nil {
				return fmt.Errorf("%w; one master of the cluster has the slots of two votes: give each a master of its own with redis-cli --cluster reshard, once the slot has been there for the maximum TTL", err)
			}
			return nil
		}
	}
	if message := b.Message; message != nil {
		b.Message = func(channel, payload string) {
			if channel, payload, ok := v.heard(channel, payload); ok {
				message(channel, payload)
			}
		}
	}
	if subscribed := b.Subscribed; subscribed != nil {
		b.Subscribed = func(channel string) {
			v.mu.Lock()
			known, ok := v.channels[channel]
			v.mu.Unlock()
			if ok {
				channel = known
			}
			subscribed(channel)
		}
	}
	return v.Node.Bind(b)
}

// heard is a message in the client's words. ok is false if it is not for this vote.
//
// Every server of a cluster passes on what any of them publishes. A hand is a vote of the slot that the
// lock's name in it says, and counts for that one only: else one vote would be counted on all masters.
func (v *voter) heard(channel, payload string) (known, text string, ok bool) {
	if protocol.IsWake(channel) {
		key, _, _ := strings.Cut(payload, "\x00")
		name, ours := v.namespace.NameOf(key)
		if name, ok = strings.CutPrefix(name, v.prefix); !ok || !ours {
			return "", "", false
		}
		return channel, v.namespace.Lock(name, protocol.Plain).Key + strings.TrimPrefix(payload, key), true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok = v.channels[channel]
	return known, payload, ok
}

// Subscribe implements [node.Node].
func (v *voter) Subscribe(channel string) {
	own := v.channel(channel)
	v.mu.Lock()
	if v.channels == nil {
		v.channels = make(map[string]string)
	}
	v.channels[own] = channel
	v.mu.Unlock()
	v.Node.Subscribe(own)
}

// Unsubscribe implements [node.Node].
func (v *voter) Unsubscribe(channel string) {
	own := v.channel(channel)
	v.mu.Lock()
	delete(v.channels, own)
	v.mu.Unlock()
	v.Node.Unsubscribe(own)
}

// channel is the slot's channel for one of the client's: the name of a lock in it has the prefix. A client
// has one channel for all its wakes, which have the locks' names in them.
func (v *voter) channel(channel string) string {
	lock, observed := v.namespace.ObservedName(channel)
	if !observed {
		return channel
	}
	return v.namespace.Lock(v.prefix+lock, protocol.Plain).Observed()
}
