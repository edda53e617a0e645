// SPDX-License-Identifier: Apache-2.0

package votesmodel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/model/votesmodel"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// store is a master's data, which others than the lock's clients change and look at.
type store interface {
	Said() ([]votesmodel.Message, error)
	Keys() (votesmodel.Keys, error)
	Delete(keys ...string) error
	SetHash(key, field, value string) error
	Expire(key string, ttl time.Duration) error
	Listen(on bool) error
	Hear(client string, on bool) error
}

// driver is a votesmodel.Real: nodes of package node, which encode the calls and read the replies, and a store. Two nodes
// for each epoch: they name that epoch's state in their calls, and one of them hears messages.
type driver struct {
	store
	nodes map[speaks]node.Node
	got   chan *protocol.Op
}

// speaks is what a node says in its calls: a record state, and whether it is deaf.
type speaks struct {
	state string
	deaf  bool
}

func (d *driver) Receive(op *protocol.Op) { d.got <- op }

// newDriver connects nodes to the master. open makes one.
func newDriver(t *testing.T, s store, open func(cfg node.Config) node.Node) (*driver, votesmodel.World) {
	t.Helper()
	d := &driver{store: s, nodes: map[speaks]node.Node{}, got: make(chan *protocol.Op, 16)}
	w := votesmodel.World{Lock: lockName}
	var all []node.Node
	subscribed := make(chan struct{}, 16)
	for range 4 {
		n := open(node.Config{Clock: clock.Monotonic(), IOTimeout: 10 * time.Second, StallAfter: time.Hour})
		t.Cleanup(func() { _ = n.Close() })
		admit := func(id protocol.Identity) error {
			w.Incarnation = id.Incarnation()
			return nil
		}
		n.Bind(protocol.Binding{CheckRecordState: true, Drift: clock.DefaultDrift(), Admit: admit, Subscribed: func(string) { subscribed <- struct{}{} }})
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	for i, n := range all {
		deaf := i%2 == 1
		d.nodes[speaks{w.Voting(i/2 + 1).String(), deaf}] = n
		if !deaf {
			n.Subscribe(protocol.Wake("driver")) // of no client of the runs: a node hears if it has any such channel
			<-subscribed
		}
	}
	d.enter(w)
	return d, w
}

// enter tells the nodes their epochs; whether the master votes in them is for the scripts to say.
func (d *driver) enter(w votesmodel.World) {
	for epoch := 1; epoch <= 2; epoch++ {
		rs := w.Voting(epoch)
		for _, deaf := range []bool{false, true} {
			d.nodes[speaks{rs.String(), deaf}].Enter(rs.Epoch.String(), nil, 1<<62)
		}
	}
}

// Call sends the ops in one pipeline, which is one call of votes.lua: a node waits for the op after one with More.
func (d *driver) Call(c votesmodel.Call) ([]protocol.Reply, error) {
	n := d.nodes[speaks{c.State, c.Deaf}]
	ops := make([]*protocol.Op, len(c.Ops))
	for i, req := range c.Ops {
		req.Deadline, req.More = 1<<62, i < len(c.Ops)-1
		ops[i] = &protocol.Op{Request: &req, To: d}
		if !n.Submit(ops[i]) {
			return nil, fmt.Errorf("not submitted: %w", ops[i].Reply.Err)
		}
	}
	for range ops {
		<-d.got
	}
	replies := make([]protocol.Reply, len(ops))
	for i, op := range ops {
		if op.Reply.Outcome == protocol.Unknown || op.Reply.Outcome == protocol.NotSent {
			return nil, op.Reply.Err
		}
		replies[i] = op.Reply
	}
	return replies, nil
}

const lockName = "model"

// redissons are the lock's channels of Redisson's.
var redissons = []string{protocol.NewLock(lockName, protocol.Plain).Channel, protocol.NewLock(lockName, protocol.Write).Channel}

// keyOf makes a Key of what a store has: of a hash fields and values, of a queue members and tickets, else the value.
func keyOf(name, kind string, ttl time.Duration, items []string) votesmodel.Key {
	key := votesmodel.Key{TTL: max(ttl, 0)}
	switch kind {
	case "hash":
		for i := 0; i < len(items); i += 2 {
			if name != protocol.RecordKey || items[i] != "latest" && items[i] != "rests" {
				key.Items = append(key.Items, items[i]+"="+items[i+1])
			}
		}
		slices.Sort(key.Items)
	case "zset":
		for i := 0; i < len(items); i += 2 {
			key.Items = append(key.Items, items[i]+"@"+items[i+1])
		}
	default:
		key.Items = items
	}
	return key
}

// ofCheck: a node that connects tries whether it may publish to these channels.
func ofCheck(channel string) bool {
	return strings.Contains(channel, "redlock:check") || channel == protocol.Wake("check")
}
