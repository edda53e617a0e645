// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"time"
)

// dialled is what a dialer returned.
type dialled struct {
	c   net.Conn
	err error
}

// close closes a connection that nobody has.
func (d dialled) close() {
	if d.err == nil {
		_ = d.c.Close()
	}
}

// slowDial runs the dialer of [redis.NewFailoverClient], which asks sentinels. It asks the one that it asked before. If that one hangs, it asks
// the others only if its context lasts for longer than its own timeouts, and without a timeout it never returns. So a dial goes on when the
// context of its caller is over, and the next caller takes what comes of it.
//
// That caller begins one of its own too: a dial that hangs may have been sent to a master that is gone, before another was promoted, and a
// handshake of TLS looks at no context.
//
// Invariant: dialsAtOnce are under way at most.
type slowDial struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	life   context.Context // of the node, and of a dial
	turns  chan struct{}   // has a token for each dial that is under way
	made   chan dialled
	useful time.Duration // how long what a dial returned waits for a caller: another server may be promoted meanwhile
}

const (
	// slowest is how long a dial may go on: with the timeouts of go-redis a sentinel that hangs costs 24 s.
	slowest = 30 * time.Second
	// dialsAtOnce are more than a lane begins in that time, so that only dials that look at no context can be too many.
	dialsAtOnce = 64
)

func newSlowDial(life context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), useful time.Duration) *slowDial {
	return &slowDial{dial: dial, life: life, turns: make(chan struct{}, dialsAtOnce), made: make(chan dialled), useful: useful}
}

func (s *slowDial) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case d := <-s.made:
		return d.c, d.err
	default:
	}
	select {
	case s.turns <- struct{}{}:
		go s.run(network, addr)
	default:
	}
	select {
	case d := <-s.made:
		return d.c, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slowDial) run(network, addr string) {
	defer func() { <-s.turns }()
	ctx, cancel := context.WithTimeout(s.life, slowest)
	defer cancel()
	c, err := s.dial(ctx, network, addr)
	d := dialled{c, err}
	select {
	case s.made <- d:
	case <-time.After(s.useful):
		d.close()
	case <-s.life.Done():
		d.close()
	}
}
