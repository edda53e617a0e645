// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/lock/engine"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/node/nodetest"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

func (w *world) namespace() protocol.Namespace { return protocol.Namespace(w.cfg.Namespace) }

func (w *world) recordKey() string { return w.namespace().Record("") }

// hostClock is one client's: any offset, some rate, and jumps ahead, which is what a suspend of the host looks like to it.
type hostClock struct {
	start  time.Time
	offset time.Duration
	wall   time.Duration
	rate   float64
	jumped atomic.Int64
}

func (c *hostClock) Elapsed() time.Duration {
	return c.offset + time.Duration(float64(time.Since(c.start))*c.rate) + time.Duration(c.jumped.Load())
}

func (c *hostClock) Wall() time.Time { return time.Now().Add(c.wall) }

// real is how long d of this clock takes.
func (c *hostClock) real(d time.Duration) time.Duration { return time.Duration(float64(d) / c.rate) }

// rate of one clock. Two tended ones differ by less than the default drift.
func rate(rnd *rand.Rand, wild bool) float64 {
	if wild {
		return 0.5 + 1.5*rnd.Float64()
	}
	return 0.996 + 0.008*rnd.Float64()
}

// member is one client process with its host.
type member struct {
	w     *world
	id    int
	clock *hostClock
	ids   instant
	wires []*wire
	rough atomic.Bool
	opts  []redlock.Option
	share float64 // of a list's maximum TTL that its locks have
	// watch sees each command that is sent, and may change what happens to it. Nil is fine.
	watch func(cmd nodetest.Command, f *nodetest.Fault)

	born chan struct{} // holds a token when a process has started

	mu     sync.Mutex
	proc   *process // the last one that was begun; nil for operators
	client *redlock.Client
	list   *list         // of client, where masters are changed
	again  chan struct{} // holds a token when the process is to be restarted...
	notYet time.Time     // ...and when it starts
	away   bool          // cut off for a whole change
}

// inside has the functions of package redlock that are not for its users.
var inside = redlock.Engine(engine.Key{})

func (w *world) newMember(i int) *member {
	rnd := w.rand(fmt.Sprintf("member %d", i))
	m := &member{w: w, id: i, ids: w.instant(fmt.Sprintf("ids %d", i))}
	m.clock = &hostClock{start: w.start, offset: time.Duration(rnd.Int64N(int64(time.Hour))), rate: 0.996 + 0.008*rnd.Float64(),
		wall: time.Duration(rnd.Int64N(int64(2*time.Hour))) - time.Hour}
	if i%2 == 1 { // near enough for its proposals of tokens to count
		m.clock.wall /= 120
	}
	for j := range w.masters {
		m.wires = append(m.wires, &wire{m: m, sent: w.instant(fmt.Sprintf("wire %d-%d", i, j)),
			pushed: w.instant(fmt.Sprintf("messages %d-%d", i, j))})
	}
	// One TTL for all locks of a client.
	ttl := w.cfg.MinTTL + time.Duration(rnd.Int64N(int64(w.cfg.MaxTTL-w.cfg.MinTTL)))
	m.again, m.born, m.share = make(chan struct{}, 1), make(chan struct{}, 1), float64(ttl)/float64(w.cfg.MaxTTL)
	m.opts = []redlock.Option{redlock.WithClock(m.clock), inside.WithRand(m.ids.Uint64), redlock.WithMaxTTL(w.cfg.MaxTTL),
		redlock.WithTTL(ttl), redlock.WithNodeTimeout(30 * time.Millisecond)}
	if w.cfg.Namespace != "" {
		m.opts = append(m.opts, redlock.WithNamespace(w.cfg.Namespace))
	}
	if !w.cfg.Operated {
		m.opts = append(m.opts, redlock.WithFixedMasters())
	}
	return m
}

// options are those of a client of l.
func (m *member) options(l *list) []redlock.Option {
	return append(slices.Clone(m.opts), redlock.WithMaxTTL(l.ttl), redlock.WithTTL(time.Duration(m.share*float64(l.ttl))))
}

// node is a new way to one master, of the process p if it is not nil.
func (m *member) node(p *process, purpose string, i int) *nodetest.Node {
	n := m.w.masters[i].Node(node.Config{Clock: m.clock, Rand: m.w.instant(fmt.Sprintf("%s %d-%d", purpose, m.id, i)).Uint64, StallAfter: 30 * time.Millisecond})
	if p == nil {
		n.SetFault(m.wires[i].fault)
		return n
	}
	n.SetFault(func(cmd nodetest.Command) nodetest.Fault {
		if f, dead := p.sends(cmd); dead {
			return f
		}
		return m.wires[i].fault(cmd)
	})
	return n
}

// connect makes new nodes to some masters, those of the process p.
func (m *member) connect(p *process, masters []int) []node.Node {
	nodes, own := make([]node.Node, len(masters)), make([]*nodetest.Node, len(masters))
	for k, i := range masters {
		own[k] = m.node(p, "lane", i)
		nodes[k] = own[k]
	}
	p.mu.Lock()
	p.nodes = own
	p.mu.Unlock()
	return nodes
}

