// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ample is more than anything in these tests takes on a busy machine.
const ample = 30 * time.Second

// rig is a master, a proxy in front of it, and a client that goes past the proxy.
type rig struct {
	*Proxy
	t      testing.TB
	master *localredis.Server
	direct *redis.Client
}

func newRig(t testing.TB, cfg localredis.Config) *rig {
	t.Helper()
	needs.Redis(t)
	s, err := localredis.Start(context.Background(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	p, err := Start(s.Addr())
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	r := &rig{Proxy: p, t: t, master: s}
	r.direct = r.client(s.Addr(), 3)
	return r
}

// client returns a go-redis client as a lock client sets it up, without retries.
func (r *rig) client(addr string, protocol int) *redis.Client {
	r.t.Helper()
	opt, err := redis.ParseURL(r.master.URL())
	must(r.t, err)
	opt.Addr, opt.Protocol = addr, protocol
	opt.MaxRetries, opt.DialerRetries, opt.ContextTimeoutEnabled, opt.DisableIdentity = -1, 1, true, true
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = ample, ample, ample
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
	c := redis.NewClient(opt)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw is a connection on which a test writes pipelines and reads replies one by one.
type raw struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (r *rig) dial() *raw {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.Addr())
	must(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	must(r.t, conn.SetDeadline(time.Now().Add(ample)))
	return &raw{conn, r.t, bufio.NewReader(conn)}
}

// send writes all commands (words separated by blanks) with one write.
func (c *raw) send(cmds ...string) {
	c.t.Helper()
	var b bytes.Buffer
	for _, cmd := range cmds {
		words := strings.Fields(cmd)
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	_, err := c.Write(b.Bytes())
	must(c.t, err)
}

func (c *raw) want(replies ...string) {
	c.t.Helper()
	for _, want := range replies {
		if got, err := c.r.ReadString('\n'); err != nil || got != want+"\r\n" {
			c.t.Fatalf("reply %q, %v; want %q", got, err, want)
		}
	}
}

// wantNothing makes sure that no byte comes within a short time: shorter than any delay in these tests, longer than a loopback round trip.
func (c *raw) wantNothing() {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	if b, err := c.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("read %q, %v; want nothing yet", b, err)
	}
	must(c.t, c.SetReadDeadline(time.Now().Add(ample)))
}

// wantEnd makes sure that the connection is reset (or ended) and nothing comes before.
func (c *raw) wantEnd() {
	c.t.Helper()
	if b, err := io.ReadAll(c.r); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("read %q, %v; want the end of the connection", b, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within bounds a context.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), ample)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(ample); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// named matches commands by name and, if given, first argument.
func named(words ...string) Match {
	return func(cmd [][]byte) bool {
		for i, w := range words {
			if i >= len(cmd) || !strings.EqualFold(string(cmd[i]), w) {
				return false
			}
		}
		return true
	}
}

func TestProxy_noFault_everyKindOfReplyArrives(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			r := newRig(t, localredis.Config{Password: "secret"})
			ctx, c := within(t), r.client(r.Addr(), protocol)
			big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					h, s := fmt.Sprint("h", g), fmt.Sprint("s", g)
					for range 20 {
						cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.HSet(ctx, h, "f", "v")
							p.HGetAll(ctx, h)
							p.Get(ctx, "missing")
							p.Eval(ctx, "return {1, 'two', {3.5, false}, redis.status_reply('ok')}", nil)
							p.ZAdd(ctx, s, redis.Z{Score: 1.5, Member: "m"})
							p.ZRangeWithScores(ctx, s, 0, -1)
							return nil
						})
						if err != redis.Nil || len(cmds) != 6 || cmds[1].(*redis.MapStringStringCmd).Val()["f"] != "v" {
							t.Errorf("%v: %v", err, cmds)
							return
						}
					}
					if err := c.Set(ctx, s+"big", big, 0).Err(); err != nil {
						t.Error(err)
					}
					if got := c.Get(ctx, s+"big").Val(); got != big {
						t.Errorf("big value: %d bytes", len(got))
					}
					if err := c.Do(ctx, "no-such-command").Err(); err == nil || !strings.Contains(err.Error(), "unknown command") {
						t.Errorf("error reply: %v", err)
					}
				})
			}
			wg.Wait()

			sub := c.Subscribe(ctx, "channel")
			defer sub.Close()
			_, err := sub.Receive(ctx)
			must(t, err)
			for i := range 3 {
				must(t, c.Publish(ctx, "channel", fmt.Sprint(i)).Err())
				msg, err := sub.ReceiveMessage(ctx)
				must(t, err)
				if msg.Payload != fmt.Sprint(i) {
					t.Errorf("message %d: %q", i, msg.Payload)
				}
				must(t, sub.Ping(ctx))
				_, err = sub.ReceiveTimeout(ctx, ample)
				must(t, err)
			}
		})
	}
}

