// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	readyLimit   = 15 * time.Second
	pollInterval = 5 * time.Millisecond
)

func (m *Master) redis(ctx context.Context, f func(*redis.Client) error) error {
	username, password, db := m.Login()
	return withOptions(ctx, redis.Options{Addr: m.Addr(), Username: username, Password: password, DB: db}, f)
}

// withRedis runs f with one connection to the server at addr, which wants no password.
func withRedis(ctx context.Context, addr string, f func(*redis.Client) error) error {
	return withOptions(ctx, redis.Options{Addr: addr}, f)
}

// withOptions runs f with one connection to the server that o names. Nothing is retried: the caller knows what the server was made to suffer. The
// connection is made here, because the client logs one it cannot make.
func withOptions(ctx context.Context, o redis.Options, f func(*redis.Client) error) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", o.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Username: o.Username, Password: o.Password, DB: o.DB,
		PoolSize: 1, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: true,
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone},
	})
	defer c.Close()
	return f(c)
}

func ping(ctx context.Context, addr string) error {
	return withRedis(ctx, addr, func(c *redis.Client) error { return c.Ping(ctx).Err() })
}

// errHopeless in an error of poll's f ends the polling.
var errHopeless = errors.New("gave up")

// poll calls f until it returns nil or errHopeless, ctx is done or, if ctx has no deadline, readyLimit is over. The error has f's last
// one in it.
func poll(ctx context.Context, f func(context.Context) error) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readyLimit)
		defer cancel()
	}
	for {
		err := f(ctx)
		if err == nil || errors.Is(err, errHopeless) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", ctx.Err(), err)
		case <-time.After(pollInterval):
		}
	}
}
