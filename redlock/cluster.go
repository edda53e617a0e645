// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// OpenCluster is [Open] for one whole Redis Cluster: url is
// redis-cluster://[user:password@]host:port,host:port, with several of its servers; rediss-cluster:// is with TLS, and takes the
// parameters of [node.Open] for that. The masters of the
// cluster are the quorum, with one vote each: three masters, or as many as [WithNodeCount] says.
//
// Each vote is a slot that never changes, in the middle of its share of the slots, so that a cluster
// that redis-cli --cluster create made has one vote on each master. The names of locks need no tag: on
// each master a lock has that master's tag before its name. Two votes on one master are refused:
// OpenCluster returns [ErrConfig], and if a slot moves later, its vote is missing until it has a master of
// its own again. No redirection is followed within a round.
//
// The votes of all clusters have the same names, by which a change of masters tells lists apart. A cluster to which the locks may
// move has a name in its URL, ?name=NAME, in all programs.
//
// A cluster is one failure domain: see docs/cluster.md for what is promised and what it takes.
//
// An operator calls [Init] and the other operations with the URLs of [ClusterURLs]. A client of
// OpenCluster and a client of the same masters by Open do not exclude each other.
func OpenCluster(ctx context.Context, url string, opts ...Option) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	s, err := apply(opts)
	if err != nil {
		return nil, err
	}
	urls, err := s.clusterURLs(url)
	if err != nil {
		return nil, err
	}
	nodes, err := s.openNodes(urls)
	if err != nil {
		return nil, err
	}
	s.cluster = true
	for i, n := range nodes {
		nodes[i] = &voter{Node: n, namespace: s.namespace, prefix: "{" + n.Tag() + "}:"}
	}
	c, err := newClient(ctx, nodes, s)
	if err != nil {
		masters.CloseAll(nodes)
		return nil, err
	}
	return c, nil
}

// ClusterURLs returns the URLs of the votes of a cluster, for a [List] of [Init] and the other
// operations. url and opts are those of [OpenCluster].
func ClusterURLs(url string, opts ...Option) ([]string, error) {
	s, err := apply(opts)
	if err != nil {
		return nil, err
	}
	return s.clusterURLs(url)
}

func (s *settings) clusterURLs(rawURL string) ([]string, error) {
	base, params, _ := strings.Cut(rawURL, "?")
	if scheme, _, _ := strings.Cut(base, "://"); scheme != "redis-cluster" && scheme != "rediss-cluster" {
		return nil, fmt.Errorf("%w: the URL of a whole cluster: want redis-cluster://host:port,host:port or rediss-cluster://", ErrConfig)
	}
	query, err := url.ParseQuery(params)
	for name := range query {
		if !slices.Contains([]string{"cert", "key", "ca", "server_name", "name"}, name) {
			err = ErrConfig
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the URL of a whole cluster has no parameters but name and those of TLS: OpenCluster chooses the tags", ErrConfig)
	}
	own := query.Get("name")
	if own != "" {
		query.Del("name")
		params = query.Encode()
	}
	if params != "" {
		params = "&" + params
	}
	n := s.nodeCount
	if n == 0 {
		n = 3
	}
	if err := s.checkCount(n); err != nil {
		return nil, err
	}
	urls := make([]string, n)
	for i := range urls {
		urls[i] = strings.TrimSuffix(base, "/") + "/?tag=" + clusterTag(i, n) + params
		if own != "" {
			urls[i] += "&name=" + url.QueryEscape(own+"/"+clusterTag(i, n))
		}
	}
	return urls, nil
}

const (
	clusterSlots = 16384
	// clusterTags begins the names that a lock has on the masters of a cluster.
	clusterTags = "{redlock."
)

// clusterTag is the tag of vote i of n: the first whose slot is in the middle half of that vote's share
// of the slots. It is part of the epoch, so it must not change: two clients with different tags would
// not exclude each other.
func clusterTag(i, n int) string {
	for k := 0; ; k++ {
		tag := fmt.Sprintf("redlock.%d.%d.%d", n, i, k)
		if slot := 4 * n * clusterSlot(tag); slot >= (4*i+1)*clusterSlots && slot < (4*i+3)*clusterSlots {
			return tag
		}
	}
}

// clusterSlot is the slot of a key without braces: CRC16 (XMODEM) of it.
func clusterSlot(key string) int {
	crc := uint16(0)
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			top := crc & 0x8000
			crc <<= 1
			if top != 0 {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % clusterSlots
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
func (v *voter) Bind(b protocol.Binding) {
	if admit := b.Admit; admit != nil {
		b.Admit = func(id protocol.Identity) error {
			if err := admit(id); err != nil {
				return fmt.Errorf("%w; one master of the cluster has the slots of two votes: give each a master of its own with redis-cli --cluster reshard", err)
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
	v.Node.Bind(b)
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
