// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// startMaster starts a redis-server of the test's own, or skips the test where
// there is none.
func startMaster(t testing.TB, cfg localredis.Config) *localredis.Server {
	t.Helper()
	needs.Redis(t)
	s, err := localredis.Start(context.Background(), cfg)
	noErr(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// patience is a DialTimeout for greetings on a busy host.
const patience = 10 * time.Second

// bound opens a node, ties it to b and closes it with the test.
func bound(t testing.TB, url string, b protocol.Binding) *redisNode {
	t.Helper()
	return boundWith(t, url, Config{DialTimeout: patience}, b)
}

func boundWith(t testing.TB, url string, cfg Config, b protocol.Binding) *redisNode {
	t.Helper()
	r, err := openURL(url, cfg)
	noErr(t, err)
	if b.Admit == nil {
		b.Admit = func(protocol.Identity) error { return nil }
	}
	r.Bind(b)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// answers receives the reply of one op.
type answers chan protocol.Reply

func (a answers) Receive(op *protocol.Op) { a <- op.Reply }

// ask puts req to r and waits for its reply.
func ask(t testing.TB, r *redisNode, req protocol.Request) protocol.Reply {
	t.Helper()
	if req.TTL == 0 {
		req.TTL = 10 * time.Second
	}
	req.Start = r.clock.Elapsed()
	req.Deadline = req.Start + 5*time.Second
	got := make(answers, 1)
	op := &protocol.Op{Request: &req, To: got}
	if !r.Submit(op) {
		return op.Reply
	}
	return <-got
}

func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// soon waits until ok, for ten seconds at most.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10s: %s", what)
		}
	}
}

// logged collects what go-redis writes to its log.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, v...))
}

// A library must not write to its program's stderr, nor leave goroutines behind.
// go-redis does both when its pool fails to dial. The test is not parallel, because log
// and goroutines belong to the whole process.
func TestLane_masterDown_logsNothingAndProbesAlone(t *testing.T) {
	log := &logged{}
	redis.SetLogger(log)
	defer redis.SetLogger(&logged{})
	s := startMaster(t, localredis.Config{})
	r := bound(t, s.URL(), protocol.Binding{})
	noErr(t, r.Ready(t.Context()))
	replica := startMaster(t, localredis.Config{ReplicaOf: s.Addr()})
	refused := bound(t, replica.URL(), protocol.Binding{})
	if err := refused.Ready(t.Context()); !errors.Is(err, ErrReplica) || !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), `role is "slave"`) {
		t.Errorf("a replica: %v", err)
	}
	noErr(t, s.Kill())
	before := runtime.NumGoroutine()
	soon(t, "the breaker opens", func() bool { // an idle lane does not look
		return errors.Is(ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h"}).Err, ErrDown)
	})
	more := 0
	for range 100 {
		g := runtime.NumGoroutine()
		if more++; g <= before+1 {
			more = 0
		}
		if more == 10 { // both lanes may dial, for a moment. What go-redis starts where a dial fails lasts for a second
			t.Fatalf("%d goroutines, %d before the master died", g, before)
		}
		time.Sleep(10 * time.Millisecond)
	}
	noErr(t, r.Close())
	noErr(t, refused.Close())
	log.mu.Lock()
	defer log.mu.Unlock()
	if len(log.lines) > 0 {
		t.Errorf("%d lines in the log, the first: %s", len(log.lines), log.lines[0])
	}
}

var errAdmit = errors.New("not admitted")

func TestReady_whyAMasterCannotVote_toldWhole(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	s := startMaster(t, localredis.Config{Password: "right"})
	d := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: "right"})
	defer d.Close()
	noErr(t, d.Do(t.Context(), "acl", "setuser", "blind", "on", ">pw", "~*", "&*", "+@all", "-info").Err())
	for name, tc := range map[string]struct {
		url   string
		admit error
		want  error
		says  []string
	}{
		"wrong password": {"redis://:wrong@" + s.Addr(), nil, ErrDown, []string{"WRONGPASS", "check user and password"}},
		"no password":    {"redis://" + s.Addr(), nil, ErrDown, []string{"NOAUTH", "check user and password"}},
		"no INFO":        {"redis://blind:pw@" + s.Addr(), nil, ErrDown, []string{"NOPERM", "info", "grant it"}},
		"not admitted":   {s.URL(), fmt.Errorf("%w: by the coordinator", errAdmit), errAdmit, []string{"by the coordinator"}},
		"nobody there":   {"redis://127.0.0.1:1", nil, ErrDown, []string{"refused"}},
	} {
		r := bound(t, tc.url, protocol.Binding{Admit: func(protocol.Identity) error { return tc.admit }})
		err := r.Ready(t.Context())
		if !errors.Is(err, tc.want) || !errors.Is(err, ErrDown) {
			t.Errorf("%s: %v is not %v", name, err, tc.want)
			continue
		}
		for _, w := range append(tc.says, r.Name()) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not say %q", name, err, w)
			}
		}
		// An op that is submitted now is certainly not sent.
		reply := ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h"})
		if reply.Outcome != protocol.NotSent || !errors.Is(reply.Err, ErrDown) {
			t.Errorf("%s: an acquire is answered %+v", name, reply)
		}
	}
}

