// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/node/internal/wire"
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
	var answers, silent []error
	for range s.addrs {
		switch f := <-said; {
		case f.err == nil:
			return s.dial(ctx, network, f.addr) // stop ends the other questions
		case wire.IsReply(f.err), errors.Is(f.err, errNotKnown):
			answers = append(answers, f.err)
		default:
			silent = append(silent, f.err)
		}
	}
	if len(answers) == 0 {
		answers = silent
	}
	// What a sentinel answered must be mended. That another one is down is no fault while one answers. internal/cause knows these words.
	return nil, fmt.Errorf("no sentinel names the master: %w", errors.Join(answers...))
}

// errNotKnown: a sentinel does not watch a master of this name.
var errNotKnown = errors.New("knows no master")

// masterAt asks the sentinel at addr.
func (s *sentinels) masterAt(ctx context.Context, addr string) (master string, err error) {
	err = s.at(ctx, addr, func(c *redis.Client) error {
		at, err := c.Do(ctx, "sentinel", "get-master-addr-by-name", s.name).StringSlice()
		switch {
		case errors.Is(err, redis.Nil), err == nil && (len(at) != 2 || slices.Contains(at, "")):
			return fmt.Errorf("%w %q", errNotKnown, s.name)
		case redis.IsAuthError(err), redis.IsPermissionError(err):
			return fmt.Errorf("%w: %w (check sentinel_username and sentinel_password in the URL)", ErrDenied, err)
		case err == nil:
			master = net.JoinHostPort(at[0], at[1])
		}
		return err
	})
	return master, err
}

// downAfter is the shortest down-after-milliseconds that a sentinel tells for the master. 0: none tells. All are asked at the same time: one that is
// down costs a dial.
func (s *sentinels) downAfter(ctx context.Context) (shortest time.Duration) {
	told := make(chan time.Duration, len(s.addrs))
	for _, addr := range s.addrs {
		go func() {
			master := redis.NewMapStringStringCmd(ctx, "sentinel", "master", s.name)
			_ = s.at(ctx, addr, func(c *redis.Client) error { return c.Process(ctx, master) })
			n, _ := strconv.Atoi(master.Val()["down-after-milliseconds"])
			told <- time.Duration(n) * time.Millisecond
		}()
	}
	for range s.addrs {
		if d := <-told; d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest
}

// at has ask talk to the sentinel at addr.
func (s *sentinels) at(ctx context.Context, addr string, ask func(c *redis.Client) error) error {
	socket, err := s.dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer closeWith(ctx, socket)()
	opts := s.ask
	opts.Addr, opts.Dialer = addr, func(context.Context, string, string) (net.Conn, error) { return socket, nil }
	c := redis.NewClient(&opts)
	defer c.Close()
	return ask(c)
}
