// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/chaos/cluster"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
)

// Client is what a nemesis can do to a client process.
type Client interface {
	Name() string
	Pause() error
	Resume() error
	Storm() error
	// Upgrade replaces the client's process by one of another build of its program, the next time by one of the first build again. It
	// returns which build.
	Upgrade(ctx context.Context) (string, error)
	// Kill kills the client's process (SIGKILL) and starts another in its place.
	Kill(ctx context.Context) error
}

// Target is what nemeses strike: the masters, the clients, and the links between them. Set the fields before the first strike and do not
// change them afterwards. Nemeses may then strike one Target from several goroutines.
type Target struct {
	Nodes   []*Node
	Clients []Client
	// Links are the proxies between each client and each node, as [client][node].
	Links [][]*faultproxy.Proxy
	// Spare are more proxies to each node, [any][node]. No nemesis puts a fault on them. They follow a failover, as Links do.
	Spare [][]*faultproxy.Proxy

	// Service are the links of a client of the harness, one to each node. A fault on the links of all clients to a node is put on the one of
	// Service too, and no other.
	Service []*faultproxy.Proxy

	TTL         time.Duration // of the clients' locks; a fault lasts a few TTLs
	NodeTimeout time.Duration // how long a client waits for a master
	Has         Have
	Clocks      bool     // the masters run with cluster.Config.Clocks: their clocks and disks can be changed
	Locks       []string // names of locks in use
	// Misconfigured opens a client that the masters must refuse, for example with another list of masters. It records a violation if the
	// masters grant the client a lock.
	Misconfigured func(ctx context.Context, r *rand.Rand) error
	// Opened opens one more client with the settings of the run, and closes it. It returns an error if the client finds fault with the masters.
	Opened func(ctx context.Context) error

	mu    sync.Mutex                     // guards busy and forgot of all nodes
	wrong int                            // faults of clocks that are under way; guarded by mu
	links map[*faultproxy.Proxy]struct{} // links that have a fault; guarded by mu
}

// Node is one entry in the clients' list of masters: a name, and the master that has it now. A failover gives the name to another master.
type Node struct {
	name string

	// server is held while the data of the master are replaced, and while they are read. So a reading is never half old and half new.
	server sync.Mutex
	master *cluster.Master // guarded by server
	life   int             // counts known losses of data; guarded by server

	busy   bool // the node has a fault; guarded by Target.mu
	forgot bool // the master may have lost votes and counters, and was not seen voting since; guarded by Target.mu
}

// NewNode returns a node called name.
func NewNode(name string, m *cluster.Master) *Node { return &Node{name: name, master: m} }

// Name returns the node's name. A failover does not change it.
func (n *Node) Name() string { return n.name }

// Master returns the master that has the name now.
func (n *Node) Master() *cluster.Master {
	n.server.Lock()
	defer n.server.Unlock()
	return n.master
}

// Admin runs f with a connection to the master, past all proxies. life counts how often the harness made the master lose its data; it does
// not change while f runs. f may take as long as ctx allows, and each command a second.
func (n *Node) Admin(ctx context.Context, f func(ctx context.Context, c *redis.Client, life int) error) error {
	n.server.Lock()
	defer n.server.Unlock()
	return n.admin(ctx, func(ctx context.Context, c *redis.Client) error { return f(ctx, c, n.life) })
}