// Clients with wrong clocks push the tokens no further than a minute ahead of the master's
// clock: neither at once, nor in many steps of less than a minute.
func TestAcquire_wildProposals_staysAMinuteAheadAtMost(t *testing.T) {
	needs.EveryServer(t)
	t.Parallel()
	r := bound(t, "redis://"+startMaster(t, localredis.Config{}).Addr(), protocol.Binding{})
	ahead := func(d time.Duration) int64 { return time.Now().Add(d).UnixMicro() }
	lock := protocol.NewLock("wild", protocol.Plain)
	take := func(i int, floor int64) int64 {
		t.Helper()
		req := protocol.Request{Kind: protocol.Acquire, Lock: lock, Holder: fmt.Sprintf("11111111-1111-8111-8111-111111111111:%d", i), Token: floor, TTL: time.Minute}
		reply := ask(t, r, req)
		if reply.Outcome != protocol.Granted {
			t.Fatalf("%+v", reply)
		}
		req.Kind = protocol.Release
		ask(t, r, req)
		return reply.Token
	}
	if token, floor := take(0, ahead(30*time.Second)), ahead(30*time.Second); token > floor || token < floor-int64(10*time.Second/time.Microsecond) {
		t.Errorf("a proposal that is half a minute ahead gave %d", token)
	}
	last := int64(0)
	for i := 1; i < 200; i++ {
		token := take(i, ahead(time.Duration(i)*59*time.Second))
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		if last = token; token > ahead(61*time.Second) {
			t.Fatalf("after %d proposals the token is %v ahead", i, time.Until(time.UnixMicro(token)))
		}
	}
}

