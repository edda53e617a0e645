// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is one submitter with its node, for tests: it waits for each answer.
type client struct {
	*Node
	clock clock.Clock
	ch    chan *protocol.Op
}

func (c *client) Receive(op *protocol.Op) { c.ch <- op }

func dial(t testing.TB, m *Master) *client {
	t.Helper()
	clk := clock.Monotonic()
	c := &client{m.Node(node.Config{Clock: clk}), clk, make(chan *protocol.Op, 1024)}
	c.Bind(protocol.Binding{Admit: func(protocol.Identity) error { return nil }})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// send submits req with the times of a round that waits for wait.
func (c *client) send(req protocol.Request, wait time.Duration) *protocol.Op {
	req.Start = c.clock.Elapsed()
	req.Deadline = req.Start + wait
	op := &protocol.Op{Request: &req, To: c}
	if !c.Submit(op) {
		c.ch <- op
	}
	return op
}

// ask sends req and waits for the answer.
func (c *client) ask(req protocol.Request) protocol.Reply {
	c.send(req, time.Minute)
	return (<-c.ch).Reply
}

func acquireOp(lock, holder string, ttl time.Duration) protocol.Request {
	return protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(lock, protocol.Plain), Holder: holder, TTL: ttl}
}

func releaseOp(lock, holder string) protocol.Request {
	return protocol.Request{Kind: protocol.Release, Lock: protocol.NewLock(lock, protocol.Plain), Holder: holder}
}

func TestNode_acquireReleaseAndExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMaster("m")
		a, b := dial(t, m), dial(t, m)
		if r := a.ask(acquireOp("l", "a", 10*time.Second)); r.Outcome != protocol.Granted {
			t.Fatalf("%+v", r)
		}
		time.Sleep(4 * time.Second)
		if r := b.ask(acquireOp("l", "b", 10*time.Second)); r.Outcome != protocol.Held || r.Remaining != 6*time.Second {
			t.Fatalf("%+v", r)
		}
		if r := b.ask(releaseOp("l", "b")); r.Outcome != protocol.Absent {
			t.Fatalf("%+v", r)
		}
		time.Sleep(6*time.Second + time.Millisecond)
		if r := b.ask(acquireOp("l", "b", 10*time.Second)); r.Outcome != protocol.Granted {
			t.Fatalf("%+v", r)
		}
		if got := m.Holder("l"); got != "b" {
			t.Fatal(got)
		}
	})
}

// A master forgets a script in the middle of a pipeline. Calls that ran already run again, and
// keep their first answers: a replayed acquire gets the present counter, which is the token of
// the reader that came in between.
func TestNode_scriptForgottenHalfWay_firstAnswerStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMaster("m")
		n := m.Node(node.Config{})
		defer n.Close()
		n.Bind(protocol.Binding{})
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := true
		n.SetFault(func(cmd Command) Fault {
			if cmd.Name == "acquire" && first {
				first = false
				return Fault{Refuse: errNoScript}
			}
			return Fault{}
		})
		l := protocol.NewLock("x", protocol.Read)
		replies := map[string]protocol.Reply{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		submit := func(more bool, req protocol.Request) {
			req.Lock, req.Deadline, req.More = l, time.Hour, more
			wg.Add(1)
			n.Submit(&protocol.Op{Request: &req, To: receive(func(op *protocol.Op) {
				mu.Lock()
				defer mu.Unlock()
				replies[fmt.Sprint(op.Kind, " ", op.Holder)] = op.Reply
				wg.Done()
			})})
		}
		// Each in a call of its own, for their TTLs differ.
		submit(true, protocol.Request{Kind: protocol.Acquire, Holder: "a", TTL: 10 * time.Second, Token: 100})
		submit(true, protocol.Request{Kind: protocol.Acquire, Holder: "b", TTL: 11 * time.Second, Token: 50})
		submit(true, protocol.Request{Kind: protocol.Acquire, Holder: "c", TTL: 12 * time.Second, Token: 60})
		submit(false, protocol.Request{Kind: protocol.Release, Holder: "c"})
		wg.Wait()
		seen := map[int64]string{}
		for name, r := range replies {
			if r.Outcome != protocol.Granted {
				t.Errorf("%s: %+v", name, r)
			}
			if r.Token != 0 && seen[r.Token] != "" {
				t.Errorf("%s and %s have token %d", name, seen[r.Token], r.Token)
			}
			seen[r.Token] = name
		}
		if b := replies["acquire b"].Token; b != 50 {
			t.Errorf("b was told %d at first, and is told %d", 50, b)
		}
		if h := m.Holder("x"); h == "c" {
			t.Error("a released vote is there again")
		}
	})
}

