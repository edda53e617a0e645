// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/node/internal/wire"
)

// askEvery is how often the lane asks a server why it hung up.
const askEvery = time.Second

// whyHungUp returns err, with why the server hung up in answer to the first words of a connection. A server with the max number
// of clients writes so before it hears anything, and then hangs up: go-redis sees that its own write failed. A server that
// wants TLS hangs up without a word. So this asks on a connection of its own, on which nothing is sent until the server had
// the time to speak.
func (r *redisNode) whyHungUp(ctx context.Context, err error) error {
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	if !hungUp || wire.IsReply(err) || r.opts.TLSConfig != nil || r.opts.Dialer != nil || r.opts.Network == "unix" || time.Since(r.asked) < askEvery {
		return err
	}
	r.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.DialTimeout)
	defer cancel()
	c, no := (&net.Dialer{}).DialContext(ctx, "tcp", r.locator.Addr())
	if no != nil {
		return err
	}
	defer closeWith(ctx, c)()
	_ = c.SetReadDeadline(time.Now().Add(r.cfg.DialTimeout / 10))
	said := &lastWords{Conn: c}
	_, no = said.Read(make([]byte, lastWordsMax))
	if said.text != "" {
		if known := said.or(err); known != err {
			return known
		}
		return fmt.Errorf("%s: %w", said.text, err)
	}
	var late net.Error
	if !errors.As(no, &late) || !late.Timeout() || r.clockRunID != "" { // one that was a master speaks no TLS
		return err
	}
	_ = c.SetReadDeadline(time.Time{})
	// Whether the certificate is good does not matter: nothing is sent over this connection.
	if tls.Client(c, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpeaksTLS, err)
	}
	return err
}
