// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redlock-go/redlock/clock"
	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/unacked"
)

// maxRemaining caps the remaining TTL that a reply may claim, far above any
// real one: a foreign key's TTL is not ours to trust.
const maxRemaining = 365 * 24 * time.Hour

var errReply = errors.New("node: a reply that no script of this version gives")

// Config holds the limits of one master's lane. The zero value of a field means
// its default.
type Config struct {
	// Clock is what Op.Start and Op.Until are read on. Default clock.System().
	Clock clock.Clock
	// DialTimeout bounds connecting, and then the handshake. Default 500 ms.
	DialTimeout time.Duration
	// IOTimeout is how long a pipeline may stay unanswered before its
	// connection is given up and everything on it is unknown. It is longer
	// than any op's own time: a master that only paused answers on the same
	// connection, in order. Default 2 s.
	IOTimeout time.Duration
	// StallAfter is how long a pipeline may stay unanswered before Submit
	// turns new ops away, so that a hung master costs nothing. Default 150 ms.
	StallAfter time.Duration
	// QueueLimit is how many ops may wait. Default 16384.
	QueueLimit int
	// Tag is for a Redis Cluster only, and needed there: one slot of it is the node,
	// that of the tag, and all locks are named {tag}:name. [Open] takes it from the URL.
	Tag string
	// Rand is where the jitter of pauses comes from, safe for concurrent use.
	// Default math/rand/v2.Uint64. A simulation that must repeat sets it.
	Rand func() uint64
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 500 * time.Millisecond
	}
	if c.IOTimeout <= 0 {
		c.IOTimeout = 2 * time.Second
	}
	if c.StallAfter <= 0 {
		c.StallAfter = 150 * time.Millisecond
	}
	if c.QueueLimit <= 0 {
		c.QueueLimit = 16384
	}
	if c.Rand == nil {
		c.Rand = rand.Uint64
	}
	return c
}

// jitter is a random time in [0, d).
func (c *Config) jitter(d time.Duration) time.Duration {
	return time.Duration(c.Rand() % uint64(d))
}

// redisNode is one master behind go-redis. Make one with [Open] or [New].
type redisNode struct {
	name  string
	opts  redis.Options // of every connection; copied before use
	owned io.Closer     // what the dialer of opts stands on, if that is ours
	slot  *slot         // of a cluster, where the masters are found; else nil
	keys  *keys
	trust time.Duration // how long a connection may be idle: see trustFor
	cfg   Config
	clock clock.Clock
	bound protocol.Binding
	sub   subscription

	start sync.Once // the lane begins with the first Ready or Submit
	wake  chan struct{}
	quit  chan struct{} // closed by Close: ends pauses
	// life ends when Close loses its patience: no connection of the lane outlives it.
	life  context.Context
	end   context.CancelFunc
	done  chan struct{} // closed when the lane has ended
	first chan struct{} // closed after the first dial
	// dialled closes first.
	dialled sync.Once

	mu        sync.Mutex
	queue     []*protocol.Op
	unacked   unacked.List // Invariant: older than all that is queued
	busy      bool         // a pipeline is on its way
	busySince time.Duration
	down      bool // the breaker is open
	downErr   error
	closed    bool
	epoch     string        // of the gate that scripts compare; see Enter
	noVotes   error         // why no vote is asked for; nil: votes are
	doubtful  time.Duration // when the lane itself last refused
	live      *redis.Client // the lane's connection, for Close

	// The lane's own.
	lost       lostConn
	clockWatch clock.Watch   // of this master's clock, over all connections to one process
	watched    time.Duration // when it was last fed
	watchedRun string        // the run_id of the process whose clock it is
	spare      []*protocol.Op
	spareUndo  []*unacked.Entry
	pipe       pipeline
}

var _ Node = (*redisNode)(nil)

