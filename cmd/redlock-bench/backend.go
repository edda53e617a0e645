// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/cmd/internal/masterurl"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/text"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// What masters a run has; the words of the JSON.
const (
	ownServers = "redis-server" // started by us
	givenNodes = "nodes"        // --nodes
	embedded   = "embedded"     // in this process
)

// backend is the masters of a run.
type backend struct {
	kind   string
	n      int
	prefix string   // starts the names of all locks of this run: others may be measuring on the same masters
	about  []string // what they are, a fact a line
	// newClient makes a client over all masters, which the caller closes.
	newClient func(opts ...redlock.Option) (*redlock.Client, error)
	nodes     []string // their URLs; none when embedded
	// options are how to connect to each master; none when embedded.
	options []*redis.Options
	// admins are connections beside those that are measured, one a master, for INFO; none when embedded.
	admins  []*redis.Client
	servers []*localredis.Server
}

// open connects to the masters that s names, or starts some. The caller closes what it returns; on an error nothing is left behind.
func (s *setup) open(ctx context.Context) (*backend, error) {
	if len(s.nodes) > 0 {
		return openGiven(ctx, s.nodes, s.init)
	}
	_, version, err := localredis.Find()
	if errors.Is(err, localredis.ErrNoServer) {
		return openEmbedded(s.masters), nil
	}
	if err != nil {
		return nil, err
	}
	return openOwn(ctx, s.masters, s.server, version)
}

func newBackend(kind string, n int) *backend {
	return &backend{kind: kind, n: n, prefix: "redlock-bench:" + rand.Text()[:6] + ":"}
}

func openOwn(ctx context.Context, n int, cfg localredis.Config, version string) (*backend, error) {
	servers, err := localredis.StartN(ctx, n, cfg)
	if err != nil {
		return nil, err
	}
	b := newBackend(ownServers, n)
	b.servers = servers
	var nodes, ports []string
	for _, s := range servers {
		nodes = append(nodes, s.URL())
		_, port, _ := strings.Cut(s.Addr(), ":")
		ports = append(ports, port)
	}
	if err := b.connect(nodes); err != nil {
		b.close()
		return nil, err
	}
	open := b.newClient
	b.newClient = func(opts ...redlock.Option) (*redlock.Client, error) {
		opts = append(opts, redlock.WithFixedMasters())
		if err := begin(ctx, admin.List{URLs: nodes, Options: opts}); err != nil {
			return nil, err
		}
		return open(opts...)
	}
	keeps := "no persistence"
	if cfg.Persistence != localredis.None {
		keeps = "appendfsync " + string(cfg.Persistence)
	}
	b.about = []string{
		fmt.Sprintf("%d redis-server (%s), throw-away: started for this run, gone after it", n, version),
		"127.0.0.1, " + keeps + ", ports " + strings.Join(ports, " "),
	}
	return b, nil
}

func openGiven(ctx context.Context, nodes []string, init bool) (*backend, error) {
	b := newBackend(givenNodes, len(nodes))
	if err := b.connect(nodes); err != nil {
		b.close()
		return nil, err
	}
	open := b.newClient
	b.newClient = func(opts ...redlock.Option) (*redlock.Client, error) {
		if init {
			if err := begin(ctx, admin.List{URLs: nodes, Options: opts}); err != nil {
				return nil, err
			}
		}
		client, err := open(opts...)
		if err != nil {
			return nil, err
		}
		return client, b.votes(ctx, client)
	}
	var versions, names []string
	var down []int
	aof := 0
	for i, admin := range b.admins {
		info, err := admin.Info(ctx).Result()
		if err != nil { // a minority may be down: the lock is measured as it is
			names = append(names, b.options[i].Addr+" (does not answer)")
			down = append(down, i)
			continue
		}
		if v := localredis.VersionIn(info); !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
		if protocol.InfoField(info, "aof_enabled") == "1" {
			aof++
		}
		names = append(names, b.options[i].Addr)
	}
	b.leaveOut(down)
	how := "(--nodes)"
	if len(down) > 0 {
		how += fmt.Sprintf(", %d down", len(down))
	}
	if len(versions) > 0 {
		how += fmt.Sprintf(": %s, append-only file on %d of them", strings.Join(versions, " and "), aof)
	}
	b.about = []string{
		fmt.Sprintf("%d of yours %s", b.n, how),
		strings.Join(names, " "),
		fmt.Sprintf("keys %s* are written, with a TTL, and deleted", b.prefix),
	}
	if init {
		b.about = append(b.about, fmt.Sprintf("--init: the record %s stays on each, with the maximum TTL of this run", protocol.RecordKey))
	}
	return b, nil
}

