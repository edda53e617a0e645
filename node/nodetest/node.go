// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
)

// Node is one client's connection to a [Master]: a node of package node, on connections
// that never leave the process.
type Node struct {
	node.Node
	m *Master

	mu    sync.Mutex
	fault func(cmd Command) Fault
}

var _ protocol.Node = (*Node)(nil)

// Node makes a node for one client, which closes it. cfg is as in node.Open, but the
// default of Clock is clock.Monotonic(), for synctest. Clock must be the clock of the
// client, because the times in its ops are read on that. Node does not connect.
func (m *Master) Node(cfg node.Config) *Node {
	if cfg.Clock == nil {
		cfg.Clock = clock.Monotonic()
	}
	n := &Node{m: m}
	n.SetFault(nil)
	client := redis.NewClient(&redis.Options{
		Addr: m.name, Dialer: n.dial,
		// By default it asks the DNS what kind of address this is.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone},
	})
	defer client.Close() // only its options are used
	var err error
	if n.Node, err = node.New(client, cfg); err != nil {
		panic(err) // node.New refuses only other kinds of client
	}
	return n
}

// SetFault makes fn decide what happens to each command that is sent from now on. If
// fn is nil, nothing goes wrong. The sender calls fn once for each command, in the order
// of sending.
//
// SetFault also calls fn for each attempt to connect, with a Command named "dial". An
// attempt that loses anything times out; one that is cut or refused fails at once. fn may
// call the master's methods, for example to crash it when a certain command is sent.
//
// fn gets a Command named "message" from within the script that publishes the message,
// and must not call the master's methods then.
func (n *Node) SetFault(fn func(cmd Command) Fault) {
	if fn == nil {
		fn = func(Command) Fault { return Fault{} }
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = fn
}

func (n *Node) faultFor(cmd Command) Fault {
	n.mu.Lock()
	fn := n.fault
	n.mu.Unlock()
	return fn(cmd)
}

// Cut breaks the present connections of n, as [Fault.Cut] does. A node that waits for a
// reply notices at once, any other when it sends its next command.
func (n *Node) Cut() {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	for _, c := range slices.Clone(n.m.conns) {
		if c.n == n {
			c.breakLocked(syscall.ECONNRESET)
		}
	}
}