// New makes a node of a client that is set up already: its address or sentinels,
// credentials, database, TLS and dialer are used, its pool is not. The lane opens
// a connection of its own with the settings that a lock needs (no retries, no
// dial retries, its own timeouts), so a client whose options would make it unsafe
// for locks, as MaxRetries does, is safe here (docs/safety.md A16). Hooks do not
// see the lane's traffic. client stays the caller's to close.
//
// It does not connect; see Ready. A *redis.Client is what it takes, from
// redis.NewClient, redis.NewFailoverClient or redis.NewUniversalClient, or a
// *redis.ClusterClient and cfg.Tag, whose addresses are where the slot's master is
// asked for; any other kind is an error that names it.
func New(client redis.UniversalClient, cfg Config) (Node, error) {
	r, err := openClient(client, cfg)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func openClient(client redis.UniversalClient, cfg Config) (*redisNode, error) {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			break
		}
		o := c.Options()
		return open(redis.Options{
			Network: o.Network, Addr: o.Addr, Dialer: o.Dialer, OnConnect: o.OnConnect,
			Protocol: o.Protocol, Username: o.Username, Password: o.Password,
			CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
			StreamingCredentialsProvider: o.StreamingCredentialsProvider,
			DB:                           o.DB, TLSConfig: o.TLSConfig, ClientName: o.ClientName,
		}, cfg, nil)
	case *redis.ClusterClient:
		if c == nil {
			break
		}
		o := c.Options()
		if len(o.Addrs) == 0 {
			return nil, errors.New("node: a *redis.ClusterClient without addresses")
		}
		return open(redis.Options{
			Dialer: o.Dialer, OnConnect: o.OnConnect,
			Protocol: o.Protocol, Username: o.Username, Password: o.Password,
			CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
			StreamingCredentialsProvider: o.StreamingCredentialsProvider,
			TLSConfig:                    o.TLSConfig, ClientName: o.ClientName,
		}, cfg, o.Addrs)
	}
	return nil, fmt.Errorf("node: a %T cannot be one node: want a *redis.Client for one master, or a *redis.ClusterClient", client)
}

// open makes a node of opts, or of a cluster with these seeds.
func open(opts redis.Options, cfg Config, seeds []string) (*redisNode, error) {
	var at *slot
	switch {
	case len(seeds) > 0:
		if err := checkTag(cfg.Tag); err != nil {
			return nil, fmt.Errorf("node: a Redis Cluster: %w", err)
		}
		at, opts.Addr = &slot{seeds: slices.Clone(seeds)}, "cluster:"+cfg.Tag
	case cfg.Tag != "":
		return nil, errors.New("node: Config.Tag is for a Redis Cluster only, and this is none")
	}
	cfg = cfg.withDefaults()
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.DialTimeout = cfg.DialTimeout
	opts.ReadTimeout, opts.WriteTimeout = cfg.IOTimeout, cfg.IOTimeout
	opts.ContextTimeoutEnabled = true
	opts.PoolSize = 1
	if mutants.LibraryRetries {
		opts.MaxRetries, opts.PoolSize = 3, 8
	}
	// With RESP3 go-redis looks for pushed messages before each pipeline, with a
	// system call: a tenth of a lone caller's time. Nothing here needs RESP3.
	opts.Protocol = 2
	opts.DisableIdentity = true
	// Without an endpoint type go-redis before v9.23 resolves the host's name once more, for
	// each connection, although the mode is disabled.
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
	r := &redisNode{
		name: opts.Addr, opts: opts, slot: at, keys: keysIn(cfg.Tag), trust: math.MaxInt64, cfg: cfg, clock: cfg.Clock,
		wake:  make(chan struct{}, 1),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
		first: make(chan struct{}),
	}
	r.life, r.end = context.WithCancel(background)
	if at != nil || opts.Addr == "FailoverClient" { // so go-redis calls what sentinels name
		r.trust = trustFor
	}
	r.sub = subscription{r: r, want: make(map[string]bool), changed: make(chan struct{}, 1)}
	r.sub.life, r.sub.end = context.WithCancel(background)
	return r, nil
}

// Name is the master's address, "sentinel:NAME" or "cluster:TAG".
func (r *redisNode) Name() string { return r.name }

// Bind implements [Node].
func (r *redisNode) Bind(b protocol.Binding) { r.bound = b }

// Ready implements [Node].
func (r *redisNode) Ready(ctx context.Context) error {
	r.begin()
	select {
	case <-r.first:
	default:
		select {
		case <-r.first:
		case <-ctx.Done():
		}
	}
	select {
	case <-r.first:
	default:
		return &Error{Node: r.name, Err: fmt.Errorf("%w: no answer yet: %w", ErrDown, ctx.Err())}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return &Error{Node: r.name, Err: ErrClosed}
	}
	if r.down {
		return &Error{Node: r.name, Err: r.downErr}
	}
	return nil
}

// BehindFailover says whether the master is found through Sentinel or a Redis Cluster.
// Its address can be a replica's for as long as a failover takes.
func (r *redisNode) BehindFailover() bool { return r.trust != math.MaxInt64 }

