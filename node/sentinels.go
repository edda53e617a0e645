// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"
)

// sentinels finds the master that sentinels name. It is a dialer, in place of the one of [redis.NewFailoverClient], which prints
// lines for each connection, and keeps a subscription and a pool that a lane has no use for.
type sentinels struct {
	name  string
	addrs []string
	dial  func(ctx context.Context, network, addr string) (net.Conn, error) // of sentinels and master
	ask   redis.Options                                                     // user, password and timeouts of the sentinels
}

// connect asks all sentinels, and dials the master that the first to answer names. It ignores the address.
func (s *sentinels) connect(ctx context.Context, network, _ string) (net.Conn, error) {
	asking, stop := context.WithTimeout(ctx, s.ask.DialTimeout+s.ask.ReadTimeout)
	defer stop()
	type found struct {
		addr string
		err  error
	}
	said := make(chan found, len(s.addrs))
	for _, addr := range s.addrs {
		go func() {
			master, err := s.masterAt(asking, addr)
			if err != nil {
				err = fmt.Errorf("sentinel %s: %w", addr, err)
			}
			said <- found{master, err}
		}()
	}
	var errs []error
	for range s.addrs {
		switch f := <-said; {
		case f.err != nil:
			errs = append(errs, f.err)
		default:
			return s.dial(ctx, network, f.addr) // stop ends the other questions
		}
	}
	return nil, fmt.Errorf("no sentinel names the master: %w", errors.Join(errs...))
}

// masterAt asks the sentinel at addr.
func (s *sentinels) masterAt(ctx context.Context, addr string) (string, error) {
	socket, err := s.dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer closeWith(ctx, socket)()
	opts := s.ask
	opts.Addr, opts.Dialer = addr, func(context.Context, string, string) (net.Conn, error) { return socket, nil }
	c := redis.NewClient(&opts)
	defer c.Close()
	at, err := c.Do(ctx, "sentinel", "get-master-addr-by-name", s.name).StringSlice()
	switch {
	case errors.Is(err, redis.Nil), err == nil && (len(at) != 2 || slices.Contains(at, "")):
		return "", fmt.Errorf("knows no master %q", s.name)
	case err != nil:
		return "", err
	}
	return net.JoinHostPort(at[0], at[1]), nil
}
