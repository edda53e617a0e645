// SPDX-License-Identifier: Apache-2.0

// Package masters is what redlock-bench measures on: masters of the user's, servers of its own, or masters in memory where there is no
// redis-server. A Backend says what they are, makes clients of them, and asks them what they did over connections that are not measured. What it
// started it ends in Close.
package masters

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
	OwnServers = "redis-server" // started by us
	GivenNodes = "nodes"        // --nodes
	Embedded   = "embedded"     // in this process
)

// What --hurt may do to one master; the words of the JSON.
const (
	HurtStop = "stop" // SIGSTOP: its connections stand, it answers nothing
	HurtKill = "kill" // SIGKILL
)

// Backend is the masters of a run.
type Backend struct {
	Kind   string
	N      int
	Prefix string   // starts the names of all locks of this run: others may be measuring on the same masters
	About  []string // what they are, a fact a line
	// newClient makes a client over all masters, which the caller closes.
	NewClient func(opts ...redlock.Option) (*redlock.Client, error)
	Nodes     []string // their URLs; none when embedded
	// options are how to connect to each master; none when embedded.
	Options []*redis.Options
	// admins are connections beside those that are measured, one a master, for INFO; none when embedded.
	Admins  []*redis.Client
	Servers []*localredis.Server
}

// New is n masters of that kind, with a prefix of their own for names. Nothing is connected.
func New(kind string, n int) *Backend {
	return &Backend{Kind: kind, N: n, Prefix: "redlock-bench:" + rand.Text()[:6] + ":"}
}

// OpenOwn starts n servers. On an error nothing is left behind.
func OpenOwn(ctx context.Context, n int, cfg localredis.Config, version string) (*Backend, error) {
	servers, err := localredis.StartN(ctx, n, cfg)
	if err != nil {
		return nil, err
	}
	b := New(OwnServers, n)
	b.Servers = servers
	var nodes, ports []string
	for _, s := range servers {
		nodes = append(nodes, s.URL())
		_, port, _ := strings.Cut(s.Addr(), ":")
		ports = append(ports, port)
	}
	if err := b.connect(nodes); err != nil {
		b.Close()
		return nil, err
	}
	open := b.NewClient
	b.NewClient = func(opts ...redlock.Option) (*redlock.Client, error) {
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
	b.About = []string{
		fmt.Sprintf("%d redis-server (%s), throw-away: started for this run, gone after it", n, version),
		"127.0.0.1, " + keeps + ", ports " + strings.Join(ports, " "),
	}
	return b, nil
}

// OpenGiven is masters of the user's. With init they are begun, as new ones. On an error nothing is left behind.
func OpenGiven(ctx context.Context, nodes []string, init bool) (*Backend, error) {
	b := New(GivenNodes, len(nodes))
	if err := b.connect(nodes); err != nil {
		b.Close()
		return nil, err
	}
	open := b.NewClient
	b.NewClient = func(opts ...redlock.Option) (*redlock.Client, error) {
		if init {
			if err := begin(ctx, admin.List{URLs: nodes, Options: opts}); err != nil {
				return nil, err
			}
		}
		client, err := open(opts...)
		if err == nil {
			err = b.votes(ctx, client)
		}
		if errors.Is(err, redlock.ErrRecovering) || errors.Is(err, redlock.ErrNeedsInit) {
			err = fmt.Errorf("%w\nMasters that were never used begin at once with --init", err)
		}
		return client, err
	}
	var versions, names []string
	var down []int
	aof := 0
	for i, admin := range b.Admins {
		info, err := admin.Info(ctx).Result()
		if err != nil { // a minority may be down: the lock is measured as it is
			names = append(names, b.Options[i].Addr+" (does not answer)")
			down = append(down, i)
			continue
		}
		if v := localredis.VersionIn(info); !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
		if protocol.InfoField(info, "aof_enabled") == "1" {
			aof++
		}
		names = append(names, b.Options[i].Addr)
	}
	b.leaveOut(down)
	how := "(--nodes)"
	if len(down) > 0 {
		how += fmt.Sprintf(", %d down", len(down))
	}
	if len(versions) > 0 {
		how += fmt.Sprintf(": %s, append-only file on %d of them", strings.Join(versions, " and "), aof)
	}
	b.About = []string{
		fmt.Sprintf("%d of yours %s", b.N, how),
		strings.Join(names, " "),
		fmt.Sprintf("keys %s* are written, with a TTL, and deleted", b.Prefix),
	}
	if init {
		b.About = append(b.About, fmt.Sprintf("--init: the record %s stays on each, with the maximum TTL of this run", protocol.RecordKey))
	}
	return b, nil
}

// connect fills in what is reached over the network. It does not dial.
func (b *Backend) connect(nodes []string) error {
	b.Nodes = nodes
	for _, url := range nodes {
		o, err := masterurl.Connection(url)
		if err != nil {
			return err
		}
		b.Options = append(b.Options, o)
		admin := *o
		b.Admins = append(b.Admins, redis.NewClient(&admin))
	}
	b.NewClient = func(opts ...redlock.Option) (*redlock.Client, error) { return OpenWithin(nodes, opts) }
	return nil
}

// Delayed has all clients that are opened from now on reach our masters through proxies that add d to each round trip, until the
// function that it returns is called. Without a delay there are none.
func (b *Backend) Delayed(ctx context.Context, d time.Duration) (near func(), err error) {
	var proxies []*faultproxy.Proxy
	near = func() {
		for _, p := range proxies {
			_ = p.Close()
		}
	}
	if d == 0 {
		return near, nil
	}
	if b.Kind == Embedded {
		return near, errors.New("--delay needs redis-server: embedded masters have no network")
	}
	var nodes []string
	for _, o := range b.Options {
		p, err := faultproxy.Start(o.Addr)
		if err != nil {
			near()
			return near, err
		}
		p.Set(faultproxy.ToMaster, faultproxy.Fault{Delay: d / 2})
		p.Set(faultproxy.ToClient, faultproxy.Fault{Delay: d - d/2})
		proxies, nodes = append(proxies, p), append(nodes, "redis://"+p.Addr())
	}
	b.Nodes = nodes
	b.NewClient = func(opts ...redlock.Option) (*redlock.Client, error) {
		opts = append(opts, redlock.WithFixedMasters())
		if err := begin(ctx, admin.List{URLs: nodes, Options: opts}); err != nil {
			return nil, err
		}
		return OpenWithin(nodes, opts)
	}
	return near, nil
}

// OpenWithin opens a client of masters that are expected to be there. It has no label, which would stay on them for a minute.
func OpenWithin(nodes []string, opts []redlock.Option) (*redlock.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), OpenTimeout)
	defer cancel()
	return redlock.Open(ctx, nodes, append([]redlock.Option{redlock.WithClientName("")}, opts...)...)
}

