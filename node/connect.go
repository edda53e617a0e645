// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/mutants"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// conn is one connection, with what the master reported about itself on it.
type conn struct {
	*redis.Conn
	client  *redis.Client
	socket  net.Conn  // under Conn and client; nil if go-redis dialled
	wire    wire.Conn // for pipelines
	epoch   string    // the epoch of the record states in wire
	id      int64     // CLIENT ID; 0 if the master refused to tell
	ident   protocol.Identity
	refused error  // why greet failed
	hangUp  func() // closes socket
}

func (c *conn) close() {
	_ = c.Conn.Close()
	_ = c.client.Close()
	c.hangUp()
}

// connect searches for the master, dials it, greets it and calls Binding.Admit.
func (r *redisNode) connect() (*conn, error) {
	each := 2 * r.cfg.DialTimeout
	total := each
	if r.locator.Several() {
		if r.opts.TLSConfig == nil {
			each = r.cfg.DialTimeout
		}
		total = 2 * each // one server that hangs leaves time for another
	}
	r.locator.Search()
	for began, tries := time.Now(), 1; ; tries++ {
		c, err := r.attempt(each)
		if err == nil || !r.locator.Redirect(err, tries) || time.Since(began) > total {
			return c, err
		}
		select {
		case <-r.quit:
			return nil, err
		default:
		}
	}
}

// greetTrips is how many round trips a greeting may take. It takes five: HELLO, what go-redis sends, greet's two, and the TIME.
const greetTrips = 8

// attempt makes one connection to the server that the locator names. Each connection has
// a go-redis client of its own. A pool could hand out another connection, or remember that
// the last dial failed.
func (r *redisNode) attempt(limit time.Duration) (*conn, error) {
	dialing, cancel := context.WithTimeout(r.life, limit)
	defer cancel()
	began := r.clock.Elapsed()
	opts, socket, said, err := r.dial(dialing)
	if err != nil {
		return nil, err
	}
	took := r.clock.Elapsed() - began
	r.trip.CompareAndSwap(0, int64(max(took, 1)))
	ctx, cancel := context.WithTimeout(r.life, max(limit-took, greetTrips*took))
	defer cancel()
	c := &conn{socket: socket, hangUp: closeWith(r.life, socket)}
	opts.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if r.opts.OnConnect != nil {
			if err := r.opts.OnConnect(ctx, cn); err != nil {
				return err
			}
		}
		// go-redis unwraps the error that a hook returns, so c keeps it whole.
		c.refused = r.greet(ctx, cn, c)
		return c.refused
	}
	c.client = redis.NewClient(&opts)
	c.Conn = c.client.Conn()
	c.wire.Keys, c.wire.Pipe = r.keys, c.Conn.Pipeline()
	if mutants.LibraryRetries {
		c.wire.Pipe = c.client.Pipeline()
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		err = ErrClosed
	} else {
		// This makes go-redis connect, and so greet. A PING is refused by a master that cannot write to its disk (MISCONF).
		err = c.Time(ctx).Err()
	}
	if err != nil {
		if c.refused != nil {
			err = c.refused
		}
		c.close()
		err = r.whyHungUp(ctx, said.or(err))
		if r.locator.Several() && socket != nil {
			err = fmt.Errorf("at %v: %w", socket.RemoteAddr(), err)
		}
		return nil, wire.Explain(err)
	}
	return c, nil
}

// dial opens one socket, and returns options that make go-redis use that socket and no
// other. go-redis would write a line to stderr for each dial that fails, and would dial
// again without the lane's knowledge.
func (r *redisNode) dial(ctx context.Context) (redis.Options, net.Conn, *lastWords, error) {
	opts := r.opts
	if mutants.LibraryRetries {
		return opts, nil, nil, nil
	}
	dial := opts.Dialer
	switch {
	case dial == nil:
		dial = r.tls.dial(opts.TLSConfig, r.cfg.DialTimeout)
	case r.asks != nil:
		dial = r.asks.connect
	case opts.TLSConfig != nil:
		dial = bounded(dial)
	}
	network := opts.Network
	if network == "" {
		network = "tcp"
	}
	c, err := dial(ctx, network, r.locator.Addr())
	if err != nil {
		return opts, nil, nil, asTLS(err) // of a dialer that may not be ours
	}
	if secure, ok := c.(*tls.Conn); ok {
		c = &tlsConn{Conn: secure}
	}
	said := &lastWords{Conn: c}
	var once atomic.Pointer[lastWords]
	once.Store(said)
	opts.Dialer = func(context.Context, string, string) (net.Conn, error) {
		if c := once.Swap(nil); c != nil {
			return c, nil
		}
		dead, other := net.Pipe()
		_ = other.Close()
		return dead, nil // go-redis would log an error
	}
	return opts, c, said, nil
}

// bounded is a dialer that ends with its context. go-redis's own does not where there is TLS, and a client that [New] is given has that one. The
// goroutine ends when dial does, after the client's DialTimeout at the latest.
func bounded(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		made := make(chan dialled)
		go func() {
			c, err := dial(ctx, network, addr)
			d := dialled{c, err}
			select {
			case made <- d:
			case <-ctx.Done():
				d.close()
			}
		}()
		select {
		case d := <-made:
			return d.c, d.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// closeWith closes socket when ctx ends, or when hangUp is called. go-redis closes no socket
// whose greeting failed.
func closeWith(ctx context.Context, socket net.Conn) (hangUp func()) {
	if socket == nil { // go-redis dials itself
		return func() {}
	}
	unhook := context.AfterFunc(ctx, func() { _ = socket.Close() })
	return func() {
		unhook()
		_ = socket.Close()
	}
}