// A node that cannot use its master tries again and again. It closes the socket of each attempt.
func TestNode_refusedGreeting_closesItsSocket(t *testing.T) {
	t.Parallel()
	s := startMaster(t, localredis.Config{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	var mu sync.Mutex
	dialled, open := 0, 0
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		dialled, open = dialled+1, open+1
		return &countedConn{Conn: c, closed: sync.OnceFunc(func() {
			mu.Lock()
			defer mu.Unlock()
			open--
		})}, nil
	}})
	defer client.Close()
	r, err := openClient(client, Config{DialTimeout: patience})
	noErr(t, err)
	r.Bind(protocol.Binding{})
	defer r.Close()
	if err := r.Ready(t.Context()); !errors.Is(err, ErrEviction) {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		n, left := dialled, open
		mu.Unlock()
		if left > 1 {
			t.Fatalf("%d of %d sockets are open", left, n)
		}
		if n >= 4 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d attempts", n)
		}
	}
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// A master that refuses to write says so in its answer, leaves nothing behind, and owes no release. The node tells when
// that begins and when it ends.
func TestNode_masterRefusesWrites_refusedWithTheReason(t *testing.T) {
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	direct := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer direct.Close()
	told := make(chan error, 10)
	writes := func(err error) { told <- err }
	r := bound(t, s.URL(), protocol.Binding{Writes: writes})
	acquire := func(r *redisNode, mode protocol.Mode) protocol.Reply {
		return ask(t, r, protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", mode), Holder: "h", Token: 1})
	}
	for _, tc := range []struct{ option, bad, good, code string }{
		{"min-replicas-to-write", "1", "0", "NOREPLICAS"}, {"maxmemory", "1", "0", "OOM"},
	} {
		noErr(t, direct.ConfigSet(t.Context(), tc.option, tc.bad).Err())
		for _, mode := range []protocol.Mode{protocol.Plain, protocol.Write, protocol.Read} {
			reply := acquire(r, mode)
			if reply.Outcome != protocol.Refused || !errors.Is(reply.Err, ErrNoWrites) || !strings.Contains(reply.Err.Error(), ": "+tc.code+" ") {
				t.Errorf("%s, mode %v: %v, %v", tc.code, mode, reply.Outcome, reply.Err)
			}
		}
		later := bound(t, s.URL(), protocol.Binding{Writes: writes}) // learns it from the greeting
		noErr(t, later.Ready(t.Context()))
		for range 2 {
			if err := <-told; !errors.Is(err, ErrNoWrites) || !strings.Contains(err.Error(), tc.code) {
				t.Errorf("told of %v", err)
			}
		}
		noErr(t, direct.ConfigSet(t.Context(), tc.option, tc.good).Err())
		for _, r := range []*redisNode{r, later} {
			if reply := acquire(r, protocol.Plain); reply.Outcome != protocol.Granted {
				t.Errorf("%v, %v", reply.Outcome, reply.Err)
			}
			if err := <-told; err != nil {
				t.Errorf("told of %v", err)
			}
		}
		if reply := ask(t, r, protocol.Request{Kind: protocol.Release, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h"}); reply.Outcome != protocol.Granted {
			t.Errorf("%v, %v", reply.Outcome, reply.Err)
		}
		if len(told) > 0 {
			t.Errorf("told twice: %v", <-told)
		}
	}
}

// A master that cannot write to its disk refuses PING as if that were a write (MISCONF). Lane and subscription do not take that for a
// broken connection: the node says what is wrong with the master, and hears its messages.
func TestNode_masterCannotWriteToItsDisk_saysSoAndIsHeard(t *testing.T) {
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	direct := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer direct.Close()
	noErr(t, os.MkdirAll(filepath.Join(s.Dir(), "dump.rdb", "in the way"), 0o755))
	noErr(t, direct.ConfigSet(t.Context(), "save", "3600 1").Err())
	soon(t, "a save fails", func() bool {
		_ = direct.BgSave(t.Context()).Err() // one may be under way
		return strings.Contains(direct.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})

	told, subscribed, heard := make(chan error, 10), make(chan string, 10), make(chan string, 10)
	r := bound(t, s.URL(), protocol.Binding{
		Writes:     func(err error) { told <- err },
		Subscribed: func(channel string) { subscribed <- channel },
		Message:    func(_, payload string) { heard <- payload },
	})
	noErr(t, r.Ready(t.Context()))
	if err := <-told; !errors.Is(err, ErrNoWrites) || !strings.Contains(err.Error(), "MISCONF") {
		t.Errorf("told of %v", err)
	}
	r.Subscribe("news")
	<-subscribed
	soon(t, "a second PING is refused", func() bool {
		_, pings, _ := strings.Cut(direct.Info(t.Context(), "commandstats").Val(), "cmdstat_ping:")
		_, refused, _ := strings.Cut(pings, "rejected_calls=")
		return refused != "" && refused[0] > '1'
	})
	noErr(t, direct.Publish(t.Context(), "news", "hello").Err())
	if got := <-heard; got != "hello" {
		t.Errorf("heard %q", got)
	}
	if len(subscribed) > 0 {
		t.Errorf("subscribed again to %s", <-subscribed)
	}
}

// An earlier connection for messages may end after the next one has subscribed, because a message is still being handled. The node goes on
// to hear the master then.
func TestSubscribe_againWhileAMessageIsHandled_hears(t *testing.T) {
	needs.Redis(t)
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	direct := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = direct.Close() })
	const channel = "redlock:wake:{11111111-1111-4111-8111-111111111111}"
	var runID string
	came, goOn := make(chan struct{}), make(chan struct{})
	r := bound(t, s.URL(), protocol.Binding{
		Admit: func(id protocol.Identity) error {
			runID = id.RunID
			return nil
		},
		Message: func(string, string) {
			close(came)
			<-goOn
		}})
	noErr(t, r.Ready(t.Context()))
	hears := func() bool { return r.sub.hearsFrom(runID) }
	end := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(end)
	r.Subscribe(channel)
	soon(t, "it hears", hears)
	first := r.sub.hears.Load()
	noErr(t, direct.Publish(t.Context(), channel, "x").Err())
	<-came
	r.Unsubscribe(channel)
	soon(t, "the subscription ends", func() bool {
		r.sub.mu.Lock()
		defer r.sub.mu.Unlock()
		return !r.sub.running
	})
	r.Subscribe(channel)
	soon(t, "it hears by another connection", func() bool { return hears() && r.sub.hears.Load() != first })
	end()
	for range 50 { // nobody tells when the first one has ended
		if !hears() {
			t.Fatal("it listens, and says that it does not hear")
		}
		time.Sleep(time.Millisecond)
	}
}
