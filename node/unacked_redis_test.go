// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// A waiter gives up its place while the master is out of reach, and takes a new place later,
// under another holder id. The first place goes, and the second stays.
func TestLane_leaveKeptOverAnOutage_laterPlaceStays(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	r := bound(t, s.URL(), protocol.Binding{})
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer d.Close()
	lock, waiter := protocol.NewLock("x", protocol.Plain), strings.Repeat("w", 36)
	acquire := func(holder string, ticket int64) protocol.Request {
		return protocol.Request{Kind: protocol.Acquire, Lock: lock, Holder: holder, Token: 1, TTL: time.Minute,
			Wait: &protocol.Wait{Ticket: ticket, Liveness: time.Minute}}
	}
	if reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: lock, Holder: "holder", Token: 1, TTL: time.Minute}); reply.Outcome != protocol.Granted {
		t.Fatalf("%+v", reply)
	}
	if reply := ask(t, r, acquire(waiter+":1", 0)); reply.Outcome != protocol.Held {
		t.Fatalf("%+v", reply)
	}
	for i := range 200 { // more than go out at once
		leases := protocol.NewLock(fmt.Sprint("y", i), protocol.Plain)
		if reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: leases, Holder: "h", Token: 1, TTL: time.Minute}); reply.Outcome != protocol.Granted {
			t.Fatalf("%+v", reply)
		}
	}
	_ = d.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err()
	_ = d.Do(t.Context(), "acl", "setuser", "default", "-eval").Err() // makes every greeting fail
	soon(t, "the lane finds its connection broken", func() bool {
		return ask(t, r, protocol.Request{Kind: protocol.ReadRecord}).Outcome == protocol.NotSent
	})
	now := r.clock.Elapsed()
	submit := func(req protocol.Request) answers {
		got := make(answers, 1)
		req.Start, req.Deadline = now, now+time.Minute
		if op := (&protocol.Op{Request: &req, To: got}); !r.Submit(op) {
			got <- op.Reply
		}
		return got
	}
	for i := range 200 {
		submit(protocol.Request{Kind: protocol.Release, Lock: protocol.NewLock(fmt.Sprint("y", i), protocol.Plain), Holder: "h"})
	}
	if reply := <-submit(protocol.Request{Kind: protocol.Release, Lock: lock, Holder: waiter + ":1"}); reply.Outcome != protocol.Unknown {
		t.Fatalf("%+v", reply)
	}
	if kept, _ := r.Unacknowledged(); kept != 201 {
		t.Fatalf("%d are kept, want 201", kept)
	}
	noErr(t, d.Do(t.Context(), "acl", "setuser", "default", "+eval").Err())
	soon(t, "it takes a place anew", func() bool { return ask(t, r, acquire(waiter+":2", 0)).Outcome == protocol.Held })
	soon(t, "all is acknowledged", func() bool { kept, _ := r.Unacknowledged(); return kept == 0 })
	if places := d.ZRange(t.Context(), "redlock:queue:{x}", 0, -1).Val(); len(places) != 1 || places[0] != waiter+":2/x/" {
		t.Errorf("%q wait, want the one that queued last", places)
	}
	if n := d.Exists(t.Context(), "y0", "y199").Val(); n != 0 {
		t.Errorf("%d votes are left", n)
	}
}

// hasNoTTL reports whether key is there, and for ever. One that was over meanwhile had a TTL.
func hasNoTTL(t *testing.T, d *redis.Client, key string) bool {
	t.Helper()
	ttl, err := d.PTTL(t.Context(), key).Result()
	noErr(t, err)
	return ttl == -1
}

// untilItVotes waits until r votes. A test that takes a right away at any time wants that first: where the machine was slow the lane has asked for
// something behind an earlier call that was refused too, and greets the master again.
func untilItVotes(t *testing.T, r *redisNode) {
	t.Helper()
	req := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("locks:ready", protocol.Plain), Holder: "44444444-4444-8444-8444-444444444444:1", Token: 1}
	soon(t, "it votes again", func() bool { return ask(t, r, req).Outcome == protocol.Granted })
}

