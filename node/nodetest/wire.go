// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/node/nodetest/internal/resp"
)

// Fault is what happens to one command of a client and to its reply. With the zero
// Fault both arrive at once.
//
// A connection is a stream, as in TCP: no command overtakes another, and if one is late
// or lost, so is everything behind it. When the client closes the connection, for
// example after node.Config.IOTimeout, commands on their way still arrive. A command may
// therefore arrive long after its sender has given it up, and after commands of a later
// connection. A node prevents that: it makes the master kill the old connection. Refuse
// that CLIENT KILL to test late and reordered commands.
type Fault struct {
	// Delay is how long the command is on its way, ReplyDelay the reply.
	Delay, ReplyDelay time.Duration
	// Lose drops the command, or the reply to a command that was executed, and
	// everything that follows it on this connection in this direction.
	Lose Lost
	// Cut breaks the connection for the client right behind the command. Commands that
	// the client sends later are lost, and so are replies that have not arrived yet.
	// Without Cut, a client notices a loss by its own timeout.
	Cut bool
	// Refuse is the master's answer; it does not execute the command. Its first word
	// is Redis's code: LOADING, NOPERM, NOSCRIPT...
	Refuse error
}

// Lost is what a [Fault] loses.
type Lost uint8

const (
	LoseNothing Lost = iota
	LoseCommand      // never executed
	LoseReply        // executed, but the client gets no reply
)

// errDialTimeout is what package net returns when a dial takes too long. Like that one it is a
// context.DeadlineExceeded, although nobody's context ended.
var errDialTimeout = &net.OpError{Op: "dial", Net: "tcp", Err: timeoutError{}}

type timeoutError struct{}

func (timeoutError) Error() string        { return "i/o timeout" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// conn is the client's end of one connection, and the wire behind it. It has no
// goroutine: Write executes the commands that arrive at once, timers execute the others.
type conn struct {
	*resp.Inbox // what the client reads
	n           *Node
	m           *Master
	id          int64

	partial []byte // of a command; the writer's own

	// Guarded by the master's mutex.
	channels map[string]bool // subscribed to
	deaf     bool            // a command was lost: no later one arrives
	mute     bool            // a reply was lost: no later one arrives
	commands []*message      // on their way to the master, in order
	arrive   time.Time       // when the last command is there
}

// message is a command on its way.
type message struct {
	words   []string
	fault   Fault
	arrives time.Time
}

// dialTimeout bounds a dial whose context has no deadline, as go-redis's own dialer does.
const dialTimeout = 5 * time.Second

// dial opens every connection of n.
func (n *Node) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	fault := n.faultFor(Command{Name: "dial"})
	if fault.Lose != LoseNothing {
		<-ctx.Done()
		return nil, errDialTimeout
	}
	if wait := fault.Delay + fault.ReplyDelay; wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errDialTimeout
		}
	}
	m := n.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.up || fault.Cut || fault.Refuse != nil {
		return nil, errors.Join(syscall.ECONNREFUSED, fault.Refuse)
	}
	m.dials++
	c := &conn{n: n, m: m, id: m.dials, Inbox: resp.NewInbox(&m.mu)}
	m.conns = append(m.conns, c)
	return c, nil
}

// Write sends the commands that b completes. It succeeds on a broken connection too: Read
// fails there, after the replies that arrived before.
func (c *conn) Write(b []byte) (int, error) {
	c.partial = append(c.partial, b...)
	for {
		words, rest, err := resp.Parse(c.partial)
		if err != nil {
			return 0, err
		}
		if len(words) == 0 {
			return len(b), nil
		}
		c.partial = rest
		c.send(words, c.n.faultFor(c.m.commandOf(words)))
	}
}

