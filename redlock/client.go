// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/redlock-go/redlock/internal/instants"
	"github.com/redlock-go/redlock/internal/lock/attempt"
	"github.com/redlock-go/redlock/internal/lock/counting"
	"github.com/redlock-go/redlock/internal/lock/hold"
	"github.com/redlock-go/redlock/internal/lock/inspect"
	"github.com/redlock-go/redlock/internal/lock/quorum"
	"github.com/redlock-go/redlock/internal/lock/wait"
	"github.com/redlock-go/redlock/internal/logline"
	"github.com/redlock-go/redlock/internal/masters"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/event"
)

// Client takes locks on one fixed set of masters. Make one with [Open] or [New]
// and share it: all methods are safe for concurrent use.
type Client struct {
	settings
	masters quorum.Masters
	tag     string // that names must have, for the sake of the master called tagged
	tagged  string
	id      string
	renewer *hold.Renewer
	tries   attempt.Tries
	epoch   epoch
	closed  atomic.Bool
	quit    chan struct{} // closed by Close
	gone    chan struct{} // closed when Close has closed the nodes, or has taken a second or the node timeout
	// serving ends when Shutdown or Close begins, with the error of calls for a lock as its cause.
	serving    context.Context
	endServing context.CancelCauseFunc
	ending     atomic.Bool   // one of the calls of Shutdown ends the client
	ended      chan struct{} // closed when it has
	endErr     error         // what it returns, when ended is closed
	stats      stats

	keeper   *masters.Keeper
	tells    telling
	lines    *wait.Lines
	naming   singleflight.Group // of the questions who has a lock
	asker    inspect.Asker
	watchers inspect.Watchers
	label    inspect.Labeller
	instants instants.Instants

	// trustedFrom is when the clock jumped last. A lease or a round that began by then is over.
	trustedFrom atomic.Int64
}

// Open connects to the masters at urls (see [node.Open] for the forms) and returns a
// client for locks over all of them. The list must be the same for every client, in any
// order: two clients with different lists do not exclude each other (docs/safety.md A24).
//
// Open waits until a quorum of the masters has answered, for as long as ctx allows: a
// program that starts in an outage waits instead of failing. With [WithLogger] it says
// whom it waits for. When a quorum has answered, it gives the others the time of one
// dial, or until ctx's deadline; masters that are still down are taken in when they come up.
// ctx bounds the opening only; the client lives until [Client.Close].
//
// An error that waiting cannot cure is returned at once:
//
//	ErrConfig     an option or a URL that cannot work; one master under two addresses; so many
//	              replicas, or masters that may evict locks, that no quorum is left; or, while no
//	              quorum votes, a record that cannot be read
//	ErrNeedsInit  the masters are new, or a majority lost its records: see admin.Init. Open looks for
//	              a second first, because a client that runs may be about to recover them
//	ErrRefused    so many masters refuse the user or its rights that no quorum is left; or, while no
//	              quorum votes, an [EpochError]: a master votes with another list
//
// A minority of masters that are wrong in such a way costs what a minority of dead masters does.
// The log has an error for each, and its state is [event.MasterRefuses].
//
// When ctx ends first, the error is both [ErrUnreachable] and ctx.Err(), and names the
// masters that did not answer. A ctx that was cancelled is an error even if a quorum
// has answered.
//
// On an error nothing is left behind.
func Open(ctx context.Context, urls []string, opts ...Option) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	s, err := apply(opts)
	if err != nil {
		return nil, err
	}
	if err := s.checkCount(len(urls)); err != nil {
		return nil, err
	}
	nodes, err := s.openNodes(urls)
	if err != nil {
		return nil, err
	}
	c, err := newClient(ctx, nodes, s)
	if err != nil {
		masters.CloseAll(nodes)
		return nil, err
	}
	return c, nil
}

// openNodes makes the nodes of a client. It sends nothing.
func (s *settings) openNodes(urls []string) ([]node.Node, error) {
	cfg := s.node
	cfg.Clock = s.clock
	if s.nodeTimeoutSet {
		cfg.StallAfter = s.nodeTimeout
	}
	nodes := make([]node.Node, len(urls))
	for i, u := range urls {
		n, err := node.Open(u, cfg)
		if err != nil {
			masters.CloseAll(nodes[:i])
			return nil, fmt.Errorf("%w: master %d of %d: %w", ErrConfig, i+1, len(urls), err)
		}
		nodes[i] = n
	}
	return nodes, nil
}

