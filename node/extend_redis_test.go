// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A key of another type is a vote that is missing, and costs those behind it nothing. Every other error is the reply to the whole extend.
func TestExtend_keyOfAnotherType_othersAreExtended(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	r, d, acl := limited(t, protocol.Binding{}, everything...)
	extend := protocol.Request{Kind: protocol.Extend, TTL: time.Minute}
	for _, name := range []string{"first", "taken", "last"} {
		l := protocol.NewLock(name, protocol.Plain)
		extend.Items = append(extend.Items, protocol.Item{Lock: l, Holder: "h"})
		if reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "h", Token: 1}); reply.Outcome != protocol.Granted {
			t.Fatalf("%+v", reply)
		}
	}
	noErr(t, d.Set(t.Context(), "taken", "text", 0).Err())
	if reply := ask(t, r, extend); reply.Outcome != protocol.Granted || !slices.Equal(reply.Intact, []bool{true, false, true}) {
		t.Errorf("%+v", reply)
	}
	for _, name := range []string{"first", "last"} {
		if ttl := d.PTTL(t.Context(), name).Val(); ttl < 30*time.Second {
			t.Errorf("%q ends in %v", name, ttl)
		}
	}
	if v := d.Get(t.Context(), "taken").Val(); v != "text" {
		t.Errorf("the key is %q now", v)
	}
	acl("-hexists")
	if reply := ask(t, r, extend); reply.Outcome != protocol.Refused || !errors.Is(reply.Err, ErrDenied) {
		t.Errorf("without the right to HEXISTS: %+v", reply)
	}
}

// The user may not touch one of the locks any more: the master refuses a call that names it, as a whole. Only of that lock it is open then
// whether its vote is there.
func TestExtend_lockNotAllowed_othersAreExtended(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		r, d, acl := limited(t, protocol.Binding{}, everything...)
		extend := protocol.Request{Kind: protocol.Extend, TTL: time.Minute}
		for i, name := range []string{"first", "job", "gone", "last"} {
			l := protocol.NewLock(name, protocol.Plain)
			extend.Items = append(extend.Items, protocol.Item{Lock: l, Holder: "h", Count: i})
			if reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "h", Token: 1}); reply.Outcome != protocol.Granted {
				t.Fatalf("%+v", reply)
			}
		}
		noErr(t, d.Del(t.Context(), "gone").Err())
		acl("resetkeys", "~first", "~gone", "~last", "~redlock:*")
		if forgets {
			noErr(t, d.ScriptFlush(t.Context()).Err())
		}
		if reply := ask(t, r, extend); reply.Outcome != protocol.Granted || !slices.Equal(reply.Intact, []bool{true, false, false, true}) ||
			!slices.Equal(reply.Denied, []bool{false, true, false, false}) {
			t.Errorf("%+v", reply)
		}
		for name, count := range map[string]string{"first": "1", "last": "3"} {
			if ttl := d.PTTL(t.Context(), name).Val(); ttl < 30*time.Second {
				t.Errorf("%q ends in %v", name, ttl)
			}
			if got := d.HGet(t.Context(), name, "h").Val(); got != count {
				t.Errorf("the hold count of %q is %s, want %s", name, got, count)
			}
		}
		acl("resetkeys", "~redlock:*")
		if reply := ask(t, r, extend); reply.Outcome != protocol.Refused || !errors.Is(reply.Err, ErrDenied) {
			t.Errorf("a user that may touch none of the locks: %+v", reply)
		}
		acl("~*")
		noErr(t, d.Del(t.Context(), protocol.RecordKey).Err())
		noErr(t, d.HSet(t.Context(), protocol.RecordKey, "state", "another").Err())
		acl("resetkeys", "~last", "~redlock:*")
		var state *protocol.RecordStateError
		if reply := ask(t, r, extend); reply.Outcome != protocol.Refused || !errors.As(reply.Err, &state) {
			t.Errorf("a master in another state, which denies the first locks: %+v", reply)
		}
	}
}

// The script derives the key with a reader's TTL, so a user that may touch the lock's own key only is refused when the script has run in
// part. That costs the other locks nothing either.
func TestExtend_keyOfAReaderNotAllowed_othersAreExtended(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	r, d, acl := limited(t, protocol.Binding{}, everything...)
	extend := protocol.Request{Kind: protocol.Extend, TTL: time.Minute}
	for _, l := range []*protocol.Lock{protocol.NewLock("first", protocol.Plain), protocol.NewLock("reads", protocol.Read), protocol.NewLock("last", protocol.Plain)} {
		if reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "h", Token: 1}); reply.Outcome != protocol.Granted {
			t.Fatalf("%+v", reply)
		}
		extend.Items = append(extend.Items, protocol.Item{Lock: l, Holder: "h"})
	}
	acl("resetkeys", "~first", "~reads", "~last", "~redlock:*")
	reply := ask(t, r, extend)
	if reply.Outcome != protocol.Granted || reply.Denied == nil {
		t.Fatalf("%+v", reply)
	}
	for i, item := range extend.Items {
		reads := item.Lock.Mode == protocol.Read
		if reply.Intact[i] == reads || reply.Denied[i] != reads {
			t.Errorf("%s: intact %v, denied %v", item.Lock.Name, reply.Intact[i], reply.Denied[i])
		}
		if ttl := d.PTTL(t.Context(), item.Lock.Key).Val(); ttl < 30*time.Second != reads {
			t.Errorf("%q ends in %v", item.Lock.Name, ttl)
		}
	}
}
