// SPDX-License-Identifier: Apache-2.0

package votesmodel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/votesmodel"
)

// store is a master's data, which others than the lock's clients change and look at.
type store interface {
	Said() ([]votesmodel.Message, error)
	Keys() (votesmodel.Keys, error)
	Delete(keys ...string) error
	SetHash(key, field, value string) error
	Expire(key string, ttl time.Duration) error
	Listen(on bool) error
}

// driver is a votesmodel.Real: nodes of package node, which encode the calls and read the replies, and a store. A node
// for each epoch: it names that epoch's state in its calls.
type driver struct {
	store
	nodes map[string]node.Node // by the text of the record state
	got   chan *protocol.Op
}

func (d *driver) Receive(op *protocol.Op) { d.got <- op }

// newDriver connects nodes to the master. open makes one.
func newDriver(t *testing.T, s store, open func(cfg node.Config) node.Node) (*driver, votesmodel.World) {
	t.Helper()
	d := &driver{store: s, nodes: map[string]node.Node{}, got: make(chan *protocol.Op, 16)}
	w := votesmodel.World{Lock: lockName}
	var all []node.Node
	for range 2 {
		n := open(node.Config{Clock: clock.Monotonic(), IOTimeout: 10 * time.Second, StallAfter: time.Hour})
		t.Cleanup(func() { _ = n.Close() })
		n.Bind(protocol.Binding{CheckRecordState: true, Drift: clock.DefaultDrift(), Admit: func(id protocol.Identity) error {
			w.Incarnation = id.Incarnation()
			return nil
		}})
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	for i, n := range all {
		d.nodes[w.Voting(i+1).String()] = n
	}
	d.enter(w)
	return d, w
}

// enter tells the nodes their epochs; whether the master votes in them is for the scripts to say.
func (d *driver) enter(w votesmodel.World) {
	for epoch := 1; epoch <= 2; epoch++ {
		rs := w.Voting(epoch)
		d.nodes[rs.String()].Enter(rs.Epoch.String(), nil, 1<<62)
	}
}

// Call sends the ops in one pipeline, which is one call of votes.lua: a node gathers what it is given with More.
func (d *driver) Call(c votesmodel.Call) ([]protocol.Reply, error) {
	n := d.nodes[c.State]
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
			if name != protocol.RecordKey || items[i] != "latest" {
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
