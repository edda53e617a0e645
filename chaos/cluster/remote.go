// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Nodes is the driver of masters that the cluster did not start: those of Config.Nodes.
const Nodes Driver = "nodes"

// ErrNotOurs means that a server cannot be killed, stopped or emptied, because the cluster did not start it.
var ErrNotOurs = errors.New("the master is not the cluster's own")

// ParseNode reads the URL of a master that somebody else runs: redis://user:password@host:port/db. It ignores the parameter name. An error
// shows no password.
func ParseNode(rawURL string) (*redis.Options, error) {
	bad := func(why string) error {
		return fmt.Errorf("cluster: bad URL %q: %s", Redact(rawURL), why)
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil || u.Host == "":
		return nil, bad("want redis://host:port")
	case u.Scheme == "rediss":
		return nil, bad("the harness stands between clients and masters and cannot read TLS: give a port without TLS, or a tunnel to it")
	case u.Scheme != "redis":
		return nil, bad("want redis://host:port of a single master: faults are injected on the way to it")
	}
	q := u.Query()
	q.Del("name")
	u.RawQuery = q.Encode()
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, bad("want redis://user:password@host:port/db")
	}
	return o, nil
}

// Redact returns the URL without its password.
func Redact(rawURL string) string {
	if u, err := url.Parse(rawURL); err == nil {
		return u.Redacted()
	}
	scheme, rest, _ := strings.Cut(rawURL, "://")
	return scheme + "://..." + rest[strings.LastIndexByte(rest, '@')+1:]
}

// remote is a server that somebody else runs.
type remote struct{ options *redis.Options }

func (r remote) addr() string                                { return r.options.Addr }
func (r remote) peer() string                                { return r.options.Addr }
func (r remote) dir() string                                 { return "" }
func (r remote) running(context.Context) (bool, error)       { return true, nil }
func (r remote) start(context.Context) error                 { return ErrNotOurs }
func (r remote) kill(context.Context) error                  { return ErrNotOurs }
func (r remote) use(string) error                            { return ErrNotOurs }
func (r remote) pause(context.Context) error                 { return ErrNotOurs }
func (r remote) unpause(context.Context) error               { return nil }
func (remotes) close() error                                 { return nil }
func (remotes) launch(context.Context, spec) (server, error) { return nil, ErrNotOurs }

// remotes is the driver of remote servers.
type remotes struct{}

// connect makes masters of Config.Nodes.
func (c *Cluster) connect() error {
	c.driver = remotes{}
	for i, node := range c.cfg.Nodes {
		o, err := ParseNode(node)
		if err != nil {
			return err
		}
		c.masters = append(c.masters, &Master{name: fmt.Sprintf("n%d", i+1), cluster: c, server: remote{o}})
	}
	return nil
}

// Login returns the user, password and database that the master of Config.Nodes wants; zero for a master that the cluster started.
func (m *Master) Login() (username, password string, db int) {
	if r, ok := m.server.(remote); ok {
		return r.options.Username, r.options.Password, r.options.DB
	}
	return "", "", 0
}
