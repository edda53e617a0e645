// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/membership"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testredis/faultproxy"
	"github.com/redlock-go/redlock/internal/testredis/localredis"
	"github.com/redlock-go/redlock/internal/testredis/quorumtest"
	"github.com/redlock-go/redlock/node/lua"
	"github.com/redlock-go/redlock/redlock"
	"github.com/redlock-go/redlock/redlock/admin"
)

// masters are real redis-server processes of one test, each with a client that
// goes straight to it, past any proxy.
type masters struct {
	t       testing.TB
	servers []*localredis.Server
	proxies []*faultproxy.Proxy // of startProxied, else nil
	direct  []*redis.Client
}

// startMasters starts n masters, or skips the test where there is no redis-server.
func startMasters(t testing.TB, n int, cfg localredis.Config) *masters {
	t.Helper()
	ms := &masters{t: t}
	ms.servers, ms.direct = quorumtest.Servers(t, n, cfg)
	return ms
}

// startProxied is startMasters with a proxy before each.
func startProxied(t testing.TB, n int, cfg localredis.Config) *masters {
	t.Helper()
	ms := startMasters(t, n, cfg)
	for _, s := range ms.servers {
		p, err := faultproxy.Start(s.Addr())
		noErr(t, err)
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		ms.proxies = append(ms.proxies, p)
	}
	return ms
}

// urls are what clients dial: the proxies where there are some.
func (ms *masters) urls() []string {
	urls := make([]string, len(ms.servers))
	for i, s := range ms.servers {
		urls[i] = s.URL()
		if ms.proxies != nil {
			urls[i] = strings.Replace(urls[i], s.Addr(), ms.proxies[i].Addr(), 1)
		}
	}
	return urls
}

// patient does not take a machine that is busy with other tests for masters that do not answer.
var patient = redlock.WithNodeTimeout(3 * time.Second)

// open opens a client that is closed with the test. It is patient by default.
func (ms *masters) open(opts ...redlock.Option) *redlock.Client {
	ms.t.Helper()
	ctx, cancel := context.WithTimeout(ms.t.Context(), 30*time.Second)
	defer cancel()
	c, err := redlock.Open(ctx, ms.urls(), append([]redlock.Option{patient}, opts...)...)
	noErr(ms.t, err)
	ms.t.Cleanup(func() { _ = c.Close() })
	return c
}

// begin makes the masters, which are new, vote, and opens a client.
func (ms *masters) begin(opts ...redlock.Option) *redlock.Client {
	ms.t.Helper()
	initAt(ms.t, ms.urls(), opts...)
	return ms.open(opts...)
}

// initAt lets new masters vote at once, for clients with opts. It gives masters of a busy machine the time to answer.
func initAt(t testing.TB, urls []string, opts ...redlock.Option) {
	t.Helper()
	masters := list(urls, append(slices.Clone(opts), redlock.WithNodeTimeout(10*time.Second))...)
	for end := time.Now().Add(30 * time.Second); ; {
		err := admin.Init(context.Background(), masters, nil, admin.NothingWasEverLocked)
		if !errors.Is(err, redlock.ErrUnreachable) || time.Now().After(end) {
			noErr(t, err)
			return
		}
	}
}

func list(urls []string, opts ...redlock.Option) admin.List {
	return admin.List{URLs: urls, Options: append([]redlock.Option{redlock.WithNodeTimeout(time.Second)}, opts...)}
}

// holders are the holders that have a vote for lock, by master; "" where nobody has.
func (ms *masters) holders(lock string) []string {
	ms.t.Helper()
	got := make([]string, len(ms.direct))
	for i, d := range ms.direct {
		fields, err := d.HKeys(context.Background(), lock).Result()
		noErr(ms.t, err)
		got[i] = strings.Join(fields, " ")
	}
	return got
}

// votes is how many masters have holder's vote for lock.
func (ms *masters) votes(lock, holder string) int {
	ms.t.Helper()
	n := 0
	for _, h := range ms.holders(lock) {
		if h == holder {
			n++
		}
	}
	return n
}

// wantNoKeys fails unless there is no key named like pattern on the masters in
// on, or on any when none is named.
func (ms *masters) wantNoKeys(pattern string, on ...int) {
	ms.t.Helper()
	if left := ms.keys(pattern, on...); len(left) > 0 {
		ms.t.Errorf("keys left: %v", left)
	}
}

// givenBack waits until the keys named like each of patterns are gone, and fails if a TTL may have ended one. Unlock
// returns when a quorum has released the lock, and the other masters follow.
func (ms *masters) givenBack(patterns ...string) {
	ms.t.Helper()
	quorumtest.GivenBack(ms.t, ms.direct, patterns...)
}

// keys lists the keys named like pattern, with the master they are on.
func (ms *masters) keys(pattern string, on ...int) (left []string) {
	ms.t.Helper()
	if len(on) == 0 {
		on = ms.all()
	}
	for _, i := range on {
		keys, err := ms.direct[i].Keys(context.Background(), pattern).Result()
		noErr(ms.t, err)
		for _, k := range keys {
			left = append(left, fmt.Sprintf("%d:%s", i, k))
		}
	}
	return left
}

