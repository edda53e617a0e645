// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock/internal/counting"
	"github.com/redlock-go/redlock/redlock/internal/holding"
)

// releaseGrace is how far past its caller's deadline a round that gave no lease
// waits for its releases: masters that answer at all have answered by then.
const releaseGrace = 3 * time.Millisecond

// Client takes locks on one fixed set of masters. Make one with [Open] or [New]
// and share it: all methods are safe for concurrent use.
type Client struct {
	settings
	nodes   []node.Node
	all     uint64 // the set of all nodes
	need    int    // the quorum
	tag     string // that names must have, for the sake of the master called tagged
	tagged  string
	id      string
	attempt atomic.Uint64
	renewer *renewer
	tokens  counting.TokenSource
	epoch   epoch
	closed  atomic.Bool
	quit    chan struct{} // closed by Close
	stats   stats

	keeper    keeper
	waiting   waiters
	deadlines deadlines
	// quorumCalls are used again when they were answered by everybody.
	quorumCalls sync.Pool

	instants instants

	// trustedFrom is what start a lease or a round must have to be believed in, on clock.
	trustedFrom atomic.Int64

	mu     sync.Mutex
	idents []protocol.Identity // by node; zero while it never connected
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
// What waiting cannot mend is returned at once:
//
//	ErrConfig     an option or a URL that cannot work; a replica, or one master under two
//	              addresses; an [EpochError]: a master votes with another list
//	ErrNeedsInit  the masters are new, or a majority lost its records: see [Init]
//	ErrRefused    so many masters refuse the user or its rights that no quorum is left
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
	cfg := s.node
	cfg.Clock, cfg.StallAfter = s.clock, s.nodeTimeout
	nodes := make([]node.Node, len(urls))
	for i, u := range urls {
		n, err := node.Open(u, cfg)
		if err != nil {
			closeAll(nodes[:i])
			return nil, fmt.Errorf("%w: master %d of %d: %w", ErrConfig, i+1, len(urls), err)
		}
		nodes[i] = n
	}
	c, err := newClient(ctx, nodes, s)
	if err != nil {
		closeAll(nodes)
		return nil, err
	}
	return c, nil
}

// New is [Open] for nodes that were made elsewhere: of ready go-redis clients
// ([node.New]) or in memory (package nodetest). It waits as Open does and returns the
// same errors. The client closes the nodes in Close; on an error they stay the caller's,
// who must close them: a node serves one client only.
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
	return newClient(ctx, nodes, s)
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
		nodes:    nodes,
		all:      1<<len(nodes) - 1,
		need:     counting.Quorum(len(nodes)),
		id:       s.newID(),
		quit:     make(chan struct{}),
		instants: instants{clock: s.clock},
		idents:   make([]protocol.Identity, len(nodes)),
	}
	c.trustedFrom.Store(math.MinInt64)
	var err error
	if c.epoch, err = newEpoch(nodes, &s); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		slot, ok := n.(interface{ Tag() string })
		switch {
		case !ok || slot.Tag() == "":
		case c.tag != "" && c.tag != slot.Tag():
			return nil, fmt.Errorf("%w: masters %s and %s are slots of two tags, {%s} and {%s}, and no lock's name has both: give them one",
				ErrConfig, c.tagged, n.Name(), c.tag, slot.Tag())
		default:
			c.tag, c.tagged = slot.Tag(), n.Name()
		}
	}
	c.renewer = newRenewer(c)
	c.keeper.init(c)
	c.waiting.init(c)
	for i, n := range nodes {
		n.Bind(protocol.Binding{
			CheckRecordState: c.epoch.terms != nil,
			Drift:            s.drift,
			Admit:            func(id protocol.Identity) error { return c.admit(i, id) },
			Message:          func(channel, payload string) { c.waiting.message(i, channel, payload) },
			Subscribed:       func(string) { c.waiting.lookAgain(i) },
			Up:               func() { c.keeper.kick(i, nil) },
			Trouble:          func(err error) { c.keeper.kick(i, err) },
		})
	}
	if err := c.open(ctx); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// admit refuses a master that is in the list already under another address: it
// would vote twice (docs/safety.md A25).
func (c *Client) admit(i int, id protocol.Identity) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for j, other := range c.idents {
		if j != i && other.RunID == id.RunID {
			return fmt.Errorf("%w: %s and %s are the same master (run_id %s): name it once", ErrConfig,
				c.nodes[j].Name(), c.nodes[i].Name(), id.RunID)
		}
	}
	c.idents[i] = id
	return nil
}

