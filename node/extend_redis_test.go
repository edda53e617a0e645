// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// A key of another type is a vote that is missing, and costs those behind it nothing. Every other error is the reply to the whole extend.
func TestExtend_keyOfAnotherType_othersAreExtended(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer d.Close()
	noErr(t, d.Do(t.Context(), "acl", "setuser", "limited", "on", ">pw", "~*", "&*", "+@all").Err())
	r := bound(t, "redis://limited:pw@"+s.Addr(), protocol.Binding{})
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
	noErr(t, d.Do(t.Context(), "acl", "setuser", "limited", "-hexists").Err())
	if reply := ask(t, r, extend); reply.Outcome != protocol.Refused || !errors.Is(reply.Err, ErrDenied) {
		t.Errorf("without the right to HEXISTS: %+v", reply)
	}
}
