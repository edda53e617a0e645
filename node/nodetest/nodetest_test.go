// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is one submitter with its node, for tests: it waits for each answer.
type client struct {
	*Node
	clock clock.Clock
	ch    chan *node.Op
}

func (c *client) Receive(op *node.Op) { c.ch <- op }

func dial(t testing.TB, m *Master) *client {
	t.Helper()
	clk := clock.Monotonic()
	c := &client{m.Node(node.Config{Clock: clk}), clk, make(chan *node.Op, 1024)}
	c.Bind(node.Binding{Admit: func(node.Identity) error { return nil }})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// send submits req with the times of a round that waits for wait.
func (c *client) send(req node.Request, wait time.Duration) *node.Op {
	req.Start = c.clock.Elapsed()
	req.Until = req.Start + wait
	op := &node.Op{Request: &req, To: c}
	if !c.Submit(op) {
		c.ch <- op
	}
	return op
}

// ask is send and the wait for the answer.
func (c *client) ask(req node.Request) node.Reply {
	c.send(req, time.Minute)
	return (<-c.ch).Reply
}

func acquireOp(lock, holder string, ttl time.Duration) node.Request {
	return node.Request{Kind: node.Acquire, Lock: node.NewLock(lock, node.Plain), Holder: holder, TTL: ttl}
}

func releaseOp(lock, holder string) node.Request {
	return node.Request{Kind: node.Release, Lock: node.NewLock(lock, node.Plain), Holder: holder}
}

func TestNode_acquireReleaseAndExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMaster("m")
		a, b := dial(t, m), dial(t, m)
		if r := a.ask(acquireOp("l", "a", 10*time.Second)); r.Class != node.Granted {
			t.Fatalf("%+v", r)
		}
		time.Sleep(4 * time.Second)
		if r := b.ask(acquireOp("l", "b", 10*time.Second)); r.Class != node.Held || r.Remaining != 6*time.Second {
			t.Fatalf("%+v", r)
		}
		if r := b.ask(releaseOp("l", "b")); r.Class != node.Absent {
			t.Fatalf("%+v", r)
		}
		time.Sleep(6*time.Second + time.Millisecond)
		if r := b.ask(acquireOp("l", "b", 10*time.Second)); r.Class != node.Granted {
			t.Fatalf("%+v", r)
		}
		if got := m.Holder("l"); got != "b" {
			t.Fatal(got)
		}
	})
}