func (r *redisNode) begin() { r.start.Do(func() { go r.run() }) }

// Submit implements [Node].
func (r *redisNode) Submit(op *protocol.Op) bool {
	r.begin()
	r.mu.Lock()
	err := r.refusalLocked(op)
	switch {
	case err == nil:
		r.queue = append(r.queue, op)
	case undoes(op.Request) && !r.closed:
		r.keepLocked(op.Request)
	}
	more := op.More // once it is queued, op is the lane's
	r.mu.Unlock()
	if !more {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	if err != nil {
		op.Reply = r.notSent(op, err)
	}
	return err == nil
}

// keepLocked keeps a Release or Leave that Submit turned away: behind what is queued,
// which it may undo, or for the next connection.
func (r *redisNode) keepLocked(req *protocol.Request) {
	switch {
	case r.down:
		r.unacked.Add(req)
	case len(r.queue) < r.cfg.QueueLimit+unacked.Max:
		kept := *req
		kept.More = false
		r.queue = append(r.queue, &protocol.Op{Request: &kept, To: nobody{}})
	default:
		r.unacked.CountDropped()
	}
}

// nobody receives the answers that nobody waits for.
type nobody struct{}

func (nobody) Receive(*protocol.Op) {}

func (r *redisNode) refusalLocked(op *protocol.Op) error {
	switch {
	case r.closed:
		return ErrClosed
	case r.down:
		return r.downErr
	case r.busy && op.Start-r.busySince > r.cfg.StallAfter:
		return ErrStalled
	case r.noVotes != nil && r.bound.CheckRecordState && (op.Kind == protocol.Acquire || op.Kind == protocol.Confirm):
		return r.noVotes
	case len(r.queue) >= r.cfg.QueueLimit:
		return ErrBusy
	}
	return nil
}

// Close implements [Node].
func (r *redisNode) Close() error {
	r.mu.Lock()
	again := r.closed
	r.closed = true
	r.mu.Unlock()
	r.start.Do(func() { close(r.done); r.dialled.Do(func() { close(r.first) }) })
	if !again {
		close(r.quit)
		select {
		case r.wake <- struct{}{}:
		default:
		}
		if r.owned != nil {
			defer r.owned.Close()
		}
	}
	r.sub.close()
	defer r.end()
	patience := time.NewTimer(r.cfg.StallAfter)
	defer patience.Stop()
	select {
	case <-r.done:
		return nil
	case <-patience.C:
	}
	r.end() // breaks the dial or the read that the lane sits in
	r.mu.Lock()
	if r.live != nil {
		_ = r.live.Close()
	}
	r.mu.Unlock()
	<-r.done
	return nil
}

// conn is one connection, with what the master said of itself on it.
type conn struct {
	*redis.Conn
	client  *redis.Client
	wire    net.Conn        // what both stand on
	pipe    redis.Pipeliner // empty whenever it was executed, and used again
	keys    *keys
	id      int64 // CLIENT ID, 0 when the master would not tell
	ident   protocol.Identity
	refused error // by greet
	unhook  func() bool
	// What the record's gate must be in epoch, and how it may begin for mending.
	epoch, gate, gateMending string
}

func (c *conn) close() {
	c.unhook()
	_ = c.Conn.Close()
	_ = c.client.Close()
}

// dial opens one connection, and returns options that make go-redis use it and no
// other. go-redis would write a line to stderr for each dial that fails, and dial
// again behind the lane's back.
func (r *redisNode) dial(ctx context.Context) (redis.Options, net.Conn, error) {
	opts := r.opts
	if mutants.LibraryRetries {
		return opts, nil, nil
	}
	dial := opts.Dialer
	if dial == nil {
		plain := &net.Dialer{Timeout: r.cfg.DialTimeout, KeepAlive: time.Minute}
		dial = plain.DialContext
		if opts.TLSConfig != nil {
			dial = (&tls.Dialer{NetDialer: plain, Config: opts.TLSConfig}).DialContext
		}
	}
	network, addr := opts.Network, opts.Addr
	if network == "" {
		network = "tcp"
	}
	if r.slot != nil {
		addr = r.slot.addr()
	}
	c, err := dial(ctx, network, addr)
	if err != nil {
		return opts, nil, err
	}
	var once atomic.Pointer[net.Conn]
	once.Store(&c)
	opts.Dialer = func(context.Context, string, string) (net.Conn, error) {
		if c := once.Swap(nil); c != nil {
			return *c, nil
		}
		dead, other := net.Pipe()
		_ = other.Close()
		return dead, nil // an error would be logged
	}
	return opts, c, nil
}

// closeWith closes wire when ctx ends, unless it is unhooked before.
func closeWith(ctx context.Context, wire net.Conn) (unhook func() bool) {
	if wire == nil { // go-redis dials itself
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, func() { _ = wire.Close() })
}

// connect dials, greets and asks admit.
func (r *redisNode) connect() (*conn, error) {
	patience, each := 2*r.cfg.DialTimeout, 2*r.cfg.DialTimeout
	if r.slot != nil {
		each = r.cfg.DialTimeout
		r.slot.again()
	}
	for began, tries := time.Now(), 1; ; tries++ {
		c, err := r.attempt(each)
		if err == nil || r.slot == nil || !r.slot.further(err, tries) || time.Since(began) > patience {
			return c, err
		}
		select {
		case <-r.quit:
			return nil, err
		default:
		}
	}
}

// attempt is one connect. Each connection has a client of its own, so that no pool
// can hand out another one, nor remember that the last dial failed.
func (r *redisNode) attempt(limit time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(r.life, limit)
	defer cancel()
	opts, wire, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{wire: wire, keys: r.keys, unhook: closeWith(r.life, wire)}
	opts.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if r.opts.OnConnect != nil {
			if err := r.opts.OnConnect(ctx, cn); err != nil {
				return err
			}
		}
		// go-redis unwraps what a hook returns: keep it whole.
		c.refused = r.greet(ctx, cn, c)
		return c.refused
	}
	c.client = redis.NewClient(&opts)
	c.Conn = c.client.Conn()
	c.pipe = c.Conn.Pipeline()
	if mutants.LibraryRetries {
		c.pipe = c.client.Pipeline()
	}
	r.mu.Lock()
	closed := r.closed
	r.live = c.client
	r.mu.Unlock()
	if closed {
		err = ErrClosed
	} else {
		err = c.Ping(ctx).Err()
	}
	if err != nil {
		c.close()
		if c.refused != nil {
			err = c.refused
		}
		if r.slot != nil && wire != nil {
			err = fmt.Errorf("at %v: %w", wire.RemoteAddr(), err)
		}
		return nil, explain(err)
	}
	return c, nil
}