func TestProxy_inlineAndEmptyCommands_pairedRight(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	slow := r.SlowReply(named("incr"), time.Millisecond)
	_, err := c.Write([]byte("SET k 5\r\n\r\n*0\r\nINCR k\r\n"))
	must(t, err)
	c.want("+OK", ":6")
	if slow.Hits() != 1 {
		t.Errorf("%d hits", slow.Hits())
	}
}

func TestProxy_notRESP_closed(t *testing.T) {
	r := newRig(t, localredis.Config{})
	for _, bad := range []string{"*1\r\n:5\r\n", "*x\r\n", "*1\r\n$-1\r\n", "*1\r\n$99999999999\r\n", "*-2\r\n"} {
		c := r.dial()
		_, err := c.Write([]byte(bad))
		must(t, err)
		c.wantEnd()
	}
}

func TestProxy_masterDown_clientResetUntilItIsBack(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	c.send("PING")
	c.want("+PONG")
	must(t, r.master.Kill())
	c.wantEnd()
	if conn, err := net.Dial("tcp", r.Addr()); err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
	} else if !errors.Is(err, syscall.ECONNRESET) { // the reset can be there before the dialler looks
		t.Errorf("dial: %v", err)
	}
	must(t, r.master.Restart(within(t)))
	c = r.dial()
	c.send("PING")
	c.want("+PONG")
}

func TestDelay_pipelinedStream_addedOnceNotPerMessage(t *testing.T) {
	stall.Try(t, time.Second/2, func(t testing.TB) {
		r := newRig(t, localredis.Config{})
		c := r.dial()
		const each, n = 40 * time.Millisecond, 100
		r.Set(ToMaster, Fault{Delay: each})
		r.Set(ToClient, Fault{Delay: each})
		begin := time.Now()
		var first time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range n {
				c.want(fmt.Sprint(":", i+1))
				if i == 0 {
					first = time.Since(begin)
				}
			}
		}()
		for range n { // one write each, so the proxy sees n messages
			c.send("INCR k")
			time.Sleep(100 * time.Microsecond)
		}
		<-done
		if all := time.Since(begin); first < 2*each || all > 20*each {
			t.Errorf("first reply after %v, all after %v; want at least %v and far below %v", first, all, 2*each, n*2*each)
		}
		if got := r.Stats().Delayed; got != 2*n {
			t.Errorf("%d messages delayed, want %d", got, 2*n)
		}
	})
}

func TestDelay_jitter_repeatableFromSeedAndInOrder(t *testing.T) {
	dues := func(seed uint64) (waits []time.Duration) {
		p, err := Start("127.0.0.1:1") // nothing connects
		must(t, err)
		defer p.Close()
		p.Set(ToMaster, Fault{Jitter: time.Hour, Seed: seed})
		p.mu.Lock()
		defer p.mu.Unlock()
		begin := time.Now()
		for range 20 {
			c := &conn{p: p}
			c.streams[ToMaster] = &stream{wake: make(chan struct{}, 1)}
			c.push(ToMaster, []byte("x"), 0, more)
			waits = append(waits, c.streams[ToMaster].queue[0].due.Sub(begin).Round(time.Second))
		}
		c := &conn{p: p}
		c.streams[ToMaster] = &stream{wake: make(chan struct{}, 1)}
		for range 100 {
			c.push(ToMaster, []byte("x"), 0, more)
		}
		q := c.streams[ToMaster].queue
		for i := range q[1:] {
			if q[i].due.After(q[i+1].due) {
				t.Fatalf("message %d overtakes", i+1)
			}
		}
		return waits
	}
	one, again, other := fmt.Sprint(dues(1)), fmt.Sprint(dues(1)), fmt.Sprint(dues(2))
	if one != again || one == other {
		t.Errorf("seed 1: %s\nseed 1: %s\nseed 2: %s", one, again, other)
	}
}

