// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// statOf is a number in INFO of d's server, such as cmdstat_eval:calls. It is 0 if there is none.
func statOf(t *testing.T, d *redis.Client, name string) int {
	t.Helper()
	_, after, found := strings.Cut(d.Info(t.Context(), "stats").Val()+d.Info(t.Context(), "commandstats").Val(), name)
	if !found {
		return 0
	}
	text := after[1:] // behind a colon or an equals sign
	n, err := strconv.Atoi(text[:strings.IndexAny(text, ",\r")])
	noErr(t, err)
	return n
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

// Whatever the user lacks, the greeting finds it and names it. What a server says of it in a script differs by version, and for a command, a
// key, a channel and a command that needs the right to write.
func TestReady_rightMissing_namesIt(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	without := func(keys, channels string, more ...any) []any {
		rights := []any{"reset", "on", ">pw", "resetchannels", "+@all"}
		for _, word := range append(strings.Fields(keys), strings.Fields(channels)...) {
			rights = append(rights, word)
		}
		return append(rights, more...)
	}
	r0, d, acl := limited(t, protocol.Binding{}, everything...)
	noErr(t, r0.Ready(t.Context()))
	url := "redis://limited:pw@" + d.Options().Addr
	for says, rights := range map[string][]any{
		"zrank on redlock:queue:{redlock:check}":            without("~*", "&*", "-zrank"),
		"set on redlock:alive:check":                        without("~redlock:check ~redlock:node ~redlock:queue:* ~redlock:rest:*", "&*"),
		"publish on redlock:wake:check":                     without("~*", "&redisson_*"),
		"publish on redisson_rwlock:{redlock:check}":        without("~*", "&redlock:wake:* &redisson_lock_*"),
		"publish on redisson_lock__channel:{redlock:check}": without("~*", "&redlock:wake:* &redisson_rwlock*"),
	} {
		acl(rights...)
		err := bound(t, url, protocol.Binding{}).Ready(t.Context())
		if !errors.Is(err, ErrDenied) || !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "unreachable") {
			t.Errorf("without %s: %v", says, err)
		}
	}
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
	stat := func(name string) int { return statOf(t, d, name) }
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

// A command that the user may not run any more is denied for every lock. The lane looks which it is, asks for no votes, and says so, until the
// user has it again. A key that is denied concerns one lock, and a command that no lock needs none. No denial ends the connection.
func TestLane_rightIsTakenAway_asksForNoVoteUntilItIsBack(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	acquire := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("other", protocol.Plain), Holder: "h", Token: 1}
	list := protocol.Request{Kind: protocol.ListLocks, Cursor: "0", Prefix: "redlock:"}
	for _, tc := range []struct {
		name       string
		take, give []any
		denied     protocol.Request
		says       string // of Ready; empty: it says nothing
	}{
		{"a key", []any{"resetkeys", "~locks:*", "~redlock:*"}, []any{"~*"}, acquire, ""},
		{"a command that no lock needs", []any{"-scan"}, []any{"+scan"}, list, ""},
		{"a command", []any{"-hset"}, []any{"+hset"}, acquire, "lacks, hset"},
		{"EVALSHA", []any{"-evalsha"}, []any{"+evalsha"}, acquire, "evalsha"},
		{"INFO", []any{"-info"}, []any{"+info"}, acquire, "info"},
		{"TIME", []any{"-time"}, []any{"+time"}, acquire, "time"},
	} {
		var told atomic.Pointer[error]
		r, d, acl := limited(t, protocol.Binding{Writes: func(err error) { told.Store(&err) }}, everything...)
		noErr(t, r.Ready(t.Context()))
		before := statOf(t, d, "total_connections_received")
		acl(tc.take...)
		soon(t, tc.name+" is denied, and Ready says it", func() bool {
			reply, err := ask(t, r, tc.denied), r.Ready(t.Context())
			return errors.Is(reply.Err, ErrDenied) && (err == nil) == (tc.says == "") && strings.Contains(fmt.Sprint(err), tc.says)
		})
		if why := told.Load(); tc.says != "" && (why == nil || !errors.Is(*why, ErrDenied) || !strings.Contains((*why).Error(), tc.says)) {
			t.Errorf("%s: the coordinator was told %v", tc.name, why)
		}
		if reply := ask(t, r, acquire); tc.says != "" && (reply.Outcome != protocol.NotSent || !errors.Is(reply.Err, ErrDenied)) {
			t.Errorf("%s: a vote is asked for: %+v", tc.name, reply)
		}
		acl(tc.give...)
		soon(t, tc.name+" is back", func() bool { return r.Ready(t.Context()) == nil && ask(t, r, tc.denied).Outcome == protocol.Granted })
		if why := told.Load(); why != nil && *why != nil {
			t.Errorf("%s is back: the coordinator was told %v", tc.name, *why)
		}
		if n := statOf(t, d, "total_connections_received") - before; n != 0 {
			t.Errorf("%s: %d more connections", tc.name, n)
		}
	}
}