// OpenTimeout is how long masters that are there may take to answer. Tests of masters that are not there make it shorter.
var OpenTimeout = 5 * time.Second

// begin makes fresh masters of ours vote. What is measured is the safe default, with all its defences.
func begin(ctx context.Context, masters admin.List) error {
	return admin.Init(ctx, masters, nil, admin.NothingWasEverLocked)
}

// votes is an error when the masters may not vote yet: waiting half a minute for them, silently, is no measurement.
func (b *Backend) votes(ctx context.Context, client *redlock.Client) error {
	lease, err := client.Mutex(b.Prefix + "probe").TryLock(ctx)
	if err == nil {
		return lease.Unlock(ctx)
	}
	_ = client.Close()
	return err
}

// leaveOut has only the lock know of masters that do not answer: what is asked of all masters, or measured beside the lock, would wait for
// them. If those that are left are no quorum, nothing can be measured, and the lock says why.
func (b *Backend) leaveOut(down []int) {
	if b.N-len(down) < b.N/2+1 {
		return
	}
	for _, i := range slices.Backward(down) {
		_ = b.Admins[i].Close()
		b.Options = slices.Delete(b.Options, i, i+1)
		b.Admins = slices.Delete(b.Admins, i, i+1)
	}
}

// Hurt stops or kills one of our masters.
func (b *Backend) Hurt(how string) error {
	if len(b.Servers) == 0 {
		return errors.New("--hurt needs redis-server: embedded masters are no processes")
	}
	last := len(b.Servers) - 1
	b.leaveOut([]int{last})
	if how == HurtKill {
		return b.Servers[last].Kill()
	}
	return b.Servers[last].Pause()
}

// Close ends the connections and the masters that are ours.
func (b *Backend) Close() {
	for _, c := range b.Admins {
		_ = c.Close()
	}
	for _, s := range b.Servers {
		_ = s.Close()
	}
}

// Describe prints what the masters are, before anything is measured on them.
func (b *Backend) Describe(w io.Writer) {
	label := "masters"
	for _, about := range b.About {
		text.Paragraph(w, label, about)
		label = ""
	}
}

// Label is the masters in a table's title.
func (b *Backend) Label() string {
	what := map[string]string{OwnServers: "redis-server", GivenNodes: "master", Embedded: "EMBEDDED master"}[b.Kind]
	return text.Plural(b.N, what)
}
