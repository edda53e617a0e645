// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
)

// unread is a connection of a process that does not read as long as its mutex is locked: what it reads then waits in the socket.
type unread struct {
	*net.TCPConn
	mu *sync.Mutex
}

func (u unread) Read(b []byte) (int, error) {
	for !hungUp(u.TCPConn) { // so that the mutex is not locked while it waits
		time.Sleep(100 * time.Microsecond)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.TCPConn.Read(b)
}

// A master whose answer lies in the socket has not stalled, however long ago it was asked: the process was held up. A master that hangs has.
func TestSubmit_answerLiesUnread_masterHasNotStalled(t *testing.T) {
	needs.Redis(t)
	const patience = 50 * time.Millisecond
	s := startMaster(t, localredis.Config{})
	var held sync.Mutex
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return unread{c.(*net.TCPConn), &held}, nil
	}})
	defer client.Close()
	r, err := openClient(client, Config{StallAfter: patience, IOTimeout: time.Minute})
	noErr(t, err)
	defer r.Close()
	r.Bind(protocol.Binding{Admit: func(protocol.Identity) error { return nil }})
	noErr(t, r.Ready(t.Context()))

	got := make(answers, 8)
	submit := func(holder string) (*protocol.Op, bool) {
		req := &protocol.Request{Kind: protocol.Acquire, Lock: protocol.NewLock(holder, protocol.Plain), Holder: holder, TTL: 10 * time.Second, Start: r.clock.Elapsed()}
		req.Deadline = req.Start + time.Minute
		op := &protocol.Op{Request: req, To: got}
		return op, r.Submit(op)
	}
	granted := func(n int) {
		t.Helper()
		for range n {
			if reply := <-got; reply.Outcome != protocol.Granted {
				t.Errorf("%+v", reply)
			}
		}
	}
	asked := func() {
		t.Helper()
		if op, ok := submit("a"); !ok {
			t.Fatal(op.Reply.Err)
		}
		soon(t, "the lane asks", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.busy && len(r.queue) == 0
		})
	}

	held.Lock()
	asked()
	soon(t, "the master answers", func() bool { return hungUp(r.socket) })
	time.Sleep(2 * patience)
	op, ok := submit("b")
	held.Unlock()
	if ok {
		granted(2)
	} else {
		t.Errorf("its answer lies in the socket: %v", op.Reply.Err)
		granted(1)
	}

	noErr(t, s.Pause())
	asked()
	time.Sleep(2 * patience)
	if op, ok := submit("c"); ok || !errors.Is(op.Reply.Err, ErrStalled) {
		t.Errorf("a master that hangs: queued %v, %v", ok, op.Reply.Err)
	}
	noErr(t, s.Resume())
	if reply := <-got; reply.Outcome != protocol.Granted && reply.Outcome != protocol.Held {
		t.Errorf("%+v", reply)
	}
}