// What ran is not run again when the master forgot the script of an earlier call, but for releases. An acquire could give its holder a second vote, and
// the claim of a master could fit a second time.
func TestNode_scriptForgottenHalfWay_runsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewMaster("m").Node(node.Config{})
		defer n.Close()
		n.Bind(protocol.Binding{})
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		sent := map[string]int{}
		n.SetFault(func(cmd Command) (f Fault) {
			if sent[cmd.Name]++; cmd.Name == "acquire" && sent["acquire"] == 1 {
				f.Refuse = errNoScript
			}
			return f
		})
		l := protocol.NewLock("x", protocol.Plain)
		var wg sync.WaitGroup
		requests := []protocol.Request{
			{Kind: protocol.Acquire, Holder: "a", TTL: 10 * time.Second, Token: 1}, // forgotten
			{Kind: protocol.Acquire, Holder: "b", TTL: 11 * time.Second, Token: 2}, // another TTL: a call of its own
			{Kind: protocol.TopUp, Holder: "b", TTL: 11 * time.Second, Count: 1},
			{Kind: protocol.Confirm, Holder: "b", Token: 2},
			{Kind: protocol.CompareAndSetRecord, CompareAndSet: &protocol.CompareAndSet{Set: []string{"note", "n"}}},
			{Kind: protocol.Release, Holder: "a"},
		}
		for i := range requests {
			req := &requests[i]
			req.Lock, req.Deadline, req.More = l, time.Hour, i < len(requests)-1
			wg.Add(1)
			n.Submit(&protocol.Op{Request: req, To: receive(func(*protocol.Op) { wg.Done() })})
		}
		wg.Wait()
		for name, want := range map[string]int{"acquire": 3, "topup": 1, "confirm": 1, "record": 1, "release": 2} {
			if sent[name] != want {
				t.Errorf("%s: sent %d times, want %d: %v", name, sent[name], want, sent)
			}
		}
	})
}

// An op with More waits for the next one, though the lane looks at its queue between the two.
func TestNode_more_isSentWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewMaster("m").Node(node.Config{})
		defer n.Close()
		n.Bind(protocol.Binding{})
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		answered := make(chan string, 3)
		submit := func(holder string, more bool, then func()) {
			req := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(holder, protocol.Plain), Holder: holder, Token: 1, TTL: time.Minute, Deadline: time.Hour, More: more}
			n.Submit(&protocol.Op{Request: &req, To: receive(func(*protocol.Op) {
				then()
				answered <- holder
			})})
		}
		nothing := func() {}
		// It is the lane that submits "first", so that "first" is there when the lane looks at its queue next.
		submit("before", false, func() { submit("first", true, nothing) })
		synctest.Wait()
		if got := len(answered); got != 1 {
			t.Errorf("%d ops were answered before the one that the lane is to wait for", got)
		}
		submit("second", false, nothing)
		for _, want := range []string{"before", "first", "second"} {
			if got := <-answered; got != want {
				t.Errorf("%q was answered, want %q", got, want)
			}
		}
	})
}

// An op with More that is alone, because the next one was turned away, goes out: here a release, on a master that may not vote.
func TestNode_nextIsTurnedAway_moreIsSent(t *testing.T) {
	for name, then := range map[string]func(*Node){"waits": func(*Node) {}, "is closed": func(n *Node) { _ = n.Close() }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := NewMaster("m").Node(node.Config{})
				defer n.Close()
				n.Bind(protocol.Binding{CheckRecordState: true})
				if err := n.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				n.Enter("", errNoVotes, time.Hour)
				l, answers := protocol.NewLock("x", protocol.Plain), make(chan protocol.Reply, 1)
				answer := receive(func(op *protocol.Op) { answers <- op.Reply })
				if !n.Submit(&protocol.Op{To: answer, Request: &protocol.Request{Kind: protocol.Release, Lock: l, Holder: "one", Leaves: true, Deadline: time.Hour, More: true}}) {
					t.Fatal("the release was turned away")
				}
				if n.Submit(&protocol.Op{To: answer, Request: &protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "two", Token: 1, TTL: time.Hour, Deadline: time.Hour}}) {
					t.Fatal("the acquire was taken")
				}
				then(n)
				synctest.Wait()
				select {
				case r := <-answers:
					if r.Outcome != protocol.Absent {
						t.Errorf("the master did not execute it: %+v", r)
					}
				default:
					t.Error("it was not sent")
				}
			})
		})
	}
}

var errNoVotes = errors.New("it does not vote")

type receive func(*protocol.Op)

func (f receive) Receive(op *protocol.Op) { f(op) }

// A node that is given longer than 2 s for an answer waits for so long: its connection stands, and what the master says counts. A limit that was set stays.
func TestNode_longStallAfter_answerWithinItCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  node.Config
		want protocol.Outcome
	}{
		"stall after 3 s":          {node.Config{StallAfter: 3 * time.Second}, protocol.Granted},
		"and a limit that was set": {node.Config{StallAfter: 3 * time.Second, IOTimeout: 2 * time.Second}, protocol.Unknown},
		"no limits":                {node.Config{}, protocol.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.cfg.Clock = clock.Monotonic()
				c := &client{NewMaster("m").Node(tc.cfg), tc.cfg.Clock, make(chan *protocol.Op, 1)}
				var downs []error
				c.Bind(protocol.Binding{Admit: func(protocol.Identity) error { return nil }, Down: func(err error) { downs = append(downs, err) }})
				if err := c.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.SetFault(func(cmd Command) Fault {
					if cmd.Name == "acquire" {
						return Fault{ReplyDelay: 2500 * time.Millisecond}
					}
					return Fault{}
				})
				r := c.ask(acquireOp("l", "h", 10*time.Second))
				synctest.Wait()
				if broke := len(downs) > 0; r.Outcome != tc.want || broke != (tc.want == protocol.Unknown) {
					t.Errorf("%v, %v, the connection broke: %v; want %v", r.Outcome, r.Err, downs, tc.want)
				}
				_ = c.Close()
			})
		})
	}
}
