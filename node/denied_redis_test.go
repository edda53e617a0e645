// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node/internal/unacked"
)

// everything are the rights of a user that may do all that a lock needs.
var everything = []any{"~*", "&*", "+@all"}

// someLocks are those of one that may touch the locks with names that begin with locks: and no others.
var someLocks = []any{"~locks:*", "~redlock:*", "&*", "+@all"}

// limited returns a node whose user has these rights, and a client of its server that has all. acl changes the rights.
func limited(t *testing.T, b protocol.Binding, rights ...any) (r *redisNode, d *redis.Client, acl func(rights ...any)) {
	t.Helper()
	return limitedWith(t, Config{DialTimeout: patience}, b, rights...)
}

func limitedWith(t *testing.T, cfg Config, b protocol.Binding, rights ...any) (r *redisNode, d *redis.Client, acl func(rights ...any)) {
	t.Helper()
	s := startMaster(t, localredis.Config{})
	d = redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = d.Close() })
	acl = func(rights ...any) {
		t.Helper()
		noErr(t, d.Do(t.Context(), append([]any{"acl", "setuser", "limited"}, rights...)...).Err())
	}
	acl(append([]any{"on", ">pw"}, rights...)...)
	return boundWith(t, "redis://limited:pw@"+s.Addr(), cfg, b), d, acl
}

// askAll puts all reqs to r, in one pipeline, and waits for their replies.
func askAll(t *testing.T, r *redisNode, reqs ...protocol.Request) []protocol.Reply {
	t.Helper()
	got := make(chan *protocol.Op, len(reqs))
	now := r.clock.Elapsed()
	ops := make([]*protocol.Op, len(reqs))
	for i, req := range reqs {
		req.Start, req.Deadline, req.More = now, now+5*time.Second, i < len(reqs)-1
		ops[i] = &protocol.Op{Request: &req, To: received(got)}
		if !r.Submit(ops[i]) {
			t.Fatalf("%+v", ops[i].Reply)
		}
	}
	replies := make([]protocol.Reply, len(ops))
	for range ops {
		<-got
	}
	for i, op := range ops {
		replies[i] = op.Reply
	}
	return replies
}

type received chan *protocol.Op

func (r received) Receive(op *protocol.Op) { r <- op }

// A user may touch the keys of some locks only. What it asks for another lock is refused, and nothing else that goes out with it: not in
// the same call, and not in the calls behind it.
func TestVotes_lockNotAllowed_refusedAlone(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	const client = "11111111-1111-8111-8111-111111111111"
	op := func(kind protocol.Kind, name string, ttl time.Duration) protocol.Request {
		return protocol.Request{Kind: kind, Lock: protocol.NewLock(name, protocol.Plain), Holder: client + ":1", Token: 1, TTL: ttl}
	}
	waits := op(protocol.Acquire, "locks:held", time.Minute)
	waits.Holder, waits.Wait = client+":2", &protocol.Wait{Ticket: 5, Liveness: time.Minute}
	hands := op(protocol.Release, "locks:handed", 0)
	hands.Hand = time.Minute
	behind := op(protocol.Acquire, "locks:behind", time.Hour) // in a call of its own, because of its TTL
	for i := range 10 {
		at, forgets := i%5, i >= 5
		r, d, _ := limited(t, protocol.Binding{}, someLocks...)
		noErr(t, r.Ready(t.Context()))
		for _, name := range []string{"locks:held", "locks:handed"} {
			if reply := ask(t, r, op(protocol.Acquire, name, time.Minute)); reply.Outcome != protocol.Granted {
				t.Fatalf("%+v", reply)
			}
		}
		if forgets { // the keys are checked first, so the master says nothing of that
			noErr(t, d.ScriptFlush(t.Context()).Err())
		}
		reqs := slices.Insert([]protocol.Request{op(protocol.Acquire, "locks:a", time.Minute), waits, hands, behind}, at, op(protocol.Acquire, "other", time.Minute))
		replies := askAll(t, r, reqs...)
		if refused := replies[at]; refused.Outcome != protocol.Refused || !errors.Is(refused.Err, ErrDenied) {
			t.Errorf("the lock that is not allowed, op %d: %+v", at, refused)
		}
		replies = slices.Delete(replies, at, at+1)
		for i, want := range []protocol.Outcome{protocol.Granted, protocol.Held, protocol.Granted, protocol.Granted} {
			if replies[i].Outcome != want {
				t.Errorf("behind and before op %d, op %d: %+v, want %v", at, i, replies[i], want)
			}
		}
		if replies[0].Token != 1 || replies[1].Ticket != 5 || replies[3].Token != 1 {
			t.Errorf("op %d is refused: %+v", at, replies)
		}
		if d.Exists(t.Context(), "locks:a", "locks:behind").Val() != 2 || d.Exists(t.Context(), "locks:handed", "other").Val() != 0 {
			t.Errorf("op %d is refused: votes are missing, or left", at)
		}
	}
}