// greet reads the master's identity, loads the scripts and tries the user's rights, on a
// connection that nothing else was sent on yet. A restart always breaks TCP, so no
// restart goes unseen.
//
// It takes two round trips: a master that wants a password hangs up on a user that has
// not given it when a script is sent, and would not say why.
func (r *redisNode) greet(ctx context.Context, cn *redis.Conn, c *conn) error {
	pipe := cn.Pipeline()
	// Redis 6.2 takes one section a call.
	server := pipe.Info(ctx, "server")
	replication := pipe.Info(ctx, "replication")
	memory := pipe.Info(ctx, "memory")
	id := pipe.ClientID(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		return err
	}
	for _, info := range []*redis.StringCmd{server, replication, memory} {
		if err := info.Err(); err != nil {
			return err
		}
	}
	for _, src := range sources {
		pipe.ScriptLoad(ctx, src)
	}
	check := pipe.Eval(ctx, checkSource, []string{r.keys.check.Name}, r.keys.checked()...)
	gate := pipe.HMGet(ctx, r.keys.record, membership.FieldGate)
	// A clock that jumps before the first vote is seen too.
	sent, now := r.clock.Elapsed(), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		return err
	}
	ident := protocol.ReadIdentity(server.Val()+replication.Val()+memory.Val(), text(gate))
	if ident.RunID != r.watchedRun {
		// Another process, which may be on another host, and does not vote yet.
		r.clockWatch, r.watchedRun = clock.Watch{}, ident.RunID
		r.mu.Lock()
		r.epoch = ""
		r.doubtLocked(ErrNotEntered)
		r.mu.Unlock()
	}
	r.watch(sent, r.clock.Elapsed(), now)
	if err := r.mode(server.Val()); err != nil {
		return err
	}
	if err := check.Err(); err != nil {
		return err // LOADING, say: nobody knows the rights yet
	}
	missing, forReaders := rights(check.Val())
	if len(missing) > 0 {
		return fmt.Errorf("%w %s", errRights, strings.Join(missing, ", "))
	}
	// CLIENT ID and SCRIPT LOAD may be refused: without them fence does nothing, and
	// EVAL does the work once.
	c.id = id.Val()
	ident.NoReaders = forReaders
	c.ident = ident
	if err := ident.Check(); err != nil {
		return err
	}
	c.epoch, c.gate, c.gateMending = "?", "?", "?" // until the first batch
	if r.bound.Admit == nil {
		return nil
	}
	return r.bound.Admit(ident)
}

