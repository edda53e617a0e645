// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// A client was idle while its master restarted. Its first op gets an answer, because the lane notices before it sends anything.
func TestLane_masterRestartedWhileIdle_firstOpIsAnswered(t *testing.T) {
	needs.EveryServer(t)
	s := startMaster(t, localredis.Config{})
	r := bound(t, s.URL(), protocol.Binding{})
	noErr(t, r.Ready(t.Context()))
	for i := range 5 {
		noErr(t, s.Kill())
		noErr(t, s.Restart(t.Context()))
		req := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(fmt.Sprint("x", i), protocol.Plain), Holder: "h", TTL: time.Minute, Token: 1}
		if reply := ask(t, r, req); reply.Outcome != protocol.Granted {
			t.Fatalf("restart %d: %+v", i+1, reply)
		}
	}
	noErr(t, r.Close())
}

// receiver does what a test wants with an answer.
type receiver func()

func (r receiver) Receive(*protocol.Op) { r() }

// The lane's thread is held up before it waits for the next op. The connection is idle all the same, and is looked at first.
func TestLane_heldUpWhileIdle_firstOpIsAnswered(t *testing.T) {
	t.Parallel()
	s := startMaster(t, localredis.Config{})
	r := bound(t, s.URL(), protocol.Binding{})
	d := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer d.Close()
	submit := func(name string, to protocol.Receiver) {
		now := r.clock.Elapsed()
		op := &protocol.Op{To: to, Request: &protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(name, protocol.Plain), Holder: "h", Token: 1,
			TTL: time.Minute, Start: now, Deadline: now + time.Minute}}
		if !r.Submit(op) {
			t.Fatalf("%+v", op.Reply)
		}
	}
	answered, goOn, got := make(chan struct{}), make(chan struct{}), make(answers, 1)
	letGo := sync.OnceFunc(func() { close(goOn) })
	defer letGo()
	submit("x", receiver(func() { close(answered); <-goOn }))
	<-answered
	noErr(t, d.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
	submit("y", got)
	time.Sleep(5 * idleAfter)
	letGo()
	if reply := <-got; reply.Outcome != protocol.Granted {
		t.Errorf("%+v", reply)
	}
}

// A connection stays open when it is idle, even for longer than a read may take.
func TestLane_idle_keepsItsConnection(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	stall.Try(t, limit/2, func(t testing.TB) {
		s := startMaster(t, localredis.Config{})
		r, err := openURL(s.URL(), Config{IOTimeout: limit})
		noErr(t, err)
		r.Bind(protocol.Binding{})
		defer r.Close()
		d := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer d.Close()
		connections := func() string {
			info, err := d.Info(t.Context(), "stats").Result()
			noErr(t, err)
			return protocol.InfoField(info, "total_connections_received")
		}
		lock := protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock("x", protocol.Plain), Holder: "h", Token: 1}
		if reply := ask(t, r, lock); reply.Outcome != protocol.Granted {
			t.Fatalf("%+v", reply)
		}
		before := connections()
		time.Sleep(limit * 11 / 10) // longer than the deadline of a read
		if reply := ask(t, r, lock); reply.Outcome != protocol.Granted {
			t.Fatalf("%+v", reply)
		}
		if after := connections(); after != before {
			t.Errorf("%s connections after %s", after, before)
		}
	})
}