func TestDelay_eitherSideCloses_allBeforeItArrivesThenEOF(t *testing.T) {
	r := newRig(t, localredis.Config{})
	r.Set(ToClient, Fault{Delay: 30 * time.Millisecond})
	for name, last := range map[string]func(*raw){
		"client": func(c *raw) { must(t, c.Conn.(*net.TCPConn).CloseWrite()) },
		"master": func(c *raw) { c.send("QUIT"); c.want(":1", "+OK") },
	} {
		t.Run(name, func(t *testing.T) {
			must(t, r.direct.Del(within(t), "k").Err())
			c := r.dial()
			c.send("INCR k")
			last(c)
			if name == "client" {
				c.want(":1")
			}
			if b, err := io.ReadAll(c.r); len(b) > 0 || err != nil {
				t.Errorf("read %q, %v; want EOF", b, err)
			}
		})
	}
}

func TestStall_toMaster_commandsExecutedAfterHealThoughClientGone(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	c.send("PING")
	c.want("+PONG")
	r.Set(ToMaster, Fault{Stall: true})
	c.send("SET k late")
	c.wantNothing()
	must(t, c.Close())
	eventually(t, "the command is stalled", func() bool { return r.Stats().Stalled > 0 })
	if got := r.direct.Exists(within(t), "k").Val(); got != 0 {
		t.Fatal("executed during the stall")
	}
	must(t, r.Heal())
	eventually(t, "the command of a client long gone is executed", func() bool { return r.direct.Get(within(t), "k").Val() == "late" })
}

func TestStall_toClient_executedAtOnceRepliesAfterHeal(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	r.Set(ToClient, Fault{Stall: true})
	c.send("INCR k", "INCR k")
	eventually(t, "both executed", func() bool { return r.direct.Get(within(t), "k").Val() == "2" })
	c.wantNothing()
	must(t, r.Heal())
	c.want(":1", ":2")
}

func TestDrop_eitherDirection_silentThenCutByHeal(t *testing.T) {
	for dir, executed := range map[Direction]string{ToMaster: "", ToClient: "1"} {
		t.Run(fmt.Sprint(dir), func(t *testing.T) {
			r := newRig(t, localredis.Config{})
			hit, idle := r.dial(), r.dial()
			for _, c := range []*raw{hit, idle} {
				c.send("PING")
				c.want("+PONG")
			}
			r.Set(dir, Fault{Drop: true})
			hit.send("INCR k")
			eventually(t, "dropped", func() bool { return r.Stats().Dropped == 1 })
			hit.wantNothing()
			must(t, r.Heal())
			hit.wantEnd()
			idle.send("GET k") // lost nothing, so lives on
			if executed == "" {
				idle.want("$-1")
			} else {
				idle.want("$1", executed)
			}
		})
	}
}

func TestRefuse_newRefusedOldLive_sameAddressAfterwards(t *testing.T) {
	r := newRig(t, localredis.Config{})
	c := r.dial()
	c.send("PING")
	c.want("+PONG")
	for range 3 {
		must(t, r.Refuse(true))
		must(t, r.Refuse(true))
		if conn, err := net.Dial("tcp", r.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			if err == nil {
				conn.Close()
			}
			t.Fatalf("dial: %v", err)
		}
		c.send("PING")
		c.want("+PONG")
		must(t, r.Heal())
		d := r.dial()
		d.send("PING")
		d.want("+PONG")
	}
	must(t, r.Refuse(true)) // and closes while refusing
}

func TestCut_allConnections_reset(t *testing.T) {
	r := newRig(t, localredis.Config{})
	conns := []*raw{r.dial(), r.dial()}
	for _, c := range conns {
		c.send("PING")
		c.want("+PONG")
	}
	if n := r.Cut(); n != 2 {
		t.Errorf("cut %d", n)
	}
	for _, c := range conns {
		if _, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
	}
	if s := r.Stats(); s.Cuts != 2 || s.Connections != 2 || s.Commands != 2 || s.Replies != 2 || s.BytesToMaster != 28 || s.BytesToClient != 14 {
		t.Errorf("%+v", s)
	}
}

func TestClose_everythingInFlight_nothingLeft(t *testing.T) {
	r := newRig(t, localredis.Config{})
	held := r.Hold(named("set"))
	c := r.dial()
	c.send("PING", "SET k v", "GET k")
	must(t, held.Wait(within(t)))
	r.Set(ToMaster, Fault{Stall: true})
	r.Set(ToClient, Fault{Delay: time.Hour})
	c.send("PING")
	r.dial().send("PING")
	must(t, r.Close())
	must(t, r.Close())
	if err := r.Refuse(false); err == nil {
		t.Error("listens again after Close")
	}
	if reply, err := held.Deliver(within(t)); err != nil || string(reply) != "+OK\r\n" { // what is held outlives the proxy
		t.Errorf("Deliver = %q, %v", reply, err)
	}
	// goleak in TestMain is the judge of the rest
}