// init lets the masters begin.
func (m *member) init() error {
	var nodes []node.Node
	for i := range m.w.masters {
		nodes = append(nodes, m.node(nil, "init", i))
	}
	defer closeAll(nodes)
	return admin.Init(context.Background(), admin.List{Nodes: nodes, Options: m.opts}, nil, admin.NothingWasEverLocked)
}

func closeAll(nodes []node.Node) {
	for _, n := range nodes {
		_ = n.Close()
	}
}

// open starts a client of all masters.
func (m *member) open(ctx context.Context) error {
	p, all := m.begin(), make([]int, len(m.w.masters))
	for i := range all {
		all[i] = i
	}
	nodes := m.connect(p, all)
	c, err := redlock.New(ctx, nodes, append(slices.Clone(m.opts), m.w.balanced())...)
	if err != nil {
		closeAll(nodes)
		return err
	}
	m.opened(p, c, nil)
	return nil
}

// use is the client that the process has now, or nil.
func (m *member) use() *redlock.Client {
	if m.running() == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.client
}

func (m *member) close() { m.closeProcess(nil) }

// closeProcess closes the client that the process p has, or any if p is nil. A client of a killed process sends nothing any more.
func (m *member) closeProcess(p *process) {
	m.mu.Lock()
	client := m.client
	if p != nil && m.proc != p {
		client = nil
	} else {
		m.client = nil
	}
	m.mu.Unlock()
	if client == nil {
		return
	}
	s := client.Stats()
	_ = client.Close()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.stats.Operations += s.Rounds + s.Extends
	m.w.stats.Grants += s.Granted
	m.w.stats.Extends += s.Extends
	m.w.stats.SecondRounds += s.SecondRounds
	m.w.stats.Lost += s.Lost
	for _, x := range m.wires {
		x.set(func(x *wire) {
			m.w.stats.Commands += x.commands
			m.w.stats.Hands += x.hands
			x.commands, x.hands = 0, 0
		})
	}
}

// wire is the network between one client and one master.
type wire struct {
	m *member

	sent, pushed instant

	mu       sync.Mutex
	cut      bool // partitioned
	away     bool // likewise, for a whole change of masters
	slow     time.Duration
	late     time.Duration // how late messages are
	unheard  bool          // messages are lost
	dumb     bool          // commands are lost from the next extend on
	commands uint64
	hands    uint64 // votes that the master handed to the client
}

var errKill = errors.New("NOPERM this user has no permissions to run the 'client|kill' command")

// fault is what happens to a command: the same to all that are sent at one instant. Even where nothing does, it takes its time.
func (w *wire) fault(cmd nodetest.Command) nodetest.Fault {
	f := w.chance(cmd)
	if w.m.watch != nil {
		w.m.watch(cmd, &f)
	}
	return f
}

func (w *wire) chance(cmd nodetest.Command) nodetest.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands++
	if cmd.Name == "message" && strings.Contains(cmd.Args[1], "\x00") {
		w.hands++
	}
	rnd := rand.New(rand.NewPCG(w.sent.Uint64(), 0))
	if cmd.Name == "message" {
		rnd = rand.New(rand.NewPCG(w.pushed.Uint64(), 0))
	}
	f := nodetest.Fault{
		Delay:      50*time.Microsecond + time.Duration(rnd.Int64N(int64(200*time.Microsecond))) + w.slow,
		ReplyDelay: 50*time.Microsecond + time.Duration(rnd.Int64N(int64(200*time.Microsecond))),
	}
	if !w.m.rough.Load() {
		return f
	}
	if cmd.Name == "message" && w.unheard {
		f.Lose = nodetest.LoseReply
		return f
	}
	if cmd.Name == "message" {
		f.ReplyDelay += w.late
	}
	if cmd.Name == "extend" && w.dumb {
		w.cut = true
	}
	if w.cut || w.away { // messages arrive
		f.Lose = nodetest.LoseCommand
		return f
	}
	cfg := &w.m.w.cfg
	if cmd.Name == "client kill" && !cfg.Left && rnd.IntN(4) == 0 {
		f.Refuse = errKill
	}
	lost, late := cfg.does("cut-replies"), cfg.does("reorder")
	switch n := rnd.IntN(1000) / cfg.Odds; {
	case n == 0 && lost: // docs/safety.md A17
		f.Lose, f.Cut = nodetest.LoseReply, true
	case n == 1 && lost:
		f.Lose, f.Cut = nodetest.LoseCommand, rnd.IntN(2) == 0
	case n == 2 && late: // A13, A14: held, and delivered when nobody waits for it any more
		f.Delay, f.Cut = time.Duration(rnd.Int64N(int64(2*cfg.Pace))), true
	case n >= 3 && n <= 5 && late:
		f.Delay += time.Duration(rnd.Int64N(int64(40 * time.Millisecond)))
	case n >= 6 && n <= 8 && late:
		f.ReplyDelay += time.Duration(rnd.Int64N(int64(40 * time.Millisecond)))
	}
	return f
}

func (w *wire) set(fn func(w *wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(w)
}

// claim is the instant until which the holder of a lease may believe in it, on the world's clock.
func (m *member) claim(lease *redlock.Lease) int64 {
	return m.w.now() + int64(m.clock.real(time.Until(lease.ValidUntil())))
}