// Whichever command a master refuses in the middle of a script, no key is left without a TTL.
func TestScripts_anyCommandRefused_noKeyWithoutTTL(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	r, d, acl := limited(t, protocol.Binding{}, everything...)
	const client = "11111111-1111-4111-8111-111111111111"
	noErr(t, r.Ready(t.Context()))
	refused := 0
	for _, cmd := range []string{"hset", "pexpire", "set", "get", "hget", "hexists", "hkeys", "pttl", "exists", "zadd", "zrem", "zrange", "zrank", "zpopmin",
		"zscore", "time", "hmget", "publish", "del", "hdel", "~locks:* ~redlock:*", "~{locks:*", "~locks:*"} {
		for _, mode := range []protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
			for _, waits := range []*protocol.Wait{nil, {Liveness: time.Second}, {Liveness: time.Second, Ticket: 5}} {
				for _, kind := range []protocol.Kind{protocol.Acquire, protocol.TopUp} {
					untilItVotes(t, r)
					noErr(t, d.FlushAll(t.Context()).Err())
					if waits != nil { // it finds a queue
						noErr(t, d.ZAdd(t.Context(), "redlock:queue:{locks:x}", redis.Z{Score: 5, Member: client}).Err())
						noErr(t, d.PExpire(t.Context(), "redlock:queue:{locks:x}", time.Minute).Err())
					}
					if strings.HasPrefix(cmd, "~") {
						acl("resetkeys")
						for _, pattern := range strings.Fields(cmd) {
							acl(pattern)
						}
					} else {
						acl("-" + cmd)
					}
					reply := ask(t, r, protocol.Request{Kind: kind, Lock: protocol.NewLock("locks:x", mode), Holder: client + ":1", TTL: time.Minute, Token: 1, Count: 1, Wait: waits})
					if reply.Outcome == protocol.Refused {
						refused++
					}
					for _, key := range d.Keys(t.Context(), "*").Val() {
						if hasNoTTL(t, d, key) && key != protocol.RecordKey {
							t.Errorf("%s of %c, waits %+v, without %s: %q has no TTL; answered %+v", kind, mode, waits, cmd, key, reply)
						}
					}
					if held := d.HExists(t.Context(), "locks:x", protocol.NewLock("locks:x", mode).Field(client+":1")).Val(); held && reply.Outcome == protocol.Refused {
						t.Errorf("%s of %c, waits %+v, without %s: refused, and the vote is there", kind, mode, waits, cmd)
					}
					acl("~*", "+@all")
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d calls were refused", refused)
	}
}

// Nor is one left by a release that hands the lock, or by an adoption, whose order of writes is the same: the counter, the
// vote, its TTL. The counter does not fall, the place that is not handed the lock is still there, and no vote
// stands above its counter.
func TestScripts_anyCommandRefusedInAHandOrAdopt_nothingHalf(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	r, d, acl := limited(t, protocol.Binding{}, everything...)
	noErr(t, r.Ready(t.Context()))
	l := protocol.NewLock("x", protocol.Plain)
	tries, handed, adopted, failed := 0, 0, 0, 0
	for _, cmd := range []string{"none", "hset", "pexpire", "set", "get", "hget", "hexists", "hkeys", "pttl", "exists", "zadd", "zrem", "zrange", "zpopmin", "zrank",
		"zscore", "time", "hmget", "publish", "pubsub", "del", "hdel", "~redlock:*", "~x"} {
		for _, adopts := range []bool{false, true} {
			tries++
			// Nobody takes a lock twice: what is owed of an attempt may be sent again later, and is of that attempt.
			holder, waiter, adopter := fmt.Sprintf("11111111-1111-8111-8111-111111111111:%d", tries), fmt.Sprintf("22222222-2222-8222-8222-222222222222:%d", tries), fmt.Sprintf("33333333-3333-8333-8333-333333333333:%d", tries)
			untilItVotes(t, r)
			noErr(t, d.FlushAll(t.Context()).Err())
			noErr(t, d.HSet(t.Context(), protocol.RecordKey, l.Counter, 7).Err())
			ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: holder, TTL: time.Minute, Token: 1})
			if !adopts {
				ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: waiter, TTL: time.Minute, Token: 1, Wait: &protocol.Wait{Ticket: 5, Liveness: time.Minute}})
			}
			switch {
			case strings.HasPrefix(cmd, "~"):
				acl("resetkeys", cmd)
			case cmd != "none":
				acl("-" + cmd)
			}
			heir := waiter
			var reply protocol.Reply
			if adopts {
				heir = adopter
				reply = ask(t, r, protocol.Request{Kind: protocol.Adopt, Lock: l, Holder: adopter, From: holder, TTL: time.Minute, Token: 20})
			} else {
				reply = ask(t, r, protocol.Request{Kind: protocol.Release, Lock: l, Holder: holder, Hand: time.Minute, Token: 20})
			}
			acl("~*", "+@all")
			at := fmt.Sprintf("without %s, adopts %t, answered %+v", cmd, adopts, reply)
			for _, key := range d.Keys(t.Context(), "*").Val() {
				if hasNoTTL(t, d, key) && key != protocol.RecordKey {
					t.Errorf("%s: %q has no TTL", at, key)
				}
			}
			has := d.HExists(t.Context(), "x", heir).Val()
			counter, _ := d.HGet(t.Context(), protocol.RecordKey, l.Counter).Int64()
			if counter < 8 || has && counter < 20 {
				t.Errorf("%s: the counter is %d, the heir has the vote: %t", at, counter, has)
			}
			waits := d.ZCard(t.Context(), l.Queue).Val() == 1
			switch {
			case has && adopts:
				adopted++
			case has:
				handed++
			default:
				failed++
			}
			if !adopts && waits == has && cmd != "zrem" && cmd != "pexpire" { // without PEXPIRE no place can be put back
				t.Errorf("%s: it has the vote: %t, and its place: %t", at, has, waits)
			}
			if gone := !d.HExists(t.Context(), "x", holder).Val(); adopts && gone && !has {
				t.Errorf("%s: nobody has the vote", at)
			}
			ask(t, r, protocol.Request{Kind: protocol.Release, Lock: l, Holder: holder}) // what is owed since
		}
	}
	if handed < 5 || adopted < 5 || failed < 5 {
		t.Errorf("%d handed, %d adopted, %d failed", handed, adopted, failed)
	}
}