// admin is Admin for a caller that holds n.server.
func (n *Node) admin(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error {
	const limit = time.Second
	username, password, db := n.master.Login()
	c := redis.NewClient(&redis.Options{
		Addr: n.master.Addr(), Username: username, Password: password, DB: db, MaxRetries: -1, DialTimeout: limit, ReadTimeout: limit, WriteTimeout: limit,
		DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	defer c.Close()
	return f(ctx, c)
}

// erase runs f, which makes the master lose or replace its data. Counters that are read afterwards belong to another life.
func (n *Node) erase(f func(m *cluster.Master) error) error {
	n.server.Lock()
	defer n.server.Unlock()
	n.life++
	return f(n.master)
}

// Voting reports that a node was seen voting after its last fault. Whatever the master had lost, it has learnt again.
func (t *Target) Voting(n *Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !n.busy {
		n.forgot = false
	}
}

// errBusy means that too few nodes are free for the fault, or that too many masters would have lost their counters at the same time.
var errBusy = errors.New("nemesis: not now")

// tolerated returns how many masters may fail at the same time so that a quorum is left.
func (t *Target) tolerated() int { return (len(t.Nodes) - 1) / 2 }

// claim takes count random nodes for one fault, until unclaim. A node has one fault at a time, so the record of that fault says all that
// was done to the node meanwhile.
//
// After a forgetful fault the nodes may have lost votes and counters. Tokens are promised while a quorum of masters still has its counters
// (docs/safety.md, "Amnesia"). A master that lost them counts as lost until it votes again.
func (t *Target) claim(r *rand.Rand, count int, forgetful bool) ([]*Node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if forgetful && t.forgetfulLocked()+count > t.tolerated() {
		return nil, errBusy
	}
	var nodes []*Node
	for _, i := range r.Perm(len(t.Nodes)) {
		// A master that lost its data and does not vote yet is not chosen: it is as good as down already.
		if n := t.Nodes[i]; len(nodes) < count && !n.busy && !n.forgot {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) < count {
		return nil, errBusy
	}
	for _, n := range nodes {
		n.busy, n.forgot = true, forgetful
	}
	return nodes, nil
}

// forgetfulLocked is how many masters count as having lost votes and counters.
func (t *Target) forgetfulLocked() (count int) {
	for _, n := range t.Nodes {
		if n.forgot {
			count++
		}
	}
	return count
}

// beginWrong notes a fault of clocks, until endWrong. Where a majority of the masters has lost its counters, those that it starts from rest on the
// masters' clocks alone (docs/safety.md, "Amnesia"). So no clock goes wrong before they vote again, and no majority forgets while one is wrong: a clock that
// is ahead then takes all tokens ahead with it, and they go back when a majority forgets the next time.
func (t *Target) beginWrong() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forgetfulLocked() > t.tolerated() {
		return errBusy
	}
	t.wrong++
	return nil
}

func (t *Target) endWrong() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong--
}

// forgetAll notes that these nodes, too many, forget: see beginWrong.
func (t *Target) forgetAll(nodes []*Node) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong > 0 {
		return errBusy
	}
	for _, n := range nodes {
		n.forgot = true
	}
	return nil
}

func (t *Target) unclaim(nodes []*Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range nodes {
		n.busy = false
	}
}

// takeLinks claims links for one fault. It takes all or none of them, and returns whether it took them. A link has one fault at a time.
func (t *Target) takeLinks(which [][]bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.links == nil {
		t.links = map[*faultproxy.Proxy]struct{}{}
	}
	links := t.chosen(which)
	for _, link := range links {
		if _, taken := t.links[link]; taken {
			return false
		}
	}
	for _, link := range links {
		t.links[link] = struct{}{}
	}
	return true
}

func (t *Target) giveLinks(which [][]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, link := range t.chosen(which) {
		delete(t.links, link)
	}
}

// replace gives the node's name to another master, and makes the links lead to it. The caller holds n.server.
func (t *Target) replace(n *Node, m *cluster.Master) {
	n.master = m
	for _, rows := range [][][]*faultproxy.Proxy{t.Links, t.Spare, {t.Service}} {
		for _, row := range rows {
			for i := range row {
				if t.Nodes[i] == n {
					row[i].Retarget(m.Addr())
				}
			}
		}
	}
}

// Heal ends every fault that a nemesis may have left on links, clocks, disks, servers and clients. It goes on after an error and joins the
// errors. A nemesis ends its own faults; Heal is for those that it could not end.
func (t *Target) Heal(ctx context.Context) error {
	var errs []error
	for _, c := range t.Clients {
		errs = append(errs, c.Resume())
	}
	for _, row := range append(slices.Clone(t.Links), t.Service) {
		for _, p := range row {
			errs = append(errs, p.Heal())
		}
	}
	for _, n := range t.Nodes {
		m := n.Master()
		if t.Clocks {
			errs = append(errs, m.StallDisk(0), m.SetRate(1), m.StepClock(0))
		}
		errs = append(errs, m.Start(ctx), m.Unpause(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("nemesis: heal: %w", err)
	}
	return nil
}