func (c *Client) identity(i int) protocol.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idents[i]
}

// Close ends renewal and frees the client's connections and goroutines. Leases
// that are still held are not released, for the code under them may still run:
// their contexts end with [ErrClosed], and the masters forget them when their
// TTL is over. Releases under way are sent first, for at most the node timeout.
// Everything fails with ErrClosed afterwards. Close is safe twice, and of a nil or zero
// Client. It returns nil.
func (c *Client) Close() error {
	if !c.isZero() && c.stop() {
		closeAll(c.nodes)
	}
	return nil
}

// isZero says whether c was not made by Open or New.
func (c *Client) isZero() bool { return c == nil || c.clock == nil }

// stop ends everything but the nodes, once.
func (c *Client) stop() bool {
	if c.closed.Swap(true) {
		return false
	}
	close(c.quit)
	c.renewer.close()
	c.waiting.close()
	c.keeper.close()
	return true
}

func closeAll(nodes []node.Node) {
	var g errgroup.Group
	for _, n := range nodes {
		g.Go(n.Close)
	}
	_ = g.Wait()
}

// jitter is a random time in [0, d): pauses of clients must not fall together.
func (c *Client) jitter(d time.Duration) time.Duration {
	if c.node.Rand == nil {
		return mathrand.N(d)
	}
	return time.Duration(c.node.Rand() % uint64(d))
}

