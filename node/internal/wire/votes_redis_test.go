// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// A command that fails for one op of a call is that op's answer. The votes of the others stand,
// and their counters are raised.
func TestVotes_timeDenied_failsOneOp(t *testing.T) {
	needs.Redis(t)
	needs.EveryServer(t)
	s, err := localredis.Start(t.Context(), localredis.Config{})
	noErr(t, err)
	t.Cleanup(func() { _ = s.Close() })
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	noErr(t, client.ScriptLoad(t.Context(), sources[votesSHA]).Err())
	c := &Conn{Keys: KeysOf("", "")}
	first, second := protocol.NewLock("first", protocol.Plain), protocol.NewLock("second", protocol.Plain)
	noErr(t, client.HSet(t.Context(), c.Keys.Record, first.Counter, 7).Err())
	noErr(t, client.Do(t.Context(), "acl", "setuser", "default", "-time").Err())

	var p Pipeline
	p.Reset(c)
	const holder = "11111111-1111-8111-8111-111111111111:1"
	request := protocol.Request{Kind: protocol.Acquire, Holder: holder, TTL: 30 * time.Second}
	behind, beyond := request, request // the counter
	behind.Lock, behind.Token = first, 5
	beyond.Lock, beyond.Token = second, time.Now().UnixMicro()
	p.Add(&behind)
	p.Add(&beyond)
	p.closeCall()
	got, err := client.Do(t.Context(), p.cmds[0].Args()...).Slice()
	noErr(t, err)
	if len(got) != 2 || got[0] != int64(8) {
		t.Fatalf("answers %v, want token 8 and an error", got)
	}
	text, _ := got[1].(string)
	says := func(of string) bool { return strings.Contains(text, of) } // each version in its own words
	if !says("NOPERM") && !says("can't run this command") && !says("no permissions") {
		t.Errorf("the second answer is %v, want what Redis says of TIME", got[1])
	}
	if n, _ := client.HGet(t.Context(), c.Keys.Record, first.Counter).Int64(); n != 8 {
		t.Errorf("the first lock's counter is %d, want 8", n)
	}
	if n, _ := client.Exists(t.Context(), "second").Result(); n != 0 {
		t.Error("the second lock is held")
	}
}