func (c *conn) send(words []string, fault Fault) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.Ended() {
		return
	}
	c.deaf = c.deaf || fault.Lose == LoseCommand
	if !c.deaf {
		c.arrive = later(c.arrive, time.Now().Add(fault.Delay))
		c.commands = append(c.commands, &message{words, fault, c.arrive})
	}
	if fault.Cut {
		c.breakLocked(syscall.ECONNRESET)
	}
	if len(c.commands) == 1 {
		c.pumpLocked()
	}
}

// pumpLocked executes the commands that have arrived, and sets a timer for the next that
// arrives.
func (c *conn) pumpLocked() {
	if c.m.paused {
		return // Resume calls pumpLocked again
	}
	now := time.Now()
	for len(c.commands) > 0 && !c.commands[0].arrives.After(now) {
		msg := c.commands[0]
		c.commands = c.commands[1:]
		var answer any = msg.fault.Refuse
		if answer == nil {
			answer = c.m.executeLocked(c, msg.words)
		}
		c.mute = c.mute || msg.fault.Lose == LoseReply
		c.replyLocked(answer, now.Add(msg.fault.ReplyDelay))
	}
	c.forgetLocked()
	if len(c.commands) > 0 {
		front := c.commands[0]
		c.m.after(front.arrives.Sub(now), func() {
			if len(c.commands) > 0 && c.commands[0] == front {
				c.pumpLocked()
			}
		})
	}
}

// replyLocked sends answer to the client, where it arrives at the time arrives.
func (c *conn) replyLocked(answer any, arrives time.Time) {
	if !c.mute {
		c.Send(answer, arrives)
	}
}

// subscribeLocked answers SUBSCRIBE and UNSUBSCRIBE, with one reply for each channel.
func (c *conn) subscribeLocked(cmd Command) any {
	var rs resp.Replies
	for _, ch := range cmd.Args {
		if cmd.Name == "subscribe" {
			if c.channels == nil {
				c.channels = make(map[string]bool)
			}
			c.channels[ch] = true
		} else {
			delete(c.channels, ch)
		}
		rs = append(rs, resp.Subscribed{Kind: cmd.Name, Channel: ch, Count: len(c.channels)})
	}
	return rs
}

// pushLocked sends a message to the subscriber. It is a reply without a command:
// only ReplyDelay, LoseReply and Cut can happen to it.
func (c *conn) pushLocked(channel, payload string) {
	fault := c.n.faultFor(Command{Name: "message", Args: []string{channel, payload}})
	c.mute = c.mute || fault.Lose == LoseReply
	c.replyLocked([]string{"message", channel, payload}, time.Now().Add(fault.ReplyDelay))
	if fault.Cut {
		c.m.after(0, func() { c.breakLocked(syscall.ECONNRESET) })
	}
}

// breakLocked ends the connection for the client. The commands that it has sent still
// arrive.
func (c *conn) breakLocked(err error) {
	c.Break(err)
	c.forgetLocked()
}

// hangUpLocked ends the connection for the master. The replies that it has sent still
// arrive.
func (c *conn) hangUpLocked() {
	c.End(syscall.ECONNRESET)
	c.commands = nil
	c.forgetLocked()
}

// forgetLocked drops a connection on which nothing can arrive any more.
func (c *conn) forgetLocked() {
	if !c.Ended() || len(c.commands) > 0 {
		return
	}
	if i := slices.Index(c.m.conns, c); i >= 0 {
		c.m.conns = slices.Delete(c.m.conns, i, i+1)
	}
}

// Close closes the client's end.
func (c *conn) Close() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.breakLocked(net.ErrClosed)
	return nil
}

// SetWriteDeadline does nothing, because Write does not wait.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
func (c *conn) LocalAddr() net.Addr           { return addr("client") }
func (c *conn) RemoteAddr() net.Addr          { return addr(c.m.name) }

type addr string

func (a addr) Network() string { return "nodetest" }
func (a addr) String() string  { return string(a) }

// after calls fn when d has passed, with the master's mutex held.
func (m *Master) after(d time.Duration, fn func()) *time.Timer {
	return time.AfterFunc(d, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		fn()
	})
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
