// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"bytes"
	"net"
	"slices"
	"time"
)

// conn is one client's connection and its counterpart to the master. In each direction one goroutine reads messages into the stream's queue
// and another writes those that are due, so that a delay does not stop the reader.
//
// Invariant: calls holds the commands whose reply the proxy has not passed on, in the client's order. The master gets the commands in this
// order, without the held ones, and answers in the same order. So a reply belongs to the first call that is neither held nor answered.
type conn struct {
	p       *Proxy
	streams [2]*stream

	// guarded by p.mu
	calls    []*call
	unpaired bool      // replies no longer pair with commands: see the package comment
	setup    [3][]byte // the last AUTH, HELLO and SELECT, in this order: a held command needs them on its new connection
	gone     bool      // cut or ended: the proxy queues and writes nothing more
}

// call is one command and its place among the replies.
type call struct {
	rule     *Rule // what happens to its reply; nil: nothing
	held     bool  // not sent to the master yet
	answered bool  // reply has arrived and waits for the reply of a held command before it
	reply    []byte
}

// stream is one direction of a connection.
type stream struct {
	dst  *net.TCPConn
	wake chan struct{} // one slot: signals a change

	// guarded by p.mu
	queue []packet // Invariant: due never falls from one packet to the next
	hole  bool     // lost bytes to Drop
}

type packet struct {
	due  time.Time // zero: at once
	data []byte
	end  ending
}

// ending is what comes after the data of a packet.
type ending int

const (
	more   ending = iota
	fin           // the source closed
	cutNow        // cut the connection after everything before has been written
)

func (s *stream) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// serve connects client to the master and relays until both directions have ended.
func (p *Proxy) serve(client *net.TCPConn) {
	dialer := net.Dialer{Timeout: dialLimit}
	dialed, err := dialer.DialContext(p.ctx, "tcp", p.where())
	if err != nil {
		reset(client)
		return
	}
	master := dialed.(*net.TCPConn)
	c := &conn{p: p}
	c.streams[ToMaster] = &stream{dst: master, wake: make(chan struct{}, 1)}
	c.streams[ToClient] = &stream{dst: client, wake: make(chan struct{}, 1)}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.stats.Connections++
	if p.closed {
		c.cut()
	}
	p.mu.Unlock()

	done := make(chan struct{}, 3)
	for _, f := range []func(){
		func() { c.readCommands(client) },
		func() { c.readReplies(master) },
		func() { c.write(ToMaster) },
	} {
		go func() { f(); done <- struct{}{} }()
	}
	c.write(ToClient)
	for range cap(done) {
		<-done
	}
	p.mu.Lock()
	delete(p.conns, c)
	c.gone = true
	p.mu.Unlock()
	client.Close()
	master.Close()
}

func (c *conn) readCommands(client *net.TCPConn) {
	r := bufio.NewReaderSize(client, 32<<10)
	var msg message
	for {
		err := msg.readCommand(r)
		c.p.mu.Lock()
		if err != nil {
			c.push(ToMaster, nil, 0, fin) // also for a reset, which the network delivers after the bytes before it
			c.p.mu.Unlock()
			return
		}
		c.command(&msg)
		c.p.mu.Unlock()
	}
}

// command sends one command on its way, or lets a Hold take it. The caller holds p.mu.
func (c *conn) command(msg *message) {
	p := c.p
	p.stats.Commands++
	p.stats.BytesToMaster += int64(len(msg.bytes))
	if p.faults[ToMaster].Drop || len(msg.args) == 0 { // discarded, or an empty line: there will be no reply
		c.push(ToMaster, msg.bytes, 0, more)
		return
	}
	c.remember(msg)
	if c.unpaired {
		c.push(ToMaster, msg.bytes, 0, more)
		return
	}
	call := &call{rule: p.take(msg.args)}
	c.calls = append(c.calls, call)
	if call.rule != nil && call.rule.held != nil {
		call.held = true
		call.rule.held.caught(c, call, msg)
		return
	}
	c.push(ToMaster, msg.bytes, 0, more)
}

// remember records what the command changes in the state of the connection.
func (c *conn) remember(msg *message) {
	name := msg.args[0]
	is := func(word string) bool { return bytes.EqualFold(name, []byte(word)) }
	switch {
	case is("AUTH"):
		c.setup[0] = slices.Clone(msg.bytes)
	case is("HELLO"):
		c.setup[1] = slices.Clone(msg.bytes)
	case is("SELECT"):
		c.setup[2] = slices.Clone(msg.bytes)
	case is("MONITOR"), is("SUBSCRIBE"), is("PSUBSCRIBE"), is("SSUBSCRIBE"),
		is("CLIENT") && len(msg.args) > 1 && bytes.EqualFold(msg.args[1], []byte("REPLY")):
		c.unpaired = true
	}
}

func (c *conn) readReplies(master *net.TCPConn) {
	r := bufio.NewReaderSize(master, 32<<10)
	var msg message
	for {
		err := msg.readReply(r)
		c.p.mu.Lock()
		if err != nil {
			c.push(ToClient, nil, 0, fin)
			c.p.mu.Unlock()
			return
		}
		c.p.stats.Replies++
		c.p.stats.BytesToClient += int64(len(msg.bytes))
		c.reply(msg.bytes)
		c.p.mu.Unlock()
	}
}