// A right that is back when the lane looks is looked for again when it is denied the next time, with the same text too: Redis before 7.2 does not
// say which command a script may not call. Denials of which no look finds the cause cost one look a second.
func TestLane_deniedAgain_looksAgain(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	r, d, acl := limited(t, protocol.Binding{}, append(everything, "-scan")...)
	noErr(t, r.Ready(t.Context()))
	looks, began := statOf(t, d, "cmdstat_eval:calls"), time.Now()
	for range 50 {
		if reply := ask(t, r, protocol.Request{Kind: protocol.ListLocks, Cursor: "0"}); !errors.Is(reply.Err, ErrDenied) {
			t.Fatalf("%+v", reply)
		}
	}
	if n := statOf(t, d, "cmdstat_eval:calls") - looks; n > 1+int(time.Since(began)/rightsEvery) {
		t.Errorf("%d looks", n)
	}
	acl("-hset")
	now := r.clock.Elapsed()
	acquire := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h", Token: 1, TTL: time.Minute, Start: now, Deadline: now + time.Minute}
	restored := make(chan error, 1)
	r.Submit(&protocol.Op{Request: &acquire, To: receives(func(op *protocol.Op) {
		if !errors.Is(op.Reply.Err, ErrDenied) {
			t.Errorf("%+v", op.Reply)
		}
		restored <- d.Do(t.Context(), "acl", "setuser", "limited", "+hset").Err() // before the lane goes on
	})})
	noErr(t, <-restored)
	soon(t, "it votes", func() bool { return ask(t, r, acquire).Outcome == protocol.Granted }) // a look that came in between found it missing
	acl("-hset")
	acquire.Lock = protocol.NewLock("y", protocol.Plain)
	if reply := ask(t, r, acquire); !errors.Is(reply.Err, ErrDenied) {
		t.Errorf("%+v", reply)
	}
	soon(t, "Ready says it", func() bool { return errors.Is(r.Ready(t.Context()), ErrDenied) })
}

type receives func(op *protocol.Op)

func (f receives) Receive(op *protocol.Op) { f(op) }

// What is queued behind an op that is denied is sent before Close returns.
func TestClose_behindADeniedOp_releasesAreSent(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	const n = maxPipeline + 100
	r, d, acl := limited(t, protocol.Binding{}, everything...)
	noErr(t, r.Ready(t.Context()))
	of := func(kind protocol.Kind, i int) *protocol.Request {
		now := r.clock.Elapsed()
		return &protocol.Request{Kind: kind, Lock: protocol.NewLock("l"+strconv.Itoa(i), protocol.Plain), Holder: "h", Token: 1, Start: now, Deadline: now + time.Minute, TTL: time.Minute}
	}
	got := make(received, 2*n+1)
	submit := func(req *protocol.Request) {
		if op := (&protocol.Op{Request: req, To: got}); !r.Submit(op) {
			t.Fatal(op.Reply.Err)
		}
	}
	for i := range n {
		submit(of(protocol.Acquire, i))
	}
	for range n {
		<-got
	}
	acl("-hset")
	submit(of(protocol.Acquire, n))
	for i := range n {
		submit(of(protocol.Release, i))
	}
	noErr(t, r.Close())
	if left := d.Keys(t.Context(), "l*").Val(); len(left) != 0 {
		t.Errorf("%d of %d locks are left", len(left), n)
	}
}
