// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Fault is what happens to one command of a client and to its reply. The zero
// value: nothing, both arrive at once.
//
// A connection is a stream, as TCP's is: nothing overtakes, and behind a command
// that is late or lost, everything is. Its end, which the client notices or makes
// (node.Config.IOTimeout), does not call back what is on its way: a command may
// arrive long after its sender gave it up, and after commands of a later
// connection, unless the master was told to kill the old one, as a node does.
// Refuse that CLIENT KILL, and commands are held and reordered.
type Fault struct {
	// Delay is how long the command is on its way, ReplyDelay the reply.
	Delay, ReplyDelay time.Duration
	// Lose drops the command, or the reply to a command that was executed, and
	// everything that follows it on this connection in this direction.
	Lose Lost
	// Cut breaks the connection for the client right behind the command: what it
	// sends later is lost, and so are replies that are not there yet. Without it,
	// a client notices a loss when its own patience is over.
	Cut bool
	// Refuse is answered instead of executing the command, with Redis's code as
	// its first word: LOADING, NOPERM, NOSCRIPT...
	Refuse error
}

// Lost is what a [Fault] loses.
type Lost uint8

const (
	LoseNothing Lost = iota
	LoseCommand      // never executed
	LoseReply        // executed, but nobody is told
)

// conn is the client's end of one connection, and the wire behind it. There is no
// goroutine in it: a Write executes what arrives at once, timers the rest.
type conn struct {
	n  *Node
	m  *Master
	id int64

	partial []byte // of a command; the writer's own

	// Guarded by the master's mutex.
	channels map[string]bool // subscribed to
	changed  *sync.Cond      // for Read
	broken   error           // what the client finds, once it has read what came in before
	deaf     bool            // a command was lost: none arrives any more
	mute     bool            // a reply was lost: none arrives any more
	commands []*message      // on their way to the master, in order
	replies  []reply         // on their way to the client, in order
	arrive   time.Time       // when the last command is there
	in       []byte          // what the client may read
	deadline time.Time       // of Read
}

// message is a command on its way.
type message struct {
	words   []string
	fault   Fault
	arrives time.Time
}

// reply is one on its way.
type reply struct {
	data    []byte
	arrives time.Time
}

// dial is the Dialer of every connection of n.
func (n *Node) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	fault := n.faultFor(Command{Name: "dial"})
	if fault.Lose != LoseNothing {
		<-ctx.Done()
		return nil, os.ErrDeadlineExceeded
	}
	if wait := fault.Delay + fault.ReplyDelay; wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, os.ErrDeadlineExceeded
		}
	}
	m := n.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.up || fault.Cut || fault.Refuse != nil {
		return nil, errors.Join(syscall.ECONNREFUSED, fault.Refuse)
	}
	m.dials++
	c := &conn{n: n, m: m, id: m.dials, changed: sync.NewCond(&m.mu)}
	m.conns = append(m.conns, c)
	return c, nil
}

// Write sends the commands that are whole with b. It does not fail when the
// connection is broken: Read does, behind the replies that came in before.
func (c *conn) Write(b []byte) (int, error) {
	c.partial = append(c.partial, b...)
	for {
		words, rest, err := parseCommand(c.partial)
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
	if c.broken != nil {
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

// pumpLocked executes what has arrived, and sees to it that what arrives next is
// executed then.
func (c *conn) pumpLocked() {
	if c.m.paused {
		return // Resume goes on
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

// replyLocked sends answer to the client, which has it at arrives.
func (c *conn) replyLocked(answer any, arrives time.Time) {
	if c.mute || c.broken != nil {
		return
	}
	if n := len(c.replies); n > 0 {
		arrives = later(arrives, c.replies[n-1].arrives)
	}
	c.replies = append(c.replies, reply{appendReply(nil, answer), arrives})
	c.changed.Broadcast()
}

// subscribeLocked answers SUBSCRIBE and UNSUBSCRIBE, once a channel.
func (c *conn) subscribeLocked(cmd Command) any {
	var rs replies
	for _, ch := range cmd.Args {
		if cmd.Name == "subscribe" {
			if c.channels == nil {
				c.channels = make(map[string]bool)
			}
			c.channels[ch] = true
		} else {
			delete(c.channels, ch)
		}
		rs = append(rs, subscribed{cmd.Name, ch, len(c.channels)})
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

// Read returns replies that have arrived. A broken connection is noticed behind
// them.
func (c *conn) Read(b []byte) (int, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for {
		now := time.Now()
		for len(c.replies) > 0 && !c.replies[0].arrives.After(now) {
			c.in = append(c.in, c.replies[0].data...)
			c.replies = c.replies[1:]
		}
		switch {
		case len(c.in) > 0:
			n := copy(b, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.broken != nil && len(c.replies) == 0:
			return 0, c.broken
		case !c.deadline.IsZero() && !c.deadline.After(now):
			return 0, os.ErrDeadlineExceeded
		}
		c.waitLocked(now)
	}
}

// waitLocked waits until something changes for Read.
func (c *conn) waitLocked(now time.Time) {
	wake := c.deadline
	if len(c.replies) > 0 && (wake.IsZero() || c.replies[0].arrives.Before(wake)) {
		wake = c.replies[0].arrives
	}
	if !wake.IsZero() {
		defer c.m.after(wake.Sub(now), c.changed.Broadcast).Stop()
	}
	c.changed.Wait()
}

// breakLocked ends the connection for the client. What it has sent still arrives.
func (c *conn) breakLocked(err error) {
	if c.broken == nil {
		c.broken = err
	}
	c.replies = nil
	c.forgetLocked()
	c.changed.Broadcast()
}

// hangUpLocked ends the connection for the master. What it has answered still
// arrives.
func (c *conn) hangUpLocked() {
	if c.broken == nil {
		c.broken = syscall.ECONNRESET
	}
	c.commands = nil
	c.forgetLocked()
	c.changed.Broadcast()
}

// forgetLocked drops a connection on which nothing can arrive any more.
func (c *conn) forgetLocked() {
	if c.broken == nil || len(c.commands) > 0 {
		return
	}
	if i := slices.Index(c.m.conns, c); i >= 0 {
		c.m.conns = slices.Delete(c.m.conns, i, i+1)
	}
}

// Close is the client's.
func (c *conn) Close() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.breakLocked(net.ErrClosed)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.deadline = t
	c.changed.Broadcast()
	return nil
}

// SetWriteDeadline does nothing: a Write never waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
func (c *conn) LocalAddr() net.Addr           { return addr("client") }
func (c *conn) RemoteAddr() net.Addr          { return addr(c.m.name) }

type addr string

func (a addr) Network() string { return "nodetest" }
func (a addr) String() string  { return string(a) }

// after calls fn in d, with the master's mutex held.
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