func (ms *masters) all() []int {
	all := make([]int, len(ms.servers))
	for i := range all {
		all[i] = i
	}
	return all
}

// each does f to the direct clients of the masters in on.
func (ms *masters) each(on []int, f func(d *redis.Client) error) {
	ms.t.Helper()
	for _, i := range on {
		noErr(ms.t, f(ms.direct[i]))
	}
}

// calls is how often master i has executed cmd, as its commandstats say.
func (ms *masters) calls(i int, cmd string) int {
	ms.t.Helper()
	return quorumtest.Calls(ms.t, ms.direct[i], cmd)
}

// setCounters sets every counter of the first n masters.
func (ms *masters) setCounters(n int, value int64) {
	ms.t.Helper()
	for i := range n {
		for k := range protocol.Counters {
			noErr(ms.t, ms.direct[i].HSet(context.Background(), protocol.RecordKey, protocol.CounterField(k), value).Err())
		}
	}
}

// recordState is the state in the node record of master i, as text.
func (ms *masters) recordState(i int) string {
	ms.t.Helper()
	text, err := ms.direct[i].HGet(context.Background(), protocol.RecordKey, "state").Result()
	if errors.Is(err, redis.Nil) {
		return ""
	}
	noErr(ms.t, err)
	return text
}

// phase is the phase in the record state of master i, 0 when it has none.
func (ms *masters) phase(i int) membership.Phase {
	ms.t.Helper()
	rs, err := membership.ParseRecordState(ms.recordState(i))
	noErr(ms.t, err)
	return rs.Phase
}

// bare has c, which has three masters, lock name without a vote of master i, where it
// is free afterwards.
func (ms *masters) bare(c *redlock.Client, i int, name string) *redlock.Lease {
	ms.t.Helper()
	d, ctx := ms.direct[i], ms.t.Context()
	noErr(ms.t, d.HSet(ctx, name, "stranger", "1").Err())
	noErr(ms.t, d.PExpire(ctx, name, time.Minute).Err())
	l, err := c.Mutex(name).TryLock(ctx)
	noErr(ms.t, err)
	next := locked(ms.t, c.Mutex(name+", too"))
	settled(ms.t, next, 3) // so master i has refused what came before
	noErr(ms.t, next.Unlock(ctx))
	noErr(ms.t, d.Del(ctx, name).Err())
	return l
}

// restart kills master i and starts it again.
func (ms *masters) restart(i int) {
	ms.t.Helper()
	noErr(ms.t, ms.servers[i].Kill())
	noErr(ms.t, ms.servers[i].Restart(context.Background()))
}

// runs matches the call of node/lua/name.lua.
func runs(t testing.TB, name string) faultproxy.Match {
	t.Helper()
	sha := fmt.Sprintf("%x", sha1.Sum([]byte(lua.Source(name))))
	return func(cmd [][]byte) bool {
		return len(cmd) > 1 && strings.EqualFold(string(cmd[0]), "evalsha") && string(cmd[1]) == sha
	}
}

// acquires matches calls of votes.lua with an acquire in them, releases those that
// only take votes back.
func acquires(t testing.TB) faultproxy.Match { return votes(t, true) }
func releases(t testing.TB) faultproxy.Match { return votes(t, false) }

// votes matches calls of votes.lua of which an op may be granted, or that are without any.
func votes(t testing.TB, acquires bool) faultproxy.Match {
	const header, stride = 5, 4 // as in votes.lua
	votes := runs(t, "votes")
	return func(cmd [][]byte) bool {
		if !votes(cmd) {
			return false
		}
		keys, _ := strconv.Atoi(string(cmd[2]))
		args := cmd[3+keys:]
		raises, _ := strconv.Atoi(string(args[0]))
		for at := header + 2*raises; at < len(args); at += stride {
			switch string(args[at]) {
			case "acquire", "join", "barge", "retry", "oust", "again":
				return acquires
			}
		}
		return !acquires
	}
}

var noErr = quorumtest.NoErr

// wantIs fails unless err is one of want in all and none of the other sentinels.
func wantIs(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Fatalf("got %v, want it to be %v", err, w)
		}
	}
}

// wantNotConfig fails if err is an ErrConfig: nothing in the program must change.
func wantNotConfig(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, redlock.ErrConfig) {
		t.Errorf("%v is an ErrConfig", err)
	}
}

// wantText fails unless err says all of words.
func wantText(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// locked locks m or fails.
func locked(t testing.TB, m redlock.Locker) *redlock.Lease {
	t.Helper()
	l, err := m.Lock(t.Context())
	noErr(t, err)
	return l
}

// settled waits until all n votes of l are there and have been counted: Lock returns
// at the quorum.
func settled(t testing.TB, l *redlock.Lease, n int) {
	t.Helper()
	soon(t, "every vote is counted", func() bool { return redlock.CountedVotes(l) == n })
}

// soon waits until ok, for half a minute at most: a machine may be busy.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	quorumtest.Soon(t, what, ok)
}

func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