// New is [Open] for nodes that were made elsewhere: of ready go-redis clients
// ([node.New]) or in memory (package nodetest). It waits as Open does and returns the
// same errors. The client closes the nodes in Close; on an error they stay the caller's,
// who must close them: a node serves one client only. A node that another client or operation has or had, or that is
// closed, is an [ErrConfig]. After an error none of the nodes can be used again: make new ones. Nodes must have the client's clock: see [WithClock].
func New(ctx context.Context, nodes []node.Node, opts ...Option) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	s, err := apply(opts)
	if err != nil {
		return nil, err
	}
	if err := s.checkCount(len(nodes)); err != nil {
		return nil, err
	}
	return newClient(ctx, slices.Clone(nodes), s) // the caller may use its slice again
}

// checkCount says whether n masters make a quorum worth having.
func (s *settings) checkCount(n int) error {
	switch {
	case n > counting.MaxMasters:
		return fmt.Errorf("%w: %d masters: want %d or fewer", ErrConfig, n, counting.MaxMasters)
	case n == 0:
		return fmt.Errorf("%w: no masters: want an odd number of 3 or more", ErrConfig)
	case s.nodeCount != 0 && n != s.nodeCount:
		return fmt.Errorf("%w: %d masters, but WithNodeCount(%d): the quorum is one of the configured masters, never of those that happen to be there", ErrConfig, n, s.nodeCount)
	case s.nodeCount == 0 && n < 3:
		return fmt.Errorf("%w: %d masters: a quorum needs 3 or more; WithNodeCount(%d) takes fewer knowingly", ErrConfig, n, n)
	case s.nodeCount == 0 && n%2 == 0:
		return fmt.Errorf("%w: %d masters: an even number outlives no more failures than %d; WithNodeCount(%d) takes it all the same", ErrConfig, n, n-1, n)
	}
	return nil
}

func newClient(ctx context.Context, nodes []node.Node, s settings) (*Client, error) {
	c := &Client{
		settings: s,
		masters:  quorum.Masters{Nodes: nodes, Need: counting.Quorum(len(nodes)), All: 1<<len(nodes) - 1, Clock: s.clock, Drift: s.drift, MaxTTL: s.maxTTL},
		id:       s.newID(),
		quit:     make(chan struct{}),
		gone:     make(chan struct{}),
		instants: instants.Instants{Clock: s.clock},
	}
	c.masters.Timeout, c.masters.Trusted, c.masters.Trip = c.timeout, c.trusted, c.trip
	c.tries.Masters, c.tries.Client = &c.masters, c.id
	c.trustedFrom.Store(math.MinInt64)
	c.serving, c.endServing = context.WithCancelCause(context.Background())
	c.ended = make(chan struct{})
	var err error
	if c.epoch, err = newEpoch(nodes, &s); err != nil {
		return nil, err
	}
	if err = c.findTag(); err != nil {
		return nil, err
	}
	if s.logger != nil {
		s.told = append([]event.Observer{logline.Observer(s.logger, func(round error) time.Duration { return failedRound(round).RetryAfter })}, s.told...)
	}
	c.tells = newTelling(c, s.told)
	c.lines = wait.New(c.waits())
	c.keeper = masters.NewKeeper(c.keeps())
	c.initRenewer() // which asks the keeper
	if len(c.tells.voted) > 0 {
		c.masters.Voted = c.tellVoted
	}
	c.initInspection()
	for i, n := range nodes {
		if err := n.Bind(c.binding(i)); err != nil {
			c.stop()
			return nil, masters.Spent(err)
		}
	}
	if err := c.keeper.Open(ctx); err != nil {
		c.stop()
		return nil, err
	}
	c.label.Begin()
	tell(c.tells.opened, event.Client(c))
	return c, nil
}

// initInspection makes the parts of the client that ask who has a lock, and that tell what others are shown of the client.
func (c *Client) initInspection() {
	c.asker = inspect.Asker{Masters: &c.masters, Clock: c.clock, Timeout: c.timeout, Namespace: c.namespace, Drift: c.drift, MaxTTL: c.maxTTL,
		Check: func(name string) error { return cmp.Or(checkName(name), c.checkSlot(name)) }, MayAsk: c.mayAsk, Closed: c.closed.Load, Explain: c.keeper.Explain}
	c.watchers.Nodes, c.watchers.Namespace = c.masters.Nodes, c.namespace
	c.label.Nodes, c.label.Clock, c.label.Client, c.label.Label = c.masters.Nodes, c.clock, c.id, c.owner
	c.label.Lives, c.label.Jitter = inspect.LabelLives(c.maxTTL), c.jitter
}

// binding is what master i tells the client, and how it is asked.
func (c *Client) binding(i int) protocol.Binding {
	return protocol.Binding{
		Namespace:        c.namespace,
		CheckRecordState: c.epoch.terms != nil,
		Drift:            c.drift,
		Admit:            func(id protocol.Identity) error { return c.keeper.Admit(i, id) },
		Message: func(channel, payload string) {
			if !c.watchers.Tell(channel) {
				c.lines.Message(i, channel, payload)
			}
		},
		Subscribed: func(channel string) {
			if !c.watchers.Tell(channel) {
				c.lines.Subscribed(i, channel)
			}
		},
		Owner: c.owner,
		Up: func() {
			c.label.Tell(i)
			c.keeper.Up(i)
		},
		Back:    func() { c.keeper.Back(i) },
		Down:    func(err error) { c.keeper.Board.Down(i, err) },
		Writes:  func(err error) { c.keeper.Writes(i, err) },
		Trouble: func(err error) { c.keeper.Trouble(i, err) },
	}
}

