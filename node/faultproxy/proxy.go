// SPDX-License-Identifier: Apache-2.0

// Package faultproxy is a TCP proxy in front of one Redis master that makes the network misbehave, message by message where asked.
//
// Guarantee: with no fault set, every byte arrives, in order, and each connection of a client is one connection to the master. With
// faults, only what a network (or a peer dying) can do is done: a stream is delayed, stalled or cut, never altered or reordered within
// itself. The exceptions are Drop, whose streams have a hole and are therefore cut when it ends, and Hold, which lets one command be
// overtaken. Condition: clients and master speak RESP2 or RESP3. Replication (PSYNC) and TLS do not work through it.
//
// For partitions of single clients, start one proxy for each pair of client and master.
//
// # Messages
//
// Commands are told apart on the way to the master, and replies on the way back: the n-th reply answers the n-th command. A rule (Hold,
// CutBeforeReply, SlowReply) looks at single commands also when they come in one pipeline. A connection that has sent a SUBSCRIBE,
// MONITOR or CLIENT REPLY is exempt from rules from then on, since there replies no longer pair with commands; faults of the link go on.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redlock-go/redlock/node/internal/loopback"
)

// Direction is one way through the proxy.
type Direction int

const (
	ToMaster Direction = iota // commands
	ToClient                  // replies and pushed messages
)

// Fault is what happens to all bytes of one direction. The zero value is a healthy link.
type Fault struct {
	// Delay holds up each message by this much plus a random part of Jitter. Messages wait side by side, not behind each other: throughput
	// stays. They never overtake each other either, so with Jitter one may be as late as its predecessor.
	Delay, Jitter time.Duration
	// Seed makes the draws of Jitter repeatable, message by message.
	Seed uint64
	// Stall keeps everything in memory, the end of a connection too, and delivers it once the stall is over, even if the client is long gone: its
	// commands are then still executed (docs/safety.md A13). With the other direction healthy it is a one-way partition.
	Stall bool
	// Drop swallows everything and keeps the connections open. Connections that lost something are cut when Drop ends, since what comes
	// after a hole is no stream. A connection made meanwhile is accepted and hears nothing.
	Drop bool
}

// Stats counts since Start.
type Stats struct {
	Connections           int64 // accepted, with a connection to the master
	Commands, Replies     int64 // arrived at the proxy; pushed messages count as replies
	BytesToMaster         int64 // arrived at the proxy, before any fault
	BytesToClient         int64
	Delayed, Stalled      int64 // messages that Delay or Stall applied to
	Dropped               int64 // messages swallowed
	Held, SlowReplies     int64 // commands caught by Hold, replies caught by SlowReply
	CutsBeforeReply, Cuts int64 // connections cut by CutBeforeReply; by Cut, Held.Drop and the end of Drop
}

const dialLimit = 5 * time.Second

// Proxy stands between clients and one master. All methods may be called from any goroutine at any time, except from within a match function.
type Proxy struct {
	port *loopback.Port
	ctx  context.Context // ends with Close; for the dials of connections being made
	stop context.CancelFunc
	wg   sync.WaitGroup // accept loop and connections

	mu       sync.Mutex // guards all below and the state of all connections: one lock, because rules and faults cut across connections
	target   string
	listener net.Listener
	closed   bool
	refusing bool // listener is closed
	faults   [2]Fault
	jitter   [2]*rand.Rand
	rules    []*Rule
	conns    map[*conn]struct{}
	stats    Stats
}

// Start starts a proxy on a loopback port of its own for the master at target ("host:port"). The master need not be up: a client's
// connection is reset when the master cannot be reached.
func Start(target string) (*Proxy, error) {
	port, err := loopback.Reserve()
	if err != nil {
		return nil, fmt.Errorf("faultproxy: reserve a port: %w", err)
	}
	p := &Proxy{target: target, port: port, conns: map[*conn]struct{}{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.listen(); err != nil {
		p.stop()
		port.Release()
		return nil, err
	}
	return p, nil
}

// listen starts accepting. The caller holds p.mu.
func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.port.Addr())
	if err != nil {
		return fmt.Errorf("faultproxy: %w", err)
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed: nothing else happens to a listener on loopback
			}
			p.wg.Go(func() { p.serve(client.(*net.TCPConn)) })
		}
	})
	return nil
}

// Retarget makes the proxy stand for another master from now on, as an address that moves in a failover does: connections to come go to
// target, those that are there are reset.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

func (p *Proxy) where() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Addr returns the address clients dial, "127.0.0.1:port". It stays the same until Close.
func (p *Proxy) Addr() string { return p.port.Addr() }

// Close cuts all connections and returns when nothing of the proxy runs any more. A Held can still be delivered. Later calls do nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	var err error
	if !p.refusing {
		err = p.listener.Close()
	}
	p.stop()
	for c := range p.conns {
		c.cut()
	}
	p.mu.Unlock()
	p.wg.Wait()
	p.port.Release()
	return err
}

// Set puts f in the place of the direction's fault so far, for connections that are there and that come. What already waits for its
// delay goes on waiting.
func (p *Proxy) Set(dir Direction, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[dir] = f
	p.jitter[dir] = rand.New(rand.NewPCG(f.Seed, 0))
	for c := range p.conns {
		if c.streams[dir].hole && !f.Drop {
			p.stats.Cuts++
			c.cut()
		}
		c.streams[dir].wakeUp()
	}
}

// Refuse refuses new connections (on), as a master that is down would, or accepts them again. Connections that are there stay.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("faultproxy: closed")
	}
	if on == p.refusing {
		return nil
	}
	var err error
	if on {
		err = p.listener.Close()
	} else {
		err = p.listen()
	}
	if err == nil {
		p.refusing = on
	}
	return err
}

// Cut resets all connections, on both sides, and returns how many. What was on its way is lost.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.conns {
		if c.cut() {
			n++
		}
	}
	p.stats.Cuts += int64(n)
	return n
}

// Heal ends the faults of the link: Set with a zero Fault for both directions, and Refuse(false). Rules stay until removed.
func (p *Proxy) Heal() error {
	p.Set(ToMaster, Fault{})
	p.Set(ToClient, Fault{})
	return p.Refuse(false)
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