// A release that the master refuses, because the user may not touch the lock's keys, is sent again for as long as the vote may be there.
// That refuses nobody else anything.
func TestLane_keptReleaseNotAllowed_othersAreGranted(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	// A pipeline that takes long on a busy host turns nobody away.
	r, d, acl := limitedWith(t, Config{DialTimeout: patience, StallAfter: time.Minute}, protocol.Binding{}, someLocks...)
	noErr(t, r.Ready(t.Context()))
	other := protocol.NewLock("other", protocol.Plain)
	noErr(t, d.HSet(t.Context(), "other", "h", "1").Err()) // a vote of the time when the user had the right
	if reply := ask(t, r, protocol.Request{Kind: protocol.Release, Lock: other, Holder: "h"}); reply.Outcome != protocol.Refused {
		t.Fatalf("%+v", reply)
	}
	until := r.clock.Elapsed() + 5*unacked.Pause
	var callers sync.WaitGroup
	for caller := range 8 { // so many that some ask while the lane takes the release
		callers.Go(func() {
			for i := 0; r.clock.Elapsed() < until; i++ {
				l := protocol.NewLock(fmt.Sprint("locks:", caller, ":", i), protocol.Plain)
				if reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: l, Holder: "h", Token: 1}); reply.Outcome != protocol.Granted {
					t.Errorf("%s: %+v", l.Name, reply)
				}
			}
		})
	}
	callers.Wait()
	if kept, _ := r.Unacknowledged(); kept != 1 {
		t.Errorf("%d releases are kept, want 1", kept)
	}
	acl("~other")
	soon(t, "the vote is given back once the user may", func() bool { return d.Exists(t.Context(), "other").Val() == 0 })
}

// A server without one of the commands is denied like a user without the right to it: redis.conf renames commands, or disables them.
func TestReady_commandRenamed_denied(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	for _, command := range []string{"HDEL", "EVAL", "EVALSHA"} {
		s := startMaster(t, localredis.Config{Args: []string{"--rename-command", command, "RENAMED"}})
		r := bound(t, "redis://"+s.Addr(), protocol.Binding{})
		err := r.Ready(t.Context())
		if !errors.Is(err, ErrDenied) || !strings.Contains(strings.ToUpper(err.Error()), command) || !strings.Contains(err.Error(), "rename-command") {
			t.Errorf("%s: %v", command, err)
		}
	}
	// Only releases of readers call it, so the master votes on everything else.
	s := startMaster(t, localredis.Config{Args: []string{"--rename-command", "HRANDFIELD", "RENAMED"}})
	var id protocol.Identity
	r := bound(t, "redis://"+s.Addr(), protocol.Binding{Admit: func(got protocol.Identity) error { id = got; return nil }})
	if err := r.Ready(t.Context()); err != nil || len(id.NoReaders) != 1 {
		t.Errorf("HRANDFIELD: %v, and readers lack %q", err, id.NoReaders)
	}
}

// A server repeats what a command was given that it does not have. For AUTH and HELLO that is the password.
func TestReady_commandRenamed_tellsNoPassword(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	const secret = "topsecret"
	s := startMaster(t, localredis.Config{Args: []string{"--rename-command", "AUTH", "RENAMED", "--rename-command", "HELLO", "ANOTHER"}})
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer d.Close()
	noErr(t, d.ConfigSet(t.Context(), "requirepass", secret).Err())
	err := bound(t, "redis://:"+secret+"@"+s.Addr(), protocol.Binding{}).Ready(t.Context())
	if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "unknown command") || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