// findTag notes the tag that the names of locks must have because a master is a slot of a Redis Cluster, if one is.
func (c *Client) findTag() error {
	for _, n := range c.masters.Nodes {
		slot, ok := n.(interface{ Tag() string })
		switch {
		case !ok || slot.Tag() == "":
		case c.tag != "" && c.tag != slot.Tag():
			return fmt.Errorf("%w: masters %s and %s are slots of two tags, {%s} and {%s}, and no lock's name has both: give them one, or open a whole cluster with OpenCluster",
				ErrConfig, c.tagged, n.Name(), c.tag, slot.Tag())
		default:
			c.tag, c.tagged = slot.Tag(), n.Name()
		}
	}
	return nil
}

// initRenewer makes the renewer of the client's holds. The Observers are known by then.
func (c *Client) initRenewer() {
	c.renewer = &hold.Renewer{Masters: &c.masters, Propose: c.tries.Propose, Events: hold.Events{
		Released: c.lines.Released, Offer: c.lines.Offer,
		Why:      c.keeper.Reason,
		GaveUp:   func(ctx context.Context, l *protocol.Lock) error { return gaveUp(ctx, l, nil) },
		Ended:    toldAll(c.tells.ended),
		Extended: toldAll(c.tells.extended),
	}}
	if unlocked := c.tells.unlocked; len(unlocked) > 0 {
		c.renewer.Events.Unlocked = func(ctx context.Context, e event.Unlock) { tellOf(ctx, unlocked, e) }
	}
	c.renewer.Start()
}

// Close ends renewal and frees the client's connections and goroutines, at once. Leases
// that are still held are not released, for the code under them may still run:
// their contexts end with [ErrClosed], and the masters forget them when their
// TTL is over. So the next holder waits for the rest of the TTL: a program that ends in good order
// calls [Client.Shutdown] instead, which waits for its holders and releases what they held.
//
// Releases under way are sent first, for at most the node timeout.
// Everything fails with ErrClosed afterwards. Close is safe twice, and of a nil or zero
// Client. A Close beside another one waits until that one has ended, for a second or the node timeout at most. It returns nil.
func (c *Client) Close() error {
	if c.isZero() {
		return nil
	}
	if c.closed.Swap(true) {
		<-c.gone // a program may exit when its own Close returns
		return nil
	}
	went := sync.OnceFunc(func() { close(c.gone) })
	limit := time.AfterFunc(max(c.timeout(), partingTime), went) // this Close may wait for an Observer that calls Close
	c.stop()
	masters.CloseAll(c.masters.Nodes)
	limit.Stop()
	went()
	tell(c.tells.closed, event.Client(c))
	return nil
}

// isZero says whether c was not made by Open or New.
func (c *Client) isZero() bool { return c == nil || c.clock == nil }

// stop ends everything but the nodes. It is called once.
func (c *Client) stop() {
	c.closed.Store(true)
	c.endServing(ErrClosed)
	close(c.quit)
	c.renewer.Close()
	c.lines.Close()
	c.watchers.Close()
	c.label.Close()
	c.keeper.Close()
}

// jitter is a random time in [0, d): pauses of clients must not fall together.
func (c *Client) jitter(d time.Duration) time.Duration {
	if c.node.Rand == nil {
		return mathrand.N(d)
	}
	return time.Duration(c.node.Rand() % uint64(d))
}

// rand64 is 64 random bits that no other client has.
func (s *settings) rand64() uint64 {
	if s.node.Rand != nil {
		return s.node.Rand()
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// newID is a random UUID, of crypto/rand, which never fails, unless a simulation says
// otherwise.
func (s *settings) newID() string {
	var b [16]byte
	if s.node.Rand == nil {
		_, _ = rand.Read(b[:])
	} else {
		binary.BigEndian.PutUint64(b[:8], s.node.Rand())
		binary.BigEndian.PutUint64(b[8:], s.node.Rand())
	}
	b[6] = b[6]&0x0f | 0x80 // version 8: votes.lua tells our holders from Java's by it
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// invalidateUntil ends all leases and rounds that began by now, because the client's clock
// has jumped since.
func (c *Client) invalidateUntil(now time.Duration) {
	c.trustedFrom.Store(int64(now))
	c.renewer.EndUntrusted()
}

func (c *Client) trusted() time.Duration { return time.Duration(c.trustedFrom.Load()) }
