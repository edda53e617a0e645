// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/node/faultproxy"
)

// Client is what can be done to a client process. *workload.Process is one.
type Client interface {
	Name() string
	Pause() error
	Resume() error
	Storm() error
	// Upgrade replaces the client's process by one of another build of its program, or back, and says by which.
	Upgrade(ctx context.Context) (string, error)
}

// World is everything that can be hurt. Set the fields and do not change them while nemeses run; each of a World's nemeses may then run
// in a goroutine of its own.
type World struct {
	Nodes   []*Node
	Clients []Client
	// Links are the proxies between each client and each node, as [client][node].
	Links [][]*faultproxy.Proxy
	// Spare are more proxies to each node, [any][node], that are never hurt but must follow when a node's address moves.
	Spare [][]*faultproxy.Proxy

	TTL         time.Duration // of the clients' locks: faults are as long as a few of it
	NodeTimeout time.Duration // how long a client waits for a master
	Has         Have
	Clocks      bool     // the masters have clocks and disks of their own
	Locks       []string // names of locks in use
	// Misconfigured opens a client with another list of masters, which the masters must refuse, and returns what was wrong if they did not.
	Misconfigured func(ctx context.Context, r *rand.Rand) error

	mu    sync.Mutex                     // guards busy and forgot of all nodes
	links map[*faultproxy.Proxy]struct{} // that have a fault; guarded by mu
}

// Node is a place in the clients' list of masters: a name, and the master that is there now. A failover puts another there.
type Node struct {
	name string

	// Server is held while the data of the master are replaced, and while they are read: a reading is of before or of after.
	server sync.Mutex
	master *cluster.Master // guarded by server
	life   int             // counts known losses of data; guarded by server

	busy   bool // a fault is on; guarded by World.mu
	forgot bool // it may have forgotten votes and counters and does not vote yet; guarded by World.mu
}

// NewNode returns a place called name with a master in it.
func NewNode(name string, m *cluster.Master) *Node { return &Node{name: name, master: m} }

// Name is the node's name, which it keeps when another master takes over.
func (n *Node) Name() string { return n.name }

// Master is the master that is there now.
func (n *Node) Master() *cluster.Master {
	n.server.Lock()
	defer n.server.Unlock()
	return n.master
}

// Admin runs f with a connection to the master, past all proxies. life tells one life of its data set from the next as far as the harness
// knows, and stays the same while f runs. f has as long as ctx, and single commands a second.
func (n *Node) Admin(ctx context.Context, f func(ctx context.Context, c *redis.Client, life int) error) error {
	n.server.Lock()
	defer n.server.Unlock()
	return n.admin(ctx, func(ctx context.Context, c *redis.Client) error { return f(ctx, c, n.life) })
}

// admin is Admin for one that holds n.server.
func (n *Node) admin(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error {
	const limit = time.Second
	c := redis.NewClient(&redis.Options{
		Addr: n.master.Addr(), MaxRetries: -1, DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit,
		DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	defer c.Close()
	return f(ctx, c)
}

// erase runs f, which makes the master lose or replace its data. Readings of its counters before and after are of two lives.
func (n *Node) erase(f func(m *cluster.Master) error) error {
	n.server.Lock()
	defer n.server.Unlock()
	n.life++
	return f(n.master)
}

// Voting tells the world that a node was seen voting, in its present life. What it may have forgotten is then made good.
func (w *World) Voting(n *Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !n.busy {
		n.forgot = false
	}
}

// errBusy: a fault would meet another one, or one master more would have forgotten its counters than promises allow.
var errBusy = errors.New("nemesis: not now")

// tolerated is how many masters may fail at once and leave a quorum.
func (w *World) tolerated() int { return (len(w.Nodes) - 1) / 2 }

// claim takes count nodes for one fault, at random: no two faults meet on one node, so that what a run's record says was done to a node is
// all that was done to it. The caller gives them back with unclaim.
func (w *World) claim(r *rand.Rand, count int) ([]*Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claimLocked(r, count)
}

// claimForgetful is claim for a fault after which the nodes may have forgotten. Tokens are promised while no more masters lose their
// data at once than leave a quorum (docs/safety.md 3.4), and "at once" lasts until they vote again: so those that do not yet are counted.
func (w *World) claimForgetful(r *rand.Rand, count int) ([]*Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	forgetful := count
	for _, n := range w.Nodes {
		if n.forgot {
			forgetful++
		}
	}
	if forgetful > w.tolerated() {
		return nil, errBusy
	}
	nodes, err := w.claimLocked(r, count)
	for _, n := range nodes {
		n.forgot = true
	}
	return nodes, err
}

func (w *World) claimLocked(r *rand.Rand, count int) ([]*Node, error) {
	var nodes []*Node
	for _, i := range r.Perm(len(w.Nodes)) {
		// One that has forgotten and does not vote is as good as down: to choose it again would leave too few.
		if n := w.Nodes[i]; len(nodes) < count && !n.busy && !n.forgot {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) < count {
		return nil, errBusy
	}
	for _, n := range nodes {
		n.busy = true
	}
	return nodes, nil
}

func (w *World) unclaim(nodes []*Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range nodes {
		n.busy = false
	}
}

// takeLinks claims links for one fault, all or none: a proxy has one fault for each direction.
func (w *World) takeLinks(which [][]bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.links == nil {
		w.links = map[*faultproxy.Proxy]struct{}{}
	}
	for i, row := range which {
		for j, hurt := range row {
			if _, taken := w.links[w.Links[i][j]]; hurt && taken {
				return false
			}
		}
	}
	for i, row := range which {
		for j, hurt := range row {
			if hurt {
				w.links[w.Links[i][j]] = struct{}{}
			}
		}
	}
	return true
}

func (w *World) giveLinks(which [][]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, row := range which {
		for j, hurt := range row {
			if hurt {
				delete(w.links, w.Links[i][j])
			}
		}
	}
}

// replace puts another master in the node's place. The caller holds n.server.
func (w *World) replace(n *Node, m *cluster.Master) {
	n.master = m
	for _, rows := range [][][]*faultproxy.Proxy{w.Links, w.Spare} {
		for _, row := range rows {
			for i := range w.Nodes {
				if w.Nodes[i] == n {
					row[i].Retarget(m.Addr())
				}
			}
		}
	}
}

// Heal puts everything right that a nemesis may have left: links, clocks, disks, servers, clients. It tries everything and joins the errors.
// Nemeses heal what they did themselves; this is for those that could not.
func (w *World) Heal(ctx context.Context) error {
	var errs []error
	for _, c := range w.Clients {
		errs = append(errs, c.Resume())
	}
	for _, row := range w.Links {
		for _, p := range row {
			errs = append(errs, p.Heal())
		}
	}
	for _, n := range w.Nodes {
		m := n.Master()
		if w.Clocks {
			errs = append(errs, m.StallDisk(0), m.SetRate(1), m.StepClock(0))
		}
		errs = append(errs, m.Start(ctx), m.Unpause(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("nemesis: heal: %w", err)
	}
	return nil
}
