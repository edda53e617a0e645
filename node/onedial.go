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

// oneDial runs the dialer of [redis.NewFailoverClient], which asks sentinels. It asks the one that it asked before. If that one hangs, it asks
// the others only if its context lasts for longer than its own timeouts, and without a timeout it never returns. So a dial goes on when the
// context of its caller is over, and the next caller takes what comes of it. There is one dial at a time.
type oneDial struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	life   context.Context // of the node, and of a dial
	turn   chan struct{}   // has room for the token of the dial that is under way
	made   chan dialled
	useful time.Duration // how long what a dial returned waits for a caller: another server may be promoted meanwhile
}

func newOneDial(life context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), useful time.Duration) *oneDial {
	return &oneDial{dial: dial, life: life, turn: make(chan struct{}, 1), made: make(chan dialled), useful: useful}
}

func (o *oneDial) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	for {
		select {
		case o.turn <- struct{}{}:
			go o.run(network, addr)
		case d := <-o.made:
			return d.c, d.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (o *oneDial) run(network, addr string) {
	defer func() { <-o.turn }()
	c, err := o.dial(o.life, network, addr)
	d := dialled{c, err}
	select {
	case o.made <- d:
	case <-time.After(o.useful):
		d.close()
	case <-o.life.Done():
		d.close()
	}
}