// connect fills in what is reached over the network. It does not dial.
func (b *backend) connect(nodes []string) error {
	b.nodes = nodes
	for _, url := range nodes {
		o, err := masterurl.Connection(url)
		if err != nil {
			return err
		}
		b.options = append(b.options, o)
		admin := *o
		b.admins = append(b.admins, redis.NewClient(&admin))
	}
	b.newClient = func(opts ...redlock.Option) (*redlock.Client, error) { return openWithin(nodes, opts) }
	return nil
}

// delayed has all clients that are opened from now on reach our masters through proxies that add d to each round trip, until the
// function that it returns is called. Without a delay there are none.
func (b *backend) delayed(ctx context.Context, d time.Duration) (near func(), err error) {
	var proxies []*faultproxy.Proxy
	near = func() {
		for _, p := range proxies {
			_ = p.Close()
		}
	}
	if d == 0 {
		return near, nil
	}
	if b.kind == embedded {
		return near, errors.New("--delay needs redis-server: embedded masters have no network")
	}
	var nodes []string
	for _, o := range b.options {
		p, err := faultproxy.Start(o.Addr)
		if err != nil {
			near()
			return near, err
		}
		p.Set(faultproxy.ToMaster, faultproxy.Fault{Delay: d / 2})
		p.Set(faultproxy.ToClient, faultproxy.Fault{Delay: d - d/2})
		proxies, nodes = append(proxies, p), append(nodes, "redis://"+p.Addr())
	}
	b.nodes = nodes
	b.newClient = func(opts ...redlock.Option) (*redlock.Client, error) {
		opts = append(opts, redlock.WithFixedMasters())
		if err := begin(ctx, admin.List{URLs: nodes, Options: opts}); err != nil {
			return nil, err
		}
		return openWithin(nodes, opts)
	}
	return near, nil
}

// openWithin opens a client of masters that are expected to be there. It has no label, which would stay on them for a minute.
func openWithin(nodes []string, opts []redlock.Option) (*redlock.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	return redlock.Open(ctx, nodes, append([]redlock.Option{redlock.WithClientName("")}, opts...)...)
}

// openTimeout is how long masters that are there may take to answer. Tests of masters that are not there make it shorter.
var openTimeout = 5 * time.Second

// begin makes fresh masters of ours vote. What is measured is the safe default, with all its defences.
func begin(ctx context.Context, masters admin.List) error {
	return admin.Init(ctx, masters, nil, admin.NothingWasEverLocked)
}

// votes is an error when the masters may not vote yet: waiting half a minute for them, silently, is no measurement.
func (b *backend) votes(ctx context.Context, client *redlock.Client) error {
	lease, err := client.Mutex(b.prefix + "probe").TryLock(ctx)
	if err == nil {
		return lease.Unlock(ctx)
	}
	_ = client.Close()
	if errors.Is(err, redlock.ErrRecovering) {
		return fmt.Errorf("%w\nMasters that were never used begin at once with --init", err)
	}
	return err
}

// leaveOut has only the lock know of masters that do not answer: what is asked of all masters, or measured beside the lock, would wait for
// them. If those that are left are no quorum, nothing can be measured, and the lock says why.
func (b *backend) leaveOut(down []int) {
	if b.n-len(down) < b.n/2+1 {
		return
	}
	for _, i := range slices.Backward(down) {
		_ = b.admins[i].Close()
		b.options = slices.Delete(b.options, i, i+1)
		b.admins = slices.Delete(b.admins, i, i+1)
	}
}

// hurt stops or kills one of our masters.
func (b *backend) hurt(how string) error {
	if len(b.servers) == 0 {
		return errors.New("--hurt needs redis-server: embedded masters are no processes")
	}
	last := len(b.servers) - 1
	b.leaveOut([]int{last})
	if how == hurtKill {
		return b.servers[last].Kill()
	}
	return b.servers[last].Pause()
}

// close ends the connections and the masters that are ours.
func (b *backend) close() {
	for _, c := range b.admins {
		_ = c.Close()
	}
	for _, s := range b.servers {
		_ = s.Close()
	}
}

// describe prints what the masters are, before anything is measured on them.
func (b *backend) describe(w io.Writer) {
	label := "masters"
	for _, about := range b.about {
		text.Paragraph(w, label, about)
		label = ""
	}
}

// label is the masters in a table's title.
func (b *backend) label() string {
	what := map[string]string{ownServers: "redis-server", givenNodes: "master", embedded: "EMBEDDED master"}[b.kind]
	return plural(b.n, what)
}
