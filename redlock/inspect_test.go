// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
)

// inspected inspects the lock x.
func inspected(t *testing.T, c *member) *redlock.Inspection {
	t.Helper()
	in, err := c.Inspect(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// hold writes a vote of holder for x on the masters in on, past all clients.
func (c *cluster) hold(holder string, ttl time.Duration, on ...int) {
	c.t.Helper()
	for _, i := range on {
		wantErr(c.t, c.masters[i].Do(func(db *nodetest.DB) {
			db.Del("x")
			db.HSet("x", holder, "1")
			db.PExpire("x", ttl.Milliseconds())
		}), nil)
	}
}

func TestInspect_held_namesTheHolderAndTheRestOfItsQuorum(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		time.Sleep(time.Second)
		c.hold("stranger", time.Minute, 0)
		in := inspected(t, b)
		if in.Free || len(in.Holders) != 1 || in.Quorum != 3 || in.Name != "x" {
			t.Fatalf("%+v", in)
		}
		h := in.Holders[0]
		if h.ID != lease.Holder() || h.Votes != 4 || h.Count != 1 || h.Left != 9*time.Second || h.Token != 0 {
			t.Errorf("%+v", h)
		}
		m := in.Masters[0]
		if m.Name != "m0" || m.Err != nil || !m.Votes || len(m.Holders) != 1 || m.Holders[0] != "stranger" || m.Left != time.Minute || m.Counter < lease.Token() {
			t.Errorf("%+v", m)
		}
		if s := in.String(); !strings.Contains(s, lease.Holder()) || !strings.Contains(s, "4 of 5") {
			t.Error(s)
		}
	})
}

// Left is how long a quorum lasts: the third longest of the votes.
func TestInspect_votesOfDifferentLength_leftIsTheQuorums(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		b := c.client()
		for i := range 4 {
			c.hold("h", time.Duration(i+1)*time.Second, i)
		}
		if in := inspected(t, b); len(in.Holders) != 1 || in.Holders[0].Left != 2*time.Second {
			t.Errorf("%+v", in)
		}
	})
}

// What the answers of five masters say: h has votes on the first masters, g on the next, and then
// come masters that are silent.
func TestInspect_verdict_isTheQuorums(t *testing.T) {
	for _, tc := range []struct {
		name         string
		h, g, silent int
		holder       string
		free         bool
	}{
		{"nobody", 0, 0, 0, "", true},
		{"nobody, a minority silent", 0, 0, 2, "", true},
		{"a minority has it", 2, 0, 0, "", true},
		{"a minority has it, and one more may", 2, 0, 1, "", false},
		{"a quorum has it", 3, 0, 2, "h", false},
		{"two minorities", 2, 2, 0, "", true},
		{"two minorities, one silent", 2, 2, 1, "", false},
		{"another has a quorum", 1, 3, 1, "g", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, c *cluster) {
				b := c.client()
				for i := range 5 {
					switch {
					case i < tc.h:
						c.hold("h", time.Minute, i)
					case i < tc.h+tc.g:
						c.hold("g", time.Minute, i)
					case i >= 5-tc.silent:
						c.masters[i].Pause()
					}
				}
				start := time.Now()
				in := inspected(t, b)
				holder := ""
				if len(in.Holders) > 0 {
					holder = in.Holders[0].ID
				}
				if holder != tc.holder || in.Free != tc.free {
					t.Errorf("%+v", in)
				}
				took := time.Since(start)
				if clear := tc.holder != "" || tc.free; clear && took > 20*time.Millisecond || took > redlock.DefaultNodeTimeout {
					t.Errorf("took %v", took)
				}
				for i, m := range in.Masters {
					if silent := i >= 5-tc.silent; silent != (m.Err != nil) {
						t.Errorf("master %d: %v", i, m.Err)
					}
				}
			})
		})
	}
}

// A master that restarted may have forgotten the vote, so what it does not know does not count.
func TestInspect_mastersRecover_nobodyIsFree(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		c.init()
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x", redlock.WithoutRenewal()))
		for _, m := range c.masters[:3] {
			m.Flush()
			m.Restart()
		}
		_, _ = b.Inspect(t.Context(), "x") // finds its connections broken
		time.Sleep(time.Second)
		in := inspected(t, b)
		if in.Free || len(in.Holders) != 0 {
			t.Errorf("%+v", in)
		}
		if m := in.Masters[0]; m.Votes || m.Err != nil {
			t.Errorf("%+v", m)
		}
		if s := in.String(); !strings.Contains(s, "do not tell") {
			t.Error(s)
		}
		wantErr(t, lease.Err(), nil)
		time.Sleep(40 * time.Second)
		if in := inspected(t, b); !in.Free {
			t.Errorf("%+v", in)
		}
	})
}

func TestInspect_noQuorumAnswers_isAnErrorWithWhatIsKnown(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		a, b := c.client(), c.client()
		lease := mustLock(t, a.Mutex("x"))
		for _, m := range c.masters[:3] {
			m.Pause()
		}
		in, err := b.Inspect(t.Context(), "x")
		wantErr(t, err, redlock.ErrUnreachable)
		wantText(t, err, `"x"`, "2 of 5", "m0")
		if in == nil || in.Free || len(in.Holders) != 0 || in.Masters[3].Holders[0] != lease.Holder() || in.Masters[0].Err == nil {
			t.Errorf("%+v", in)
		}
	})
}

func TestInspect_keyOfAnotherType_isRefused(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		b := c.client()
		for _, m := range c.masters {
			wantErr(t, m.Do(func(db *nodetest.DB) { db.Set("x", "text") }), nil)
		}
		_, err := b.Inspect(t.Context(), "x")
		wantErr(t, err, redlock.ErrRefused)
		wantText(t, err, "WRONGTYPE")
	})
}

