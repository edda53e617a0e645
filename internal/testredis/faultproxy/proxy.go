// SPDX-License-Identifier: Apache-2.0

// Package faultproxy is a TCP proxy in front of one Redis master that makes the network misbehave, for all bytes or for single messages.
//
// Guarantee: with no fault set, every byte arrives, in order, and each connection of a client is one connection to the master. With
// faults, the proxy does only what a network or a dying peer can do: it delays, stalls or cuts a stream, and neither alters nor reorders
// it. There are two exceptions. Drop makes a hole in a stream, which the proxy therefore cuts when Drop ends. Hold lets other commands
// overtake one command. Condition: clients and master speak RESP2 or RESP3. Replication (PSYNC) and TLS do not work through the proxy.
//
// To partition single clients, start one proxy for each pair of client and master.
//
// The package knows RESP, and nothing of locks. It imports internal/testredis/loopback only. Tests and the chaos harness use [Start], and on a
// [Proxy] the link's faults ([Fault]) and the rules for single commands ([Rule], [Held]).
//
// # Messages
//
// The proxy separates the commands on the way to the master and the replies on the way back. The n-th reply answers the n-th command. A
// rule (Hold, CutBeforeReply, SlowReply) applies to single commands, also within a pipeline. After a SUBSCRIBE, MONITOR or CLIENT REPLY
// replies no longer pair with commands, so rules no longer apply to that connection. Faults of the link still do.
package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/testredis/loopback"
)

// Direction is one way through the proxy.
type Direction int

const (
	ToMaster Direction = iota // commands
	ToClient                  // replies and pushed messages
)

// Fault is what happens to all bytes of one direction. The zero value is a healthy link.
type Fault struct {
	// Delay delays each message by this much plus a random part of Jitter. Messages wait at the same time, so throughput stays as it is.
	// No message overtakes another, so with Jitter a message may be as late as its predecessor.
	Delay, Jitter time.Duration
	// Seed makes the random parts of Jitter repeatable, message by message.
	Seed uint64
	// Stall keeps everything in memory, also the end of a connection, and delivers it when the stall is over. If the client has closed the
	// connection by then, the master still executes its commands (docs/safety.md A13). Stalling one direction is a one-way partition.
	Stall bool
	// Drop discards everything and keeps the connections open. When Drop ends, the proxy cuts the connections that lost something, because
	// a stream must have no hole. A new connection is accepted meanwhile, and gets no answer.
	Drop bool
}

// Stats counts since Start.
type Stats struct {
	Connections           int64 // accepted, with a connection to the master
	Commands, Replies     int64 // arrived at the proxy; pushed messages count as replies
	BytesToMaster         int64 // arrived at the proxy, before any fault
	BytesToClient         int64
	Delayed, Stalled      int64 // messages that Delay or Stall applied to
	Dropped               int64 // messages that Drop discarded
	Held, SlowReplies     int64 // commands caught by Hold, replies caught by SlowReply
	CutsBeforeReply, Cuts int64 // connections cut by CutBeforeReply; by Cut, Held.Drop and the end of Drop
}

const dialLimit = 5 * time.Second

// Proxy stands between clients and one master. All methods may be called from any goroutine at any time, except from within a match function.
type Proxy struct {
	port *loopback.Port
	ctx  context.Context // Close ends it, and with it dials that are under way
	stop context.CancelFunc
	wg   sync.WaitGroup // accept loop and connections

	mu       sync.Mutex // guards the fields below and the state of all connections, because rules and faults affect several connections
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

// Start starts a proxy on a free loopback port for the master at target ("host:port"). The master need not be up: if the proxy cannot
// reach it, it resets the client's connection.
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
				return // the listener is closed: on loopback there is no other error
			}
			p.wg.Go(func() { p.serve(client.(*net.TCPConn)) })
		}
	})
	return nil
}

// Retarget makes the proxy forward to another master, as an address that moves in a failover does. The proxy resets its connections; new
// ones go to target.
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

// Close cuts all connections and returns when all goroutines of the proxy have ended. A Held can still be delivered. Later calls do nothing.
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

// Set replaces the fault of direction by f, for present and future connections. A message that already waits for its delay still waits.
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

// Refuse makes the proxy refuse new connections, as a master that is down does, or accept them again. Present connections stay.
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

// Cut resets all connections, on both sides, and returns how many. Messages on their way are lost.
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
