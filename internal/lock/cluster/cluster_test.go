// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/errs"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// The tags are part of the epoch: clients of two versions with other tags would not exclude each other.
func TestTag_neverChanges(t *testing.T) {
	if got := slot("123456789"); got != 0x31C3 { // the value that the cluster specification gives
		t.Fatalf("slot %#x", got)
	}
	var tags []string
	for n := 1; n <= 63; n++ {
		for i := range n {
			tg := tag(i, n)
			tags = append(tags, tg)
			if share := slot(tg) * n / slots; share != i {
				t.Errorf("vote %d of %d is in share %d", i, n, share)
			}
		}
	}
	slices.Sort(tags)
	if len(slices.Compact(tags)) != 63*64/2 {
		t.Error("two votes have one tag")
	}
	for i, want := range []string{"redlock.3.0.0", "redlock.3.1.2", "redlock.3.2.1"} {
		if got := tag(i, 3); got != want {
			t.Errorf("vote %d: %s, want %s", i, got, want)
		}
	}
}

// asked is a master that notes what it is asked.
type asked struct {
	node.Node
	ops        []*protocol.Op
	subscribed []string
	b          protocol.Binding
}

func (a *asked) Submit(op *protocol.Op) bool { a.ops = append(a.ops, op); return true }
func (a *asked) Subscribe(channel string)    { a.subscribed = append(a.subscribed, channel) }
func (a *asked) Unsubscribe(channel string)  { a.subscribed = append(a.subscribed, "-"+channel) }
func (a *asked) Bind(b protocol.Binding) error {
	a.b = b
	return nil
}

// What is wrong with a URL is said with the URL, and without its password.
func TestParse_badURL_named(t *testing.T) {
	for url, says := range map[string]string{
		"redis://u:secret@host:1":                    `"redis://***@host:1"`,
		"host:1":                                     `"host:1"`,
		"redis-cluster://u:secret@a,b?tag=locks":     `"tag"`,
		"redis-cluster://u:secret@a,b?name=x&db=1":   `"db"`,
		"redis-cluster://a?sentinel_password=secret": "***",
		"redis-cluster://a?name=%zz":                 "cannot be read",
		"redis-cluster://u:a?secret&x@host:1":        "a parameter",
	} {
		_, err := Parse(url)
		if !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want it to say %s", url, err, says)
		}
	}
}

// A lock has another name in each slot, and the same counter.
func TestVoter_requests_nameOfTheSlot(t *testing.T) {
	master := &asked{}
	v := &voter{Node: master, prefix: "{a}:"}
	lock := protocol.NewLock("orders", protocol.Write)
	shared := &protocol.Request{Kind: protocol.Acquire, Lock: lock, Holder: "h"}
	op := &protocol.Op{Request: shared}
	for range 2 { // sent, and sent again
		v.Submit(op)
		if op.Lock.Name != "{a}:orders" || op.Lock.Mode != protocol.Write || op.Holder != "h" {
			t.Errorf("asked for %+v", op.Lock)
		}
		if op.Lock.Counter != lock.Counter || op.Lock.CounterIndex != lock.CounterIndex {
			t.Errorf("counter %s, want %s", op.Lock.Counter, lock.Counter)
		}
	}
	extend := &protocol.Op{Request: &protocol.Request{Kind: protocol.Extend, Items: []protocol.Item{{Lock: lock, Holder: "h", Count: 2}, {Lock: protocol.NewLock("b", protocol.Plain)}}}}
	items := extend.Items
	for range 2 {
		v.Submit(extend)
		if got := extend.Items; got[0].Lock.Name != "{a}:orders" || got[0].Count != 2 || got[1].Lock.Name != "{a}:b" {
			t.Errorf("extends %+v", got)
		}
	}
	lists := &protocol.Op{Request: &protocol.Request{Kind: protocol.ListLocks, Prefix: "or"}, To: quorum.Ignore{}}
	v.Submit(lists)
	if lists.Prefix != "{a}:or" {
		t.Errorf("lists %q", lists.Prefix)
	}
	lists.Reply.Listed = &protocol.Listed{Names: []string{"{a}:orders", "{a}:{b}:c"}}
	lists.To.Receive(lists)
	if got := lists.Reply.Listed.Names; !slices.Equal(got, []string{"orders", "{b}:c"}) || lists.To != (quorum.Ignore{}) {
		t.Errorf("listed %q, to %T", got, lists.To)
	}
	record := &protocol.Request{Kind: protocol.ReadRecord}
	of := &protocol.Op{Request: record}
	v.Submit(of)
	if of.Request != record || shared.Lock != lock || items[0].Lock != lock {
		t.Error("what other masters are asked was changed")
	}
}

