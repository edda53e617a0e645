// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/protocol"
)

// still is a node whose lane does not run: what is submitted stays in the queue.
func still(t *testing.T, cfg Config) *redisNode {
	t.Helper()
	r, err := openURL("redis://127.0.0.1:1", cfg)
	noErr(t, err)
	r.start.Do(func() { close(r.done) })
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func asks(kind protocol.Kind, holder string) *protocol.Op {
	return &protocol.Op{Request: &protocol.Request{Kind: kind, Holder: holder, Lock: protocol.NewLock("x", protocol.Plain)}}
}

func extends(holders ...string) *protocol.Op {
	op := asks(protocol.Extend, "")
	for _, h := range holders {
		op.Items = append(op.Items, protocol.Item{Lock: op.Lock, Holder: h})
	}
	return op
}

// Behind more than a pipeline an extend goes ahead of what other holders ask, and stays behind what the holders that it names have asked: it
// would not find the vote that they are to get, or give a full TTL to one that they gave back.
func TestSubmit_longQueue_keepersGoAheadOfOtherHolders(t *testing.T) {
	const long = maxPipeline + 10
	adopts := asks(protocol.Adopt, "new")
	adopts.From = "a"
	first := asks(protocol.Release, "other")
	first.More = true
	for name, tc := range map[string]struct {
		at   map[int]*protocol.Op // what is in the queue, beside acquires of others
		op   *protocol.Op
		want int
	}{
		"extend":                     {nil, extends("a", "b"), 0},
		"top-up":                     {nil, asks(protocol.TopUp, "a"), 0},
		"heartbeat":                  {nil, asks(protocol.Heartbeat, "client"), 0},
		"acquire":                    {nil, asks(protocol.Acquire, "a"), long},
		"release":                    {nil, asks(protocol.Release, "a"), long},
		"read of the record":         {nil, asks(protocol.ReadRecord, ""), long},
		"own acquire":                {map[int]*protocol.Op{20: asks(protocol.Acquire, "b")}, extends("a", "b"), 21},
		"own releases":               {map[int]*protocol.Op{20: asks(protocol.Release, "b"), 30: asks(protocol.Release, "a")}, extends("a", "b"), 31},
		"own top-up":                 {map[int]*protocol.Op{20: asks(protocol.TopUp, "a")}, extends("a", "b"), 21},
		"own bar":                    {map[int]*protocol.Op{20: asks(protocol.Bar, "a")}, asks(protocol.TopUp, "a"), 21},
		"own extend":                 {map[int]*protocol.Op{20: extends("a", "c")}, extends("b", "a"), 21},
		"own announcement":           {map[int]*protocol.Op{20: asks(protocol.Announce, "a")}, extends("a"), 0},
		"vote is adopted":            {map[int]*protocol.Op{20: adopts}, extends("a"), 21},
		"record is changed":          {map[int]*protocol.Op{20: asks(protocol.CompareAndSetRecord, "")}, extends("a"), 21},
		"record is read":             {map[int]*protocol.Op{20: asks(protocol.ReadRecord, "")}, extends("a"), 0},
		"others that keep something": {map[int]*protocol.Op{0: extends("c"), 1: asks(protocol.TopUp, "d"), 9: extends("e")}, extends("a"), 2},
		"pair":                       {map[int]*protocol.Op{20: asks(protocol.Release, "a"), 21: first}, extends("a"), 21},
		"into a pair":                {map[int]*protocol.Op{20: {Request: &protocol.Request{Kind: protocol.Release, Holder: "a", More: true}}}, extends("a"), 22},
	} {
		t.Run(name, func(t *testing.T) {
			r := still(t, Config{})
			for i := range long {
				op := tc.at[i]
				if op == nil {
					op = asks(protocol.Acquire, fmt.Sprint("caller ", i))
				}
				r.queue = append(r.queue, op)
			}
			if !r.Submit(tc.op) {
				t.Fatal(tc.op.Reply.Err)
			}
			for i, op := range r.queue {
				if op == tc.op && i != tc.want {
					t.Errorf("at %d of the queue, want %d", i, tc.want)
				}
			}
			if len(r.queue) != long+1 {
				t.Errorf("%d in the queue", len(r.queue))
			}
		})
	}
}

// What goes out with the next pipeline anyway stays in its order.
func TestSubmit_shortQueue_orderStays(t *testing.T) {
	r := still(t, Config{})
	for i := range maxPipeline - 1 {
		r.Submit(asks(protocol.Acquire, fmt.Sprint(i)))
	}
	last := extends("a")
	if r.Submit(last); r.queue[len(r.queue)-1] != last {
		t.Error("it was moved")
	}
}

// A pair whose second op is not there yet is waited for, whatever goes ahead of it.
func TestSubmit_keeperAheadOfHalfAPair_secondIsWaitedFor(t *testing.T) {
	r := still(t, Config{})
	for i := range maxPipeline {
		r.Submit(asks(protocol.Acquire, fmt.Sprint(i)))
	}
	first := asks(protocol.Release, "b")
	first.More = true
	r.Submit(first)
	if r.Submit(extends("a")); !r.moreComes {
		t.Error("it is not waited for")
	}
}

// A queue that is full for callers has room for what keeps leases, and is bounded for that too.
func TestSubmit_fullQueue_roomForExtends(t *testing.T) {
	const limit = 4
	r := still(t, Config{QueueLimit: limit})
	for i := range limit {
		r.Submit(asks(protocol.Acquire, fmt.Sprint(i)))
	}
	busy := func(op *protocol.Op) bool { return !r.Submit(op) && errors.Is(op.Reply.Err, ErrBusy) }
	turned := asks(protocol.Acquire, "a")
	if r.Submit(turned) || !errors.Is(turned.Reply.Err, ErrBusy) {
		t.Error("room for one more caller")
	}
	for _, says := range []string{"4 operations wait", "QueueLimit is 4", "fewer callers"} {
		if !strings.Contains(turned.Reply.Err.Error(), says) {
			t.Errorf("%v does not say %q", turned.Reply.Err, says)
		}
	}
	for i := range limit {
		if busy(extends(fmt.Sprint("b", i))) {
			t.Error("no room for an extend")
		}
	}
	if !busy(extends("c")) {
		t.Error("room without limit")
	}
}

// The release of a holder whose acquire came too late to be sent has nothing to give back. It is not sent either, unless a later op of the holder was.
func TestFill_acquireTooLate_releaseOnlyOfWhatWasSent(t *testing.T) {
	late := func(op *protocol.Op) *protocol.Op { op.Deadline = 1; return op }
	soon := func(op *protocol.Op) *protocol.Op { op.Deadline = 100; return op }
	again := asks(protocol.Acquire, "a")
	again.Wait = &protocol.Wait{Again: true}
	plenty := make([]*protocol.Op, maxPipeline)
	for i := range plenty {
		plenty[i] = late(asks(protocol.Acquire, "a"))
	}
	for name, tc := range map[string]struct {
		before []*protocol.Op // in the pipeline before
		ops    []*protocol.Op
		sent   bool // the last of ops
	}{
		"in one pipeline":          {nil, []*protocol.Op{late(asks(protocol.Acquire, "a")), asks(protocol.Release, "a")}, false},
		"in the next pipeline":     {plenty, []*protocol.Op{asks(protocol.Release, "a")}, false},
		"acquire in time":          {nil, []*protocol.Op{soon(asks(protocol.Acquire, "a")), asks(protocol.Release, "a")}, true},
		"of another holder":        {nil, []*protocol.Op{late(asks(protocol.Acquire, "a")), asks(protocol.Release, "b")}, true},
		"holder was queued before": {nil, []*protocol.Op{late(again), asks(protocol.Release, "a")}, true},
		"topped up": {nil, []*protocol.Op{late(asks(protocol.Acquire, "a")), soon(asks(protocol.TopUp, "a")),
			asks(protocol.Release, "a")}, true},
		"topped up in between":     {plenty, []*protocol.Op{soon(asks(protocol.TopUp, "a")), asks(protocol.Release, "a")}, true},
		"top-up too late":          {plenty, []*protocol.Op{late(asks(protocol.TopUp, "a")), asks(protocol.Release, "a")}, false},
		"it may lift a rest":       {nil, []*protocol.Op{late(asks(protocol.Acquire, "a")), {Request: &protocol.Request{Kind: protocol.Release, Holder: "a", Lift: "a", Lock: protocol.NewLock("x", protocol.Plain)}}}, true},
		"a second release of it":   {nil, []*protocol.Op{late(asks(protocol.Acquire, "a")), asks(protocol.Release, "a"), asks(protocol.Release, "a")}, false},
		"a release of a read lock": {nil, []*protocol.Op{late(asks(protocol.Acquire, "a")), {Request: &protocol.Request{Kind: protocol.Release, Holder: "a", Lock: protocol.NewLock("x", protocol.Read)}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := still(t, Config{}), &conn{}
			c.wire.Keys = r.keys
			r.fill(c, batch{at: 10, ops: tc.before})
			r.fill(c, batch{at: 10, ops: tc.ops})
			r.pipe.Time() // ends the call of a script that the last op may be in
			last, op := len(tc.ops)-1, tc.ops[len(tc.ops)-1]
			r.pipe.Reply(last, op.Request, &op.Reply)
			sent := op.Reply.Outcome != protocol.NotSent
			r.keepUnacknowledgedLocked(op, 10, false)
			if sent != tc.sent || !sent && op.Reply.Outcome != protocol.Absent {
				t.Errorf("sent %t, want %t; %+v", sent, tc.sent, op.Reply)
			}
		})
	}
}