// Without SUBSCRIBE the master votes, and is not asked to subscribe by one connection after another.
func TestSubscribe_commandRenamed_oneConnection(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	s := startMaster(t, localredis.Config{Args: []string{"--rename-command", "SUBSCRIBE", "RENAMED"}})
	r := bound(t, "redis://"+s.Addr(), protocol.Binding{})
	noErr(t, r.Ready(t.Context()))
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer d.Close()
	stat := func(name string) int {
		_, after, _ := strings.Cut(d.Info(t.Context(), "stats").Val(), name+":")
		text, _, _ := strings.Cut(after, "\r")
		n, err := strconv.Atoi(text)
		noErr(t, err)
		return n
	}
	before, was := stat("total_connections_received"), stat("total_error_replies")
	for i := range 5 {
		r.Subscribe(fmt.Sprint("channel", i))
		soon(t, "the channel is refused", func() bool { return stat("total_error_replies") > was+i })
	}
	if n := stat("total_connections_received") - before; n > 1 {
		t.Errorf("%d connections to subscribe", n)
	}
}

// A user may not hear one of the channels. The others are heard, over one connection, and that one too once the user has the right.
func TestSubscribe_channelNotAllowed_othersAreHeard(t *testing.T) {
	t.Parallel()
	subscribed, heard := make(chan string, 100), make(chan string, 100)
	r, d, acl := limited(t, protocol.Binding{
		Subscribed: func(channel string) { subscribed <- channel },
		Message:    func(_, payload string) { heard <- payload },
	}, "~*", "+@all", "resetchannels", "&redlock:*", "&redisson_*check*")
	noErr(t, r.Ready(t.Context()))
	next := func(what string, from chan string) string {
		t.Helper()
		select {
		case got := <-from:
			return got
		case <-time.After(10 * time.Second):
			t.Fatalf("not within 10s: %s", what)
			return ""
		}
	}
	wake, denied := protocol.Wake("client"), protocol.NewLock("x", protocol.Plain).Channel
	r.Subscribe(denied)
	r.Subscribe(wake)
	if got := next("a subscription", subscribed); got != wake {
		t.Errorf("subscribed to %s", got)
	}
	soon(t, "the other one is refused", func() bool {
		_, subscribes, _ := strings.Cut(d.Info(t.Context(), "commandstats").Val(), "cmdstat_subscribe:")
		_, refused, _ := strings.Cut(subscribes, "rejected_calls=")
		return refused != "" && refused[0] > '0'
	})
	noErr(t, d.Publish(t.Context(), wake, "hello").Err())
	if got := next("the message", heard); got != "hello" {
		t.Errorf("heard %q", got)
	}
	acl("&redisson_*")
	if got := next("the right is used", subscribed); got != denied {
		t.Errorf("subscribed to %s again: there was another connection", got)
	}
}

// A command that the user may not run any more is denied for every lock, so the lane greets the master again and says which it is. A key that
// is denied concerns one lock, and ends no connection. A denial that no greeting finds ends one.
func TestLane_rightIsTakenAway_onlyACommandEndsTheConnection(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	acquire := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("other", protocol.Plain), Holder: "h", Token: 1}
	for _, tc := range []struct {
		name        string
		take        []any
		connections int
		says        string // of Ready
	}{
		{"a key", []any{"resetkeys", "~locks:*", "~redlock:*"}, 0, ""},
		{"a command", []any{"-hset"}, 1, "lacks, hset"},
		{"EVALSHA", []any{"-evalsha"}, 1, "evalsha"},
	} {
		r, d, acl := limited(t, protocol.Binding{}, everything...)
		noErr(t, r.Ready(t.Context()))
		connections := func() (n int) {
			_, after, _ := strings.Cut(d.Info(t.Context(), "stats").Val(), "total_connections_received:")
			text, _, _ := strings.Cut(after, "\r")
			n, err := strconv.Atoi(text)
			noErr(t, err)
			return n
		}
		before := connections()
		acl(tc.take...)
		for range 5 {
			if reply := ask(t, r, acquire); !errors.Is(reply.Err, ErrDenied) {
				t.Errorf("%s: %+v", tc.name, reply)
			}
			if tc.says != "" {
				soon(t, tc.name+": Ready says it", func() bool {
					err := r.Ready(t.Context())
					return err != nil && strings.Contains(err.Error(), tc.says)
				})
				break
			}
		}
		if n := connections() - before; tc.says == "" && n != tc.connections || n < tc.connections {
			t.Errorf("%s: %d connections, want %d", tc.name, n, tc.connections)
		}
		if err := r.Ready(t.Context()); tc.says == "" && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	var r redisNode
	unseen := fmt.Errorf("%w: the user can't run this command", ErrDenied)
	if !r.rightTaken(unseen) || r.rightTaken(unseen) {
		t.Error("a denial that the greeting does not find ends more than one connection, or none")
	}
}