// A user without rights to the keys that are derived from a read lock's name can take plain
// locks. The error of a read lock names the missing right, and no key is left.
func TestACL_derivedKeyMissing_toldAndNothingLeft(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	var id protocol.Identity
	r, d, _ := limited(t, protocol.Binding{Admit: func(got protocol.Identity) error { id = got; return nil }}, someLocks...)
	noErr(t, r.Ready(t.Context()))
	if len(id.NoReaders) == 0 || !strings.Contains(id.NoReaders[0], "{redlock:check}:") {
		t.Errorf("found on connecting: %q", id.NoReaders)
	}
	for _, mode := range []protocol.Mode{protocol.Plain, protocol.Write} {
		l := protocol.NewLock(fmt.Sprintf("locks:%c", mode), mode)
		if reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "h", Token: 1}); reply.Outcome != protocol.Granted {
			t.Errorf("%c: %+v", mode, reply)
		}
	}
	reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("locks:r", protocol.Read), Holder: "h", Token: 1})
	if reply.Outcome != protocol.Refused || !strings.Contains(reply.Err.Error(), "grant") {
		t.Errorf("%+v", reply)
	}
	if n := d.Exists(t.Context(), "locks:r").Val(); n != 0 {
		t.Error("a hash is left")
	}
}

// A master that cannot check the user's rights at first checks them later.
func TestACL_masterLoadingAtFirst_rightsTriedLater(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	r, d, _ := limited(t, protocol.Binding{}, append(everything[:len(everything):len(everything)], "-pexpire")...)
	// A master that runs a script answers BUSY to everything.
	noErr(t, d.ConfigSet(t.Context(), "lua-time-limit", "1").Err())
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		_ = d.Eval(t.Context(), "local t = redis.call('time')[1]; while redis.call('time')[1] - t < 1 do end", nil).Err()
	}()
	time.Sleep(20 * time.Millisecond)
	_ = r.Ready(t.Context())
	<-busy
	soon(t, "the missing right is named", func() bool {
		reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h", Token: 1})
		return reply.Err != nil && strings.Contains(reply.Err.Error(), "pexpire")
	})
	if n := d.Exists(t.Context(), "x").Val(); n != 0 {
		t.Error("a vote is left")
	}
}

// Every path through the script refuses a counter below 0.
func TestAcquire_negativeCounter_refused(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	r := bound(t, s.URL(), protocol.Binding{})
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer d.Close()
	l, other := protocol.NewLock("x", protocol.Plain), protocol.NewLock("y", protocol.Plain)
	noErr(t, d.HSet(t.Context(), protocol.RecordKey, l.Counter, "-5", other.Counter, "-5").Err())
	for name, wait := range map[string]*protocol.Wait{"alone": nil, "waits": {Liveness: time.Second}} {
		reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "h", Token: 1, Wait: wait})
		if reply.Outcome != protocol.Refused || !strings.Contains(reply.Err.Error(), "-5") {
			t.Errorf("%s: %+v", name, reply)
		}
	}
	// And two in one call.
	got := make(answers, 2)
	now := r.clock.Elapsed()
	for i, l := range []*protocol.Lock{l, other} {
		r.Submit(&protocol.Op{To: got, Request: &protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "h", Token: 1, TTL: time.Second,
			Start: now, Deadline: now + time.Minute, More: i == 0}})
	}
	for range 2 {
		if reply := <-got; reply.Outcome != protocol.Refused {
			t.Errorf("two at once: %+v", reply)
		}
	}
}
