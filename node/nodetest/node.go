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

// Node is one client's way to a [Master]: a real node itself, with its lane, on
// connections that never leave the process.
type Node struct {
	node.Node
	m *Master

	mu    sync.Mutex
	fault func(cmd Command) Fault
}

var _ protocol.Node = (*Node)(nil)

// Node makes a way of its own to the master for one client, which closes it. cfg
// is as in node.Open, but that Clock is clock.Monotonic() by default, for
// synctest. Clock must be the very one that the client has: the times in ops are
// read on it. It does not connect; see Ready.
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
		panic(err) // it refuses what is no *redis.Client, and nothing else
	}
	return n
}

// SetFault makes fn decide what happens to each command that is sent from now on;
// nil: nothing. It is called once a command, in the order of sending, by the
// sender, and for each attempt to connect, a Command named "dial": one that loses
// anything times out, one that is cut or refused fails at once. fn may call the
// master's methods, and is the place to make something happen when a certain
// command is sent. A Command named "message" is the exception: it is asked about
// from within the script that publishes it, so fn must not call methods then.
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

// Cut breaks the connections that n has now, as [Fault.Cut] does. A node that is
// waiting for a reply notices at once, else when it sends the next command.
func (n *Node) Cut() {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	for _, c := range slices.Clone(n.m.conns) {
		if c.n == n {
			c.breakLocked(syscall.ECONNRESET)
		}
	}
}
