// SPDX-License-Identifier: Apache-2.0

// Package quorumtest gives a test masters of its own: real redis-server
// processes, seen by each client directly or through proxies of its own, so that
// one client's network can fail while the others' does not.
package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/needs"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/stall"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/node"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// Masters are the masters of one test. They end with it.
type Masters struct {
	t       testing.TB
	Servers []*localredis.Server
	// Direct are clients to look with, one a master, past every proxy.
	Direct []*redis.Client
}

// Servers starts n redis-servers that end with the test, each with a client to look
// with, or skips the test where there is no redis-server.
func Servers(t testing.TB, n int, cfg localredis.Config) (servers []*localredis.Server, direct []*redis.Client) {
	t.Helper()
	needs.Redis(t)
	servers, err := localredis.StartN(context.Background(), n, cfg)
	NoErr(t, err)
	for _, s := range servers {
		opt, err := redis.ParseURL(s.URL())
		NoErr(t, err)
		direct = append(direct, redis.NewClient(opt))
	}
	t.Cleanup(func() {
		for i, s := range servers {
			_ = direct[i].Close()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return servers, direct
}

// Start starts n masters that vote, or skips the test where there is no
// redis-server.
func Start(t testing.TB, n int) *Masters {
	t.Helper()
	m := &Masters{t: t}
	m.Servers, m.Direct = Servers(t, n, localredis.Config{})
	Begin(t, m.URLs())
	return m
}

// Begin lets masters vote that have never voted, for clients with these options.
func Begin(t testing.TB, urls []string, opts ...redlock.Option) {
	t.Helper()
	list := admin.List{URLs: urls, Options: append(slices.Clone(opts), redlock.WithNodeTimeout(openTimeout/3))} // the machine may be busy
	for end := time.Now().Add(openTimeout); ; {
		err := admin.Init(context.Background(), list, nil, admin.NothingWasEverLocked)
		if !errors.Is(err, redlock.ErrUnreachable) || time.Now().After(end) {
			NoErr(t, err)
			return
		}
	}
}

// URLs are where the masters are, each with the name that all clients know it by.
func (m *Masters) URLs() []string {
	urls := make([]string, len(m.Servers))
	for i, s := range m.Servers {
		urls[i] = fmt.Sprintf("redis://%s?name=m%d", s.Addr(), i)
	}
	return urls
}

// nodeTimeout keeps a machine with more to do than to run these tests from looking
// like masters that do not answer.
const nodeTimeout = 3 * time.Second

var patient = redlock.WithNodeTimeout(nodeTimeout)

// Open opens a client that is closed with the test, if not before.
func (m *Masters) Open(opts ...redlock.Option) *redlock.Client {
	m.t.Helper()
	return open(m.t, m.URLs(), opts)
}

// openTimeout is how long masters that are up may take to answer.
const openTimeout = 30 * time.Second

func open(t testing.TB, urls []string, opts []redlock.Option) *redlock.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openTimeout)
	defer cancel()
	c, err := redlock.Open(ctx, urls, append([]redlock.Option{patient}, opts...)...)
	NoErr(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Path is a way to the masters that leads through proxies, for one client or
// more. They do nothing until told to.
type Path struct {
	m       *Masters
	Proxies []*faultproxy.Proxy
}

// Path returns a new way to the masters.
func (m *Masters) Path() *Path {
	m.t.Helper()
	p := &Path{m: m}
	for _, s := range m.Servers {
		proxy, err := faultproxy.Start(s.Addr())
		NoErr(m.t, err)
		m.t.Cleanup(func() { _ = proxy.Close() })
		p.Proxies = append(p.Proxies, proxy)
	}
	return p
}

// Open opens a client that goes this way.
func (p *Path) Open(opts ...redlock.Option) *redlock.Client {
	p.m.t.Helper()
	urls := make([]string, len(p.Proxies))
	for i, proxy := range p.Proxies {
		urls[i] = fmt.Sprintf("redis://%s?name=m%d", proxy.Addr(), i)
	}
	return open(p.m.t, urls, opts)
}

// Delay makes each round trip on this way longer by d.
func (p *Path) Delay(d time.Duration) {
	for _, proxy := range p.Proxies {
		proxy.Set(faultproxy.ToMaster, faultproxy.Fault{Delay: d / 2})
		proxy.Set(faultproxy.ToClient, faultproxy.Fault{Delay: d - d/2})
	}
}

// Vanish makes this way swallow everything, as when the host of its client lost
// its power: connections stay open and nothing comes of them.
func (p *Path) Vanish() {
	for _, proxy := range p.Proxies {
		proxy.Set(faultproxy.ToMaster, faultproxy.Fault{Drop: true})
		proxy.Set(faultproxy.ToClient, faultproxy.Fault{Drop: true})
	}
}

// Up are the masters that run.
func (m *Masters) up() (up []*redis.Client) {
	for i, s := range m.Servers {
		if s.PID() != 0 {
			up = append(up, m.Direct[i])
		}
	}
	return up
}

// Queue is the key of the queue for the lock called name.
func Queue(name string) string { return "redlock:queue:{" + name + "}" }

// Queued says whether n or more wait for the lock called name, as a majority of the
// masters has it in its queue. Not all need to: one that the holder has no vote of
// grants instead, and is given its vote back.
func (m *Masters) Queued(name string, n int) bool {
	m.t.Helper()
	have := 0
	for _, d := range m.up() {
		got, err := d.ZCard(context.Background(), Queue(name)).Result()
		NoErr(m.t, err)
		if int(got) >= n {
			have++
		}
	}
	return have > len(m.Servers)/2
}

// Waits waits until n wait for the lock called name.
func (m *Masters) Waits(name string, n int) {
	m.t.Helper()
	Soon(m.t, fmt.Sprintf("%d waiters for %q", n, name), func() bool { return m.Queued(name, n) })
}

// Keys are the keys named like pattern, each with the number of its master.
func (m *Masters) Keys(pattern string) (keys []string) {
	m.t.Helper()
	for i, d := range m.Direct {
		got, err := d.Keys(context.Background(), pattern).Result()
		NoErr(m.t, err)
		for _, k := range got {
			keys = append(keys, fmt.Sprintf("m%d:%s", i, k))
		}
	}
	return keys
}

// Fields is the hash at the lock called name on each running master.
func (m *Masters) Fields(name string) (fields []map[string]string) {
	m.t.Helper()
	for _, d := range m.up() {
		f, err := d.HGetAll(context.Background(), name).Result()
		NoErr(m.t, err)
		fields = append(fields, f)
	}
	return fields
}

// Channels is how many channels anybody is subscribed to, on all masters together.
func (m *Masters) Channels() (n int) {
	m.t.Helper()
	for _, d := range m.up() {
		chs, err := d.PubSubChannels(context.Background(), "*").Result()
		NoErr(m.t, err)
		n += len(chs)
	}
	return n
}

// Calls is how often master i has been sent script, or has executed a command
// (commands inside of scripts count, a script's own EVALSHA is one).
func (m *Masters) Calls(i int, command string) int {
	m.t.Helper()
	return Calls(m.t, m.Direct[i], command)
}

// Calls is that of the master behind direct.
func Calls(t testing.TB, direct *redis.Client, command string) int {
	t.Helper()
	info, err := direct.Info(context.Background(), "commandstats").Result()
	NoErr(t, err)
	found := regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(command) + `:calls=(\d+)`).FindStringSubmatch(info)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	NoErr(t, err)
	return n
}

// NothingLeft waits until what waiting had set up is gone from the masters:
// subscriptions, queues and signs of life. The last end by their TTL.
func (m *Masters) NothingLeft() {
	m.t.Helper()
	Soon(m.t, "no subscription, queue or sign of life is left", func() bool {
		return m.Channels() == 0 && len(m.Keys("redlock:queue:*"))+len(m.Keys("redlock:alive:*")) == 0
	})
}

// GivenBack waits until the keys named like each of patterns are gone from the masters that run. It fails if a TTL may have
// ended one of them: see [GivenBack].
func (m *Masters) GivenBack(patterns ...string) {
	m.t.Helper()
	GivenBack(m.t, m.up(), patterns...)
}

// Lossy opens a client that messages get lost on the way to: lose is asked for
// each, with the master's number, under no lock.
func (m *Masters) Lossy(lose func(master int) bool, opts ...redlock.Option) *redlock.Client {
	m.t.Helper()
	var nodes []protocol.Node
	for i, u := range m.URLs() {
		n, err := node.Open(u, node.Config{StallAfter: nodeTimeout})
		NoErr(m.t, err)
		nodes = append(nodes, lossy{n, func() bool { return lose(i) }})
	}
	c, err := redlock.New(m.t.Context(), nodes, append([]redlock.Option{patient}, opts...)...)
	NoErr(m.t, err)
	m.t.Cleanup(func() { _ = c.Close() })
	return c
}

type lossy struct {
	protocol.Node
	lose func() bool
}

func (l lossy) Bind(b protocol.Binding) error {
	deliver := b.Message
	b.Message = func(channel, payload string) {
		if !l.lose() {
			deliver(channel, payload)
		}
	}
	return l.Node.Bind(b)
}

// Strict says whether bounds are to hold that only a quiet machine can keep.
func Strict() bool { return os.Getenv("REDLOCK_STRICT") != "" }

// Scale is ci, or soak in a soak.
func Scale(ci, soak int) int {
	if needs.Now() == needs.TierSoak {
		return soak
	}
	return ci
}

// NoErr ends the test at an error.
func NoErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Is ends the test unless err is want.
func Is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

const (
	soonest = 29 * time.Second // that late waits for, behind Soon's first
	longest = 2 * time.Minute  // that it waits for a machine that stands still
)

// Soon waits until ok, for half a minute at most, and for as long as the machine held the test up meanwhile.
func Soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for ; !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Second {
			late(t, what, ok)
			return
		}
	}
}

// late is the rest of Soon. A meter costs processor time, and few wait for so long.
func late(t testing.TB, what string, ok func() bool) {
	t.Helper()
	meter := stall.Start()
	defer meter.Stop()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if t.Failed() { // what is waited for may never come
			t.FailNow()
		}
		if waited := time.Since(began); waited > soonest {
			held := meter.Held()
			if waited > soonest+min(held, longest) {
				t.Fatalf("not within %v, of which it was held up for %v: %s", waited.Round(time.Second), held.Round(time.Millisecond), what)
			}
		}
	}
}