func TestInspect_badInput_errors(t *testing.T) {
	simulate(t, func(t *testing.T, c *cluster) {
		b := c.client()
		var none *redlock.Client
		for _, tc := range []struct {
			c    *redlock.Client
			ctx  context.Context
			name string
			want error
		}{
			{b.Client.Client, nil, "x", redlock.ErrConfig},
			{b.Client.Client, t.Context(), "", redlock.ErrConfig},
			{none, t.Context(), "x", redlock.ErrConfig},
			{new(redlock.Client), t.Context(), "x", redlock.ErrConfig},
			{b.Client.Client, ended(t), "x", context.Canceled},
		} {
			if in, err := tc.c.Inspect(tc.ctx, tc.name); in != nil || !errors.Is(err, tc.want) {
				t.Errorf("%q: %v, %v", tc.name, in, err)
			}
		}
		wantErr(t, b.Close(), nil)
		_, err := b.Inspect(t.Context(), "x")
		wantErr(t, err, redlock.ErrClosed)
	})
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// On real servers: holders of every kind, a reader whose vote has expired, and what inspect.lua and
// announce.lua answer there.
func TestInspect_realMasters_holdersOfEveryKind(t *testing.T) {
	needs.EveryServer(t)
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	ctx := t.Context()
	want := func(name string, holders ...*redlock.Lease) *redlock.Inspection {
		t.Helper()
		in, err := c.Inspect(ctx, name)
		noErr(t, err)
		if len(in.Holders) != len(holders) || in.Free != (len(holders) == 0) {
			t.Fatalf("%+v", in)
		}
		for _, l := range holders {
			found := false
			for _, h := range in.Holders {
				found = found || h.ID == l.Holder() && h.Left > 5*time.Second && h.Left <= redlock.DefaultTTL
			}
			if !found {
				t.Errorf("%s is not in %+v", l.Holder(), in.Holders)
			}
		}
		return in
	}
	want("m")
	m := c.Mutex("m", redlock.WithReentry())
	outer := locked(t, m)
	inner, err := m.Lock(outer.Context())
	noErr(t, err)
	settled(t, outer, 3)
	soon(t, "every master says it", func() bool { return want("m", outer).Holders[0].Votes == 3 })
	in := want("m", outer)
	if in.Holders[0].Count != 2 {
		t.Errorf("%+v", in.Holders)
	}
	for _, at := range in.Masters {
		if at.Err == nil && at.Counter < outer.Token() {
			t.Errorf("counter %d is below token %d", at.Counter, outer.Token())
		}
	}
	noErr(t, inner.Unlock(ctx))
	noErr(t, outer.Unlock(ctx))
	want("m")

	rw := c.RWMutex("rw")
	writer := locked(t, rw)
	settled(t, writer, 3)
	want("rw", writer)
	noErr(t, writer.Unlock(ctx))
	one, err := rw.RLock(ctx)
	noErr(t, err)
	two, err := rw.RLock(ctx)
	noErr(t, err)
	settled(t, one, 3)
	settled(t, two, 3)
	want("rw", one, two)
	for _, d := range ms.direct { // the vote of the first ends
		noErr(t, d.Del(ctx, "{rw}:"+one.Holder()+":rwlock_timeout:1").Err())
	}
	want("rw", two)
}

// An announcement counts where its holder has the vote, and is not replaced by one that comes late.
func TestAnnouncement_realMasters_isTheHolders(t *testing.T) {
	needs.EveryServer(t)
	ms := startMasters(t, 3, localredis.Config{})
	c := ms.begin()
	ctx, since := t.Context(), time.Now().Truncate(time.Millisecond)
	heard := ms.direct[0].Subscribe(ctx, protocol.NewLock("x", protocol.Plain).Observed())
	t.Cleanup(func() { _ = heard.Close() })
	_, err := heard.Receive(ctx)
	noErr(t, err)
	lease := locked(t, c.Mutex("x"))
	settled(t, lease, 3)
	inside.Announce(ctx, lease, since, "a\x00b")
	inside.Announce(ctx, lease, since, "a\x00b") // tells nobody, because nothing is new
	in, err := c.Inspect(ctx, "x")
	noErr(t, err)
	if h := in.Holders[0]; h.Token != lease.Token() || h.Value != "a\x00b" || !h.Since.Equal(since) {
		t.Errorf("%+v", h)
	}
	soon(t, "every master has it", func() bool { return len(ms.keys("redlock:leader:{x}")) == 3 })
	if d := ms.direct[0].PTTL(ctx, protocol.NewLock("x", protocol.Plain).AnnouncementKey()).Val(); d <= 0 || d > 2*redlock.DefaultTTL {
		t.Errorf("the announcement lives for %v", d)
	}
	noErr(t, lease.Unlock(ctx))
	next := locked(t, c.Mutex("x"))
	settled(t, next, 3)
	inside.Announce(ctx, next, since, "next")
	// What the former holder says late changes nothing.
	redlock.AnnounceLate(ctx, lease, since, "late")
	inside.Retract(lease)
	in, err = c.Inspect(ctx, "x")
	noErr(t, err)
	if h := in.Holders[0]; h.Token != next.Token() || h.Value != "next" {
		t.Errorf("%+v", h)
	}
	noErr(t, next.Unlock(ctx))
	inside.Retract(next)
	ms.givenBack("redlock:leader:*")
	for _, want := range []string{"a\x00b", "next", ""} {
		msg, err := heard.ReceiveMessage(ctx)
		noErr(t, err)
		if said, ok := protocol.ParseAnnouncement(msg.Payload); said.Value != want || ok != (want != "") {
			t.Errorf("heard %q, want %q", msg.Payload, want)
		}
	}
}