// text is the field that was asked for, or empty.
func text(fields *redis.SliceCmd) string {
	if vals := fields.Val(); len(vals) == 1 {
		s, _ := vals[0].(string)
		return s
	}
	return ""
}

// rights reads the two lists that check.lua returns.
func rights(reply any) (missing, forReaders []string) {
	lists, _ := reply.([]any)
	var texts [2][]string
	for i, list := range lists[:min(len(lists), 2)] {
		words, _ := list.([]any)
		for _, w := range words {
			texts[i] = append(texts[i], fmt.Sprint(w))
		}
	}
	return texts[0], texts[1]
}

// moved says whether the record that refused a script is of another incarnation,
// or gone.
func (c *conn) moved(refusal error) bool {
	var gate *protocol.RecordStateError
	if !errors.As(refusal, &gate) {
		return false
	}
	g, _ := membership.ParseGate(gate.Got)
	return g.Incarnation != c.ident.Incarnation()
}

// verify asks the master again who it is, after its record was replaced.
func (c *conn) verify() error {
	pipe := c.Pipeline()
	server, replication := pipe.Info(background, "server"), pipe.Info(background, "replication")
	gate := pipe.HMGet(background, c.keys.record, membership.FieldGate)
	if _, err := pipe.Exec(background); err != nil && !isReply(err) {
		return err
	}
	return c.same(protocol.ReadIdentity(server.Val()+replication.Val(), text(gate)))
}

// same is an error when the master is not who it was. REPLICAOF and then REPLICAOF NO
// ONE puts another data set under an open connection, and clients that greeted it before
// and after would never agree on what the record must say.
func (c *conn) same(now protocol.Identity) error {
	if now.Role != "master" {
		return ErrReplica
	}
	if now.Incarnation() != c.ident.Incarnation() {
		return errReplaced
	}
	return nil
}

var errReplaced = errors.New("node: the master's data set was replaced")

// gates are the texts that scripts compare the record's gate with: that of a
// voting master, and how a quarantined one's begins.
func (r *redisNode) gates(incarnation, epoch string) (voting, quarantined string) {
	if !r.bound.CheckRecordState {
		return "", "-" // no gate at all, and nothing that begins so
	}
	return membership.GatePrefix(epoch, incarnation, membership.Voting),
		membership.GatePrefix(epoch, incarnation, membership.Quarantined) + "|"
}

// Enter implements [Node].
func (r *redisNode) Enter(epoch string, refusal error, asOf time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch = epoch
	if refusal != nil || asOf >= r.doubtful {
		r.noVotes = refusal
	}
}

// doubtLocked keeps votes from being asked for until the coordinator has looked again.
func (r *redisNode) doubtLocked(why error) { r.noVotes, r.doubtful = why, r.clock.Elapsed() }

// field finds name in the text that INFO answers.
// errRights: the scripts call commands that the user may not run.
var errRights = errors.New("node: this user may not run")

// explain adds the remedy to the errors that have one.
func explain(err error) error {
	switch {
	case redis.IsAuthError(err):
		return fmt.Errorf("%w: %w (check user and password of this master)", ErrDenied, err)
	case redis.IsPermissionError(err), errors.Is(err, errRights),
		// Of a command and of a key in a script, before Redis 7.2...
		strings.Contains(err.Error(), "can't run this command"), strings.Contains(err.Error(), "can't access at least one of the keys"),
		// ...and since.
		strings.Contains(err.Error(), "no permissions"), strings.Contains(err.Error(), "No permissions"):
		return fmt.Errorf("%w: %w (grant it to the lock's user; docs/operations.md lists all rights)", ErrDenied, err)
	}
	return err
}

// Unacknowledged is how many releases and dequeues the node keeps for a master that
// has not acknowledged them. It keeps 16384 at most, and drops the oldest beyond
// that: dropped says how many those were. Their votes end with their TTL.
func (r *redisNode) Unacknowledged() (kept int, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unacked.Len(), r.unacked.Dropped()
}