// nextHolder is the id of one attempt. It is never used again: a late release
// of an earlier attempt cannot match it (docs/safety.md A14). The form,
// uuid:number, is Redisson's.
func (c *Client) nextHolder() string {
	if mutants.SameHolder {
		return c.id + ":1"
	}
	var b [64]byte
	return string(strconv.AppendUint(append(append(b[:0], c.id...), ':'), c.attempt.Add(1), 10))
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

// roundTimeout is how long a round waits for silent masters: remain/N of what is
// left of the caller's time and of the TTL, within [1 ms, NodeTimeout].
func (c *Client) roundTimeout(ctx context.Context, ttl time.Duration) time.Duration {
	remain := ttl
	if deadline, ok := ctx.Deadline(); ok {
		remain = min(remain, time.Until(deadline))
	}
	return max(min(remain/time.Duration(len(c.nodes)), c.nodeTimeout), time.Millisecond)
}

// round is one acquire on its way (docs/algorithm.md).
type round struct {
	c       *Client
	ctx     context.Context
	l       *protocol.Lock
	ls      *lockSettings
	holder  string
	start   time.Duration
	timeout time.Duration
	b       *quorumCall
}

// acquire is one round: see conclude. Of one that waits ct is the contender, which says when
// each master is asked; without one all are at once.
//
// req is what the kind of acquire adds: a place in the queue, a vote to join.
func (c *Client) acquire(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request, ct *contender) (*Lease, []protocol.Reply, error) {
	if err := c.mayLock(ctx, l); err != nil {
		return nil, nil, err
	}
	r := c.prepare(ctx, l, ls, req)
	if ct == nil {
		r.b.send(c.all)
	} else {
		ct.askWhenWoken(&r)
	}
	return r.conclude(ct)
}

// invalidateBefore ends all leases and rounds that began before now: the clock that they are
// measured by has jumped.
func (c *Client) invalidateBefore(now time.Duration) {
	c.trustedFrom.Store(int64(now))
	c.renewer.endUntrusted()
}

func (c *Client) trusted() time.Duration { return time.Duration(c.trustedFrom.Load()) }

// mayLock says why no round is to begin, or nil.
func (c *Client) mayLock(ctx context.Context, l *protocol.Lock) error {
	switch {
	case ctx.Err() != nil:
		return gaveUp(ctx, l, nil)
	case c.closed.Load():
		return ErrClosed
	}
	return nil
}

// prepare prepares a round, in which the masters are to be asked.
func (c *Client) prepare(ctx context.Context, l *protocol.Lock, ls *lockSettings, req *protocol.Request) round {
	c.stats.rounds.Add(1)
	r := round{c: c, ctx: ctx, l: l, ls: ls, holder: c.nextHolder(), start: c.clock.Elapsed(), timeout: c.roundTimeout(ctx, ls.ttl)}
	req.Kind, req.Lock, req.Holder, req.TTL = protocol.Acquire, l, r.holder, ls.ttl
	req.Token = c.tokens.Propose(c.clock.Wall())
	req.Start, req.Deadline = r.start, r.start+r.timeout
	r.b = c.newQuorumCall(c.need, req)
	return r
}

// conclude waits for the masters' answers when all were asked. It returns a lease, or a
// *RoundError with the masters' replies, or the caller's own ctx error. Whatever is
// not a lease has been given back on every master that granted in time; the other
// masters are sent the release behind the acquire.
//
// A contender, nil for a caller that does not wait, keeps its place on the masters
// that granted in vain. It does not wait for them to confirm the release when it is
// going to try again: a slow master would keep it from hearing its wake.
func (r *round) conclude(ct *contender) (*Lease, []protocol.Reply, error) {
	c, ctx, l, ls, b := r.c, r.ctx, r.l, r.ls, r.b
	holder, start := r.holder, r.start
	v := b.await(ctx, r.timeout)
	if ct != nil {
		ct.decided(b)
	}
	var token int64
	var overtaken error
	if v == counting.Won {
		token, v, overtaken = c.settleToken(ctx, b, l, holder, r.timeout)
	}
	now := c.clock.Elapsed() // after the last counted reply (Redlock page, step 3)
	if mutants.NoElapsedCheck {
		start = now
	}
	validity := c.drift.Validity(ls.ttl, now-start)

	// A cancel that races a win wins: a lease is never given for a context
	// that is done, so "Lock returned nil error" means the caller still wants it.
	if v == counting.Won && validity > ls.minValidity && ctx.Err() == nil {
		h := &hold{c: c, l: l, ls: *ls, holder: holder, token: token, acquireCall: b,
			start: start, grant: holding.New(c.need, c.all, start, c.drift.Validity(ls.ttl, 0)), pos: -1}
		lease := h.leaseLocked(ctx)
		if c.renewer.add(h) {
			if ct != nil {
				ct.granted(b)
			}
			c.stats.granted.Add(1)
			return lease, nil, nil
		}
	}
	if v == counting.Lost {
		// Without a quorum of answers nobody knows whether the lock is held or the
		// masters are out of reach.
		b.hear(ctx, c.need, r.timeout-(now-start))
	}
	err := c.roundError(l, b.replies())
	goesOn := ct != nil && ctx.Err() == nil && (errors.Is(err, ErrHeld) || errors.Is(err, ErrRecovering))
	if v == counting.Lost && !goesOn {
		r.hearOut(now - start)
	}
	granted, maybe, _ := b.votes()
	if mutants.ReleaseOnCaller && ctx.Err() != nil {
		maybe = 0
	}
	replies := b.replies()
	err = c.roundError(l, replies)
	err.hurried = r.timeout < c.nodeTimeout
	req := protocol.Request{Lock: l, Holder: holder, Deadline: start + ls.ttl + c.drift.Of(ls.ttl)}
	if ct != nil {
		req.Wait = ct.lost(replies)
	}
	switch {
	case ctx.Err() != nil:
		granted = maybe // the masters were not given their time to answer
	case goesOn:
		granted = 0
	}
	c.release(ctx, &req, maybe&granted, maybe&^granted)
	b.done()
	switch {
	case ctx.Err() != nil:
		return nil, nil, gaveUp(ctx, l, err)
	case c.closed.Load():
		return nil, nil, ErrClosed
	case v == counting.Won:
		err.Elapsed = now - start
	case overtaken != nil && err.Granted >= c.need:
		err.kind = overtaken
	}
	return nil, replies, err
}

// hearOut waits for masters that have not answered a round that was lost after took, for
// a few times as long: so that the error does not call a master silent that only
// answered last.
func (r *round) hearOut(took time.Duration) {
	r.b.hear(r.ctx, everybody, min(max(3*took, hearOutMin), hearOutMax, r.timeout-took))
}

const hearOutMin, hearOutMax = time.Millisecond, 10 * time.Millisecond

// release gives back what a failed attempt may have, everywhere at once. It waits for
// the masters in granted: when the caller goes on, none of them has a key of the
// attempt. A cancel of the caller's context does not end that, for it is often what
// ended the attempt; its deadline does, a little later. It does not wait for the masters
// in others, which have not answered the acquire either: what is sent to a master later
// is executed later.
func (c *Client) release(ctx context.Context, req *protocol.Request, granted, others uint64) {
	req.Kind, req.Start = protocol.Release, c.clock.Elapsed()
	if others != 0 {
		c.poll(others, 0, req).done()
	}
	if granted == 0 {
		return
	}
	timeout := c.nodeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(min(time.Until(deadline), timeout), 0)+releaseGrace)
	}
	b := c.poll(granted, 0, req)
	b.await(context.Background(), timeout)
	b.done()
}