// reply passes one reply on, or keeps it while a held command before it has no reply. The caller holds p.mu.
func (c *conn) reply(data []byte) {
	i := slices.IndexFunc(c.calls, func(call *call) bool { return !call.held && !call.answered })
	switch {
	case i < 0 || data[0] == '>': // answers no command: a pushed message
		c.push(ToClient, data, 0, more)
	case i == 0:
		call := c.calls[0]
		c.calls = c.calls[1:]
		c.emit(call, data)
		c.flush()
	default:
		c.answer(c.calls[i], slices.Clone(data))
	}
}

// answer stores call's reply, and passes on the replies that no longer have to wait. The caller holds p.mu.
func (c *conn) answer(call *call, reply []byte) {
	call.held, call.answered, call.reply = false, true, reply
	c.flush()
}

func (c *conn) flush() {
	for len(c.calls) > 0 && c.calls[0].answered {
		call := c.calls[0]
		c.calls = c.calls[1:]
		c.emit(call, call.reply)
	}
}

// emit sends the reply of call to the client, as its rule says.
func (c *conn) emit(call *call, reply []byte) {
	switch r := call.rule; {
	case r == nil || r.held != nil:
		c.push(ToClient, reply, 0, more)
	case r.slow > 0:
		c.p.stats.SlowReplies++
		r.hit()
		c.push(ToClient, reply, r.slow, more)
	default:
		c.p.stats.CutsBeforeReply++
		r.hit()
		c.push(ToClient, nil, 0, cutNow)
	}
}

// push queues a copy of data, and the ending after it, with a delay of extra on top of the link's own. The caller holds p.mu.
func (c *conn) push(dir Direction, data []byte, extra time.Duration, end ending) {
	p, s := c.p, c.streams[dir]
	f := p.faults[dir]
	if c.gone {
		return
	}
	if f.Drop {
		p.stats.Dropped++
		s.hole = true
		return
	}
	if f.Stall {
		p.stats.Stalled++
	}
	wait := f.Delay
	if f.Jitter > 0 {
		wait += time.Duration(p.jitter[dir].Int64N(int64(f.Jitter)))
	}
	if wait > 0 {
		p.stats.Delayed++
	}
	var due time.Time
	if wait+extra > 0 {
		due = time.Now().Add(wait + extra)
	}
	last := len(s.queue) - 1
	if last >= 0 && s.queue[last].due.After(due) {
		due = s.queue[last].due
	}
	if last >= 0 && s.queue[last].due.Equal(due) && s.queue[last].end == more {
		s.queue[last].data = append(s.queue[last].data, data...) // one write for a pipeline, not one for each command
		s.queue[last].end = end
	} else {
		s.queue = append(s.queue, packet{due: due, data: slices.Clone(data), end: end})
	}
	s.wakeUp()
}

// write writes the packets that are due, until the stream ends or a write fails. It does not end the other direction, which may still have
// packets to deliver, such as a stalled command of a client that has gone. Its reader notices by itself that the peer has gone.
func (c *conn) write(dir Direction) {
	s := c.streams[dir]
	for {
		pk, wait := c.due(s, dir)
		if len(pk.data) > 0 {
			if _, err := s.dst.Write(pk.data); err != nil {
				return
			}
		}
		switch pk.end {
		case cutNow:
			c.p.mu.Lock()
			c.cut()
			c.p.mu.Unlock()
			return
		case fin:
			// A client that closed its half still reads; a master never closes just half.
			if dir == ToMaster {
				_ = s.dst.CloseWrite()
			} else {
				_ = s.dst.Close()
			}
			return
		}
		if wait != 0 {
			s.sleep(wait)
		}
	}
}

// due takes the first packet if it is due. Otherwise it returns how long to wait; a negative time means until woken.
func (c *conn) due(s *stream, dir Direction) (pk packet, wait time.Duration) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch {
	case c.gone:
		return packet{end: cutNow}, 0
	case c.p.faults[dir].Stall || len(s.queue) == 0:
		return packet{}, -1
	}
	pk = s.queue[0]
	if !pk.due.IsZero() {
		if wait = time.Until(pk.due); wait > 0 {
			return packet{}, wait
		}
	}
	s.queue[0] = packet{}
	s.queue = s.queue[1:]
	return pk, 0
}

func (s *stream) sleep(wait time.Duration) {
	var timer <-chan time.Time
	if wait > 0 {
		timer = time.After(wait)
	}
	select {
	case <-s.wake:
	case <-timer:
	}
}

// cut resets both sides and ends all four goroutines. It reports whether the connection was open. The caller holds p.mu.
func (c *conn) cut() bool {
	if c.gone {
		return false
	}
	c.gone = true
	for _, s := range c.streams {
		reset(s.dst)
		s.wakeUp()
	}
	return true
}

// reset closes with RST instead of FIN, so that the peer gets an error and not an end of file.
func reset(t *net.TCPConn) {
	_ = t.SetLinger(0)
	_ = t.Close()
}