// What a cluster passes on from another slot is not heard: one vote counts once.
func TestVoter_messages_ofItsSlotOnly(t *testing.T) {
	for _, namespace := range []protocol.Namespace{"", "team-a"} {
		voterHears(t, namespace, strings.TrimSuffix(namespace.Wake(""), "redlock:wake:"))
	}
}

// voterHears gives a voter messages. ns begins the keys and channels of the namespace.
func voterHears(t *testing.T, namespace protocol.Namespace, ns string) {
	master := &asked{}
	v := &voter{Node: master, namespace: namespace, prefix: "{a}:"}
	var got []string
	v.Bind(protocol.Binding{
		Message:    func(channel, payload string) { got = append(got, channel+" "+payload) },
		Subscribed: func(channel string) { got = append(got, "subscribed "+channel) },
		Admit:      func(protocol.Identity) error { return fmt.Errorf("%w: twice", errs.ErrConfig) },
	})
	wake, observed := namespace.Wake("client"), namespace.Lock("orders", protocol.Plain).Observed()
	v.Subscribe(wake)
	v.Subscribe(observed)
	if want := []string{wake, ns + "redlock:wake:leader::{a}:orders"}; !slices.Equal(master.subscribed, want) {
		t.Fatalf("subscribed to %q, want %q", master.subscribed, want)
	}
	for _, m := range [][2]string{
		{wake, ns + "{a}:orders"}, {wake, ns + "{a}:orders\x00place"}, {wake, ns + "{a}:orders\x00h\x007\x001000\x003000"},
		{wake, ns + "{b}:orders"}, {wake, ns + "{b}:orders\x00h\x007\x001000\x003000"}, {wake, ns + "orders"}, {wake, ""}, {wake, "x{a}:orders"},
		{ns + "redlock:wake:leader::{a}:orders", "x"}, {ns + "redlock:wake:leader::{b}:orders", "x"}, {observed, "x"},
	} {
		master.b.Message(m[0], m[1])
	}
	if ns != "" {
		master.b.Message(wake, "{a}:orders") // of another namespace
	}
	master.b.Subscribed(ns + "redlock:wake:leader::{a}:orders")
	want := []string{wake + " " + ns + "orders", wake + " " + ns + "orders\x00place", wake + " " + ns + "orders\x00h\x007\x001000\x003000", observed + " x", "subscribed " + observed}
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	v.Unsubscribe(observed)
	master.b.Message(ns+"redlock:wake:leader::{a}:orders", "x")
	if len(got) != len(want) || master.subscribed[2] != "-"+ns+"redlock:wake:leader::{a}:orders" {
		t.Errorf("heard %q after unsubscribing %q", got, master.subscribed)
	}
	for _, name := range []string{"b", "{b}", ":{b}", "{{b}}", "b}", "{tag}:b", ""} {
		channel, own := namespace.Lock(name, protocol.Plain).Observed(), namespace.Lock("{a}:"+name, protocol.Plain).Observed()
		if v.Subscribe(channel); master.subscribed[len(master.subscribed)-1] != own {
			t.Errorf("observers of %q are subscribed to %q, want %q", name, master.subscribed[len(master.subscribed)-1], own)
		}
	}
	if err := master.b.Admit(protocol.Identity{}); !errors.Is(err, errs.ErrConfig) || !strings.Contains(err.Error(), "reshard") {
		t.Error(err)
	}
}
